package replay

import (
	"cmp"
	"slices"
)

// maxTop is how many clients are counted one by one, in about 6 MB.
const maxTop = 50_000

// top counts how often each of many values comes, for those that come most.
// While there are at most maxTop different ones it is exact. Beyond that it
// keeps maxTop counters, of which the smallest goes to whoever is new and
// carries on from there (space-saving: Metwally, Agrawal, El Abbadi, 2005): who
// comes more often than once in maxTop times is among them, and is counted
// too high by at most what its counter began with.
type top[T comparable] struct {
	index map[T]uint32 // to heap
	heap  []counter[T] // in any order until it is full, then the smallest first
	total uint64
	last  uint32 // counter of the value before, if there was one
}

type counter[T comparable] struct {
	value T
	n     uint64
	over  uint64 // at most so many of n are another's
}

func newTop[T comparable]() *top[T] { return &top[T]{index: map[T]uint32{}} }

// add counts a value, and reports whether it has no counter yet.
func (t *top[T]) add(v T) (fresh bool) {
	t.total++
	if int(t.last) < len(t.heap) && t.heap[t.last].value == v { // most come in runs
		t.count(t.last)
		return false
	}
	i, known := t.index[v]
	switch {
	case known:
	case len(t.heap) < maxTop:
		i = uint32(len(t.heap))
		t.heap = append(t.heap, counter[T]{value: v})
		t.index[v] = i
		if len(t.heap) == maxTop {
			t.order()
			i = t.index[v]
		}
	default:
		least := &t.heap[0]
		delete(t.index, least.value)
		least.value, least.over = v, least.n
		t.index[v], i = 0, 0
	}
	t.count(i)
	return !known
}

// count adds one to a counter, and keeps the heap in order once it is full.
func (t *top[T]) count(i uint32) {
	t.heap[i].n++
	if len(t.heap) == maxTop {
		i = t.down(i)
	}
	t.last = i
}

func (t *top[T]) order() {
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		t.down(uint32(i))
	}
}

// down moves a counter that has grown to its place, which it returns.
func (t *top[T]) down(i uint32) uint32 {
	for {
		least := 2*i + 1
		if int(least) >= len(t.heap) {
			return i
		}
		if right := least + 1; int(right) < len(t.heap) && t.heap[right].n < t.heap[least].n {
			least = right
		}
		if t.heap[i].n <= t.heap[least].n {
			return i
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		t.index[t.heap[i].value], t.index[t.heap[least].value] = i, least
		i = least
	}
}

// most returns the n values that came most often, the most frequent first;
// among equals the first by less.
func (t *top[T]) most(n int, less func(a, b T) int) []counter[T] {
	sorted := slices.Clone(t.heap)
	slices.SortFunc(sorted, func(a, b counter[T]) int {
		return cmp.Or(cmp.Compare(b.n-b.over, a.n-a.over), less(a.value, b.value))
	})
	return sorted[:min(n, len(sorted))]
}
