package detector

import (
	"math/bits"
	"math/rand/v2"
)

// index finds the slots of a table by their keys. It is a hash table with
// linear probing that holds no pointers and no keys: an entry is a part of the
// key's hash and the slot's number, so that nearly every look-up touches one
// cache line here and one slot.
//
// The hash is seeded anew in each process, as that of Go's maps: who chooses
// addresses can't choose where they come to lie. Nothing that is decided
// depends on it.
type index struct {
	entries []entry // a power of two of them, at most three quarters in use
	n       int
	shift   uint8 // of a tag, to where its entry would best be
	seed    [3]uint64
}

// entry is a tag in the upper half and, in the lower, a slot's number plus one;
// 0 is none.
type entry uint64

func newEntry(tag, slot uint32) entry { return entry(tag)<<32 | entry(slot+1) }

func (e entry) tag() uint32  { return uint32(e >> 32) }
func (e entry) slot() uint32 { return uint32(e) - 1 }

// minIndex is the smallest size of an index, in entries, as a power of two.
const minIndex = 6

func newIndex() index {
	return index{
		entries: make([]entry, 1<<minIndex), shift: 32 - minIndex,
		seed: [3]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64() | 1},
	}
}

// hash returns the tag of a key, by multiplying and folding as wyhash does.
func (x *index) hash(k tableKey) uint32 {
	hi, lo := bits.Mul64(k.hi^x.seed[0], k.lo^x.seed[1])
	hi, lo = bits.Mul64(hi^lo^uint64(k.rule)<<8^uint64(k.bits), x.seed[2])
	return uint32((hi ^ lo) >> 32)
}

// near returns the first entry that may be a key's, which mostly is its own; 0: it has
// none.
func (x *index) near(k tableKey) entry {
	tag := x.hash(k)
	for at := x.home(tag); ; at = x.after(at) {
		if e := x.entries[at]; e == 0 || e.tag() == tag {
			return e
		}
	}
}

func (x *index) home(tag uint32) uint32 { return tag >> x.shift }

func (x *index) after(at uint32) uint32 { return (at + 1) & uint32(len(x.entries)-1) }

func (x *index) len() int { return x.n }

// put adds a key that is not there.
func (x *index) put(k tableKey, slot uint32) {
	if 4*(x.n+1) > 3*len(x.entries) {
		x.resize(x.shift - 1)
	}
	x.insert(newEntry(x.hash(k), slot))
	x.n++
}

func (x *index) insert(e entry) {
	at := x.home(e.tag())
	for x.entries[at] != 0 {
		at = x.after(at)
	}
	x.entries[at] = e
}

// delete removes a key that is there, and moves those behind it up that would
// not be found across the gap.
func (x *index) delete(k tableKey, slot uint32) {
	e := newEntry(x.hash(k), slot)
	gap := x.home(e.tag())
	for x.entries[gap] != e {
		gap = x.after(gap)
	}
	mask := uint32(len(x.entries) - 1)
	for at := x.after(gap); x.entries[at] != 0; at = x.after(at) {
		if home := x.home(x.entries[at].tag()); (at-home)&mask >= (at-gap)&mask {
			x.entries[gap], gap = x.entries[at], at
		}
	}
	x.entries[gap] = 0
	x.n--
	if x.shift < 32-minIndex && 8*x.n < len(x.entries) {
		x.resize(x.shift + 1) // what a flood has taken is given back
	}
}

// resize goes by tags alone: it touches no slot.
func (x *index) resize(shift uint8) {
	old := x.entries
	x.entries, x.shift = make([]entry, 1<<(32-shift)), shift
	for _, e := range old {
		if e != 0 {
			x.insert(e)
		}
	}
}
