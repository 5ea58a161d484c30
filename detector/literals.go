package detector

import "slices"

// literals finds which of many texts occur in another one, without regard to
// the case of ASCII letters, in one pass (Aho and Corasick, 1975). Of each text
// it has a set of bits; what is found is the union.
//
// Its automaton is a table of states by classes of bytes, so that the few
// kilobytes of some dozens of texts stay in a processor's first cache.
type literals struct {
	class [256]uint16 // of a byte: 0 for those in no text
	width int         // classes
	next  []uint32    // by state, a multiple of width, and class: the next state, and found if texts end there
	bits  []uint64    // by state (its number, not the multiple): what is found there
	words int         // of a set
}

// found is set in next for states in which a text ends.
const found = 1 << 31

// literal is a text to find, and what it stands for.
type literal struct {
	text []byte
	bits []uint64
}

// newLiterals makes an automaton, or none if its size were more than there is
// room for. None of the texts is empty.
func newLiterals(texts []literal, words, room int) *literals {
	l := &literals{width: 1, words: words}
	for _, x := range texts {
		for _, c := range x.text {
			if c = lower(c); l.class[c] == 0 {
				l.class[c] = uint16(l.width)
				l.width++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		l.class[c] = l.class[lower(c)]
	}
	l.state()
	for _, x := range texts {
		at := uint32(0)
		for _, c := range x.text {
			to := at + uint32(l.class[c])
			if l.next[to] == 0 {
				l.next[to] = l.state()
			}
			at = l.next[to]
		}
		or(l.found(at), x.bits)
		if l.size() > room {
			return nil
		}
	}
	l.link()
	return l
}

// size is what it takes, in entries of four bytes.
func (l *literals) size() int { return len(l.next) + 2*len(l.bits) }

// state adds a state, of which all ways lead to the first one.
func (l *literals) state() uint32 {
	s := len(l.next)
	l.next = slices.Grow(l.next, l.width)[:s+l.width]
	l.bits = slices.Grow(l.bits, l.words)[:len(l.bits)+l.words]
	return uint32(s)
}

func (l *literals) found(state uint32) []uint64 {
	n := int(state) / l.width * l.words
	return l.bits[n : n+l.words]
}

// link completes the tree of texts to an automaton: where no text goes on, the
// longest end of what was read that begins one does. In order of length, so
// that those of shorter ends are complete already.
func (l *literals) link() {
	fail := make([]uint32, len(l.next)/l.width)
	queue := []uint32{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f := fail[int(s)/l.width]
		for c := range uint32(l.width) {
			to := l.next[s+c]
			switch {
			case to != 0:
				if s != 0 {
					fail[int(to)/l.width] = l.next[f+c]
				}
				or(l.found(to), l.found(fail[int(to)/l.width]))
				queue = append(queue, to)
			case s != 0:
				l.next[s+c] = l.next[f+c]
			}
		}
	}
	for i, to := range l.next {
		if slices.ContainsFunc(l.found(to), func(w uint64) bool { return w != 0 }) {
			l.next[i] |= found
		}
	}
}

// find adds to a set what is found in text.
func (l *literals) find(text []byte, set []uint64) {
	s := uint32(0)
	for _, c := range text {
		if s = l.next[s+uint32(l.class[c])]; s&found != 0 {
			s &^= found
			or(set, l.found(s))
		}
	}
}

// in reports whether any of the texts occurs in text.
func (l *literals) in(text []byte) bool {
	s := uint32(0)
	for _, c := range text {
		if s = l.next[s+uint32(l.class[c])]; s&found != 0 {
			return true
		}
	}
	return false
}

func or(set, more []uint64) {
	for i, w := range more {
		set[i] |= w
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
