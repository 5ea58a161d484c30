package detector

import "hash/maphash"

const (
	memoSize = 1 << 10 // texts that are remembered at most
	memoText = 256     // bytes of a text: longer ones are not
)

// memo remembers which jails let a text pass. Most agents and many paths come
// again and again; those that don't cost little more than without it. It takes
// 300 KB at most, and 8 KB more for each 64 jails.
type memo struct {
	seed    maphash.Seed
	entries []memoEntry
	words   int
	sets    []uint64 // of the entries, and of a text that is not remembered
}

type memoEntry struct {
	known bool
	text  []byte
}

func newMemo(words int) memo {
	return memo{seed: maphash.MakeSeed(), entries: make([]memoEntry, memoSize), words: words, sets: make([]uint64, (memoSize+1)*words)}
}

// look returns the set of a text. If it is not known, the caller fills it in.
func (m *memo) look(text []byte) (set []uint64, known bool) {
	n := memoSize
	if len(text) <= memoText {
		n = int(maphash.Bytes(m.seed, text) % memoSize)
		e := &m.entries[n]
		if known = e.known && string(e.text) == string(text); !known {
			e.known, e.text = true, append(e.text[:0], text...)
		}
	}
	return m.sets[n*m.words : (n+1)*m.words], known
}
