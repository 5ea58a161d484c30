package replay

import (
	"math/bits"
	"math/rand/v2"
)

// places finds the counters of addresses: a hash table with linear probing, less
// than half full. What it holds of each is so little that it stays in a processor's
// own cache, and nearly always tells the counter without a look at others.
//
// The hash is seeded anew each time: who chooses addresses can't choose where they
// come to lie.
type places struct {
	entries []place
	seed    address
}

// place is a part of an address's hash in the upper half and, in the lower, a
// counter plus one; 0 is none.
type place uint32

const (
	placeBits = 17 // more than twice maxTop
	_         = uint(1<<placeBits - 2*maxTop)
	_         = uint(1<<16 - 1 - maxTop) // fits half a place
)

func newPlaces() places {
	return places{make([]place, 1<<placeBits), address{rand.Uint64(), rand.Uint64()}}
}

func (p place) tag() uint32     { return uint32(p >> 16) }
func (p place) counter() uint32 { return uint32(p&(1<<16-1)) - 1 }

// hash multiplies and folds as wyhash does.
func (p *places) hash(v address) uint32 {
	hi, lo := bits.Mul64(v.hi^p.seed.hi, v.lo^p.seed.lo)
	return uint32((hi ^ lo) >> 32)
}

// home is where the place of an address best is, and tag what it says besides.
func home(hash uint32) uint32 { return hash >> (32 - placeBits) }
func tag(hash uint32) uint32  { return hash & (1<<16 - 1) }

func after(at uint32) uint32 { return (at + 1) % (1 << placeBits) }

// first returns a counter that likely is that of an address, by its hash; one that
// can't be if there is none.
func (p *places) first(hash uint32) uint32 { return p.entries[home(hash)].counter() }

// put adds a counter whose address is not there.
func (p *places) put(hash, c uint32) {
	at := home(hash)
	for p.entries[at] != 0 {
		at = after(at)
	}
	p.entries[at] = place(tag(hash)<<16 | c + 1)
}

// delete removes a counter that is there, and moves those behind it up that would
// not be found across the gap.
func (p *places) delete(c uint32, counters []counter) {
	gap := home(p.hash(counters[c].value))
	for p.entries[gap].counter() != c {
		gap = after(gap)
	}
	for at := after(gap); p.entries[at] != 0; at = after(at) {
		best := home(p.hash(counters[p.entries[at].counter()].value))
		if (at-best)%(1<<placeBits) >= (at-gap)%(1<<placeBits) {
			p.entries[gap], gap = p.entries[at], at
		}
	}
	p.entries[gap] = 0
}
