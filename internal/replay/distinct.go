package replay

import (
	"hash/maphash"
	"math"
	"math/bits"

	"github.com/tailban/tailban/internal/words"
)

const (
	fewDistinct = 50_000 // counted exactly
	logSketch   = 14     // log2 of the sketch's registers: 0.8 % standard error
)

// distinct counts different values, exactly while they are few, and within
// about one percent beyond, in constant memory (HyperLogLog: Flajolet, Fusy,
// Gandouet, Meunier, 2007).
type distinct[T comparable] struct {
	few    map[T]struct{}
	seed   maphash.Seed
	sketch []uint8 // nil while few are counted

	// recent holds, by hash, the value that was added last: those that come
	// often are not looked for again.
	recent []T
	none   T              // T's zero value, with which they begin
	hash   func(T) uint32 // of which the lower bits are used
}

// recentDistinct is a power of two.
const recentDistinct = 1 << 14

// newDistinct makes a count of none. hash need be no more than quick.
func newDistinct[T comparable](hash func(T) uint32) *distinct[T] {
	return &distinct[T]{few: map[T]struct{}{}, seed: maphash.MakeSeed(), recent: make([]T, recentDistinct), hash: hash}
}

func (d *distinct[T]) add(v T) {
	recent := &d.recent[d.hash(v)%recentDistinct]
	if *recent == v && v != d.none {
		return
	}
	*recent = v
	if d.sketch != nil {
		d.sketchAdd(v)
		return
	}
	d.few[v] = struct{}{}
	if len(d.few) <= fewDistinct {
		return
	}
	d.sketch = make([]uint8, 1<<logSketch)
	for v := range d.few {
		d.sketchAdd(v)
	}
	d.few = nil
}

func (d *distinct[T]) sketchAdd(v T) {
	h := maphash.Comparable(d.seed, v)
	i := h >> (64 - logSketch)
	rank := uint8(bits.LeadingZeros64(h<<logSketch|1)) + 1
	d.sketch[i] = max(d.sketch[i], rank)
}

// count returns how many there were, and whether that is exact.
func (d *distinct[T]) count() (n int, exact bool) {
	if d.sketch == nil {
		return len(d.few), true
	}
	m := float64(len(d.sketch))
	sum := 0.0
	for _, r := range d.sketch {
		sum += math.Exp2(-float64(r))
	}
	return int(0.7213 / (1 + 1.079/m) * m * m / sum), false
}

func (d *distinct[T]) String() string {
	n, exact := d.count()
	if exact {
		return words.Thousands(n)
	}
	return "about " + words.Thousands(n)
}
