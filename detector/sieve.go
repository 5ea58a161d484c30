package detector

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// sieve tells quickly of nearly all keys that are not in a set that they are
// not. It counts the keys of each hash (a counting Bloom filter with one hash);
// those that it lets pass are to be looked for.
type sieve struct {
	counts []uint16 // a power of two of them; nil: the set is empty
	n      int
	seed   [2]uint64
}

// spread is how many counts there are at least for each key of the set.
const spread = 4

func newSieve() sieve { return sieve{seed: [2]uint64{rand.Uint64(), rand.Uint64()}} }

func (s *sieve) at(k key) int {
	hi, lo := bits.Mul64(k.hi^s.seed[0], k.lo^s.seed[1])
	return int((hi ^ lo) & uint64(len(s.counts)-1))
}

// may reports whether a key may be in the set.
func (s *sieve) may(k key) bool { return len(s.counts) > 0 && s.counts[s.at(k)] != 0 }

// add takes a key into the set once more, and reports whether the sieve is too
// small for as many: then it is to be made anew.
func (s *sieve) add(k key) (small bool) {
	s.n++
	if spread*s.n > len(s.counts) {
		return true
	}
	if c := &s.counts[s.at(k)]; *c < math.MaxUint16 {
		*c++
	}
	return false
}

// remove takes a key out of the set once. A count that was at its end stays
// there: it lets too many pass, and never too few.
func (s *sieve) remove(k key) {
	s.n--
	if c := &s.counts[s.at(k)]; *c < math.MaxUint16 {
		*c--
	}
}

// reset empties the sieve, with room for twice as many keys as there were.
func (s *sieve) reset() {
	size := 1 << bits.Len(uint(2*spread*max(s.n, 32)))
	s.counts, s.n = make([]uint16, size), 0
}
