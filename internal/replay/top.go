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
	index    map[T]uint32 // to counters, which stay where they are
	counters []counter[T]
	queue    []uint32 // once all are taken: a heap of counters, the smallest first as they were when it was put in order
	total    uint64
	sum      uint64 // see near

	// recent holds, by the hash of a value, the counter of the latest one that
	// has it: for most values that come often it is their own.
	recent []uint32
	hash   func(T) uint32 // of which the lower bits are used
}

// maxRecent is a power of two that keeps recent in a processor's own cache.
const maxRecent = 1 << 17

type counter[T comparable] struct {
	value T
	n     uint64
	over  uint64 // at most so many of n are another's
	was   uint64 // n when its place in the queue was found
}

func newTop[T comparable](hash func(T) uint32) *top[T] {
	return &top[T]{index: map[T]uint32{}, recent: make([]uint32, maxRecent), hash: hash}
}

// near brings the counters of values near to the processor, those of all at once.
func (t *top[T]) near(values []T) {
	var first [maxWaiting]uint32
	for i, v := range values {
		first[i] = t.recent[t.hash(v)%maxRecent]
	}
	for _, c := range first[:len(values)] {
		if int(c) < len(t.counters) {
			t.sum += t.counters[c].n
		}
	}
}

// add counts a value, and reports whether it has no counter yet.
func (t *top[T]) add(v T) (fresh bool) {
	t.total++
	recent := &t.recent[t.hash(v)%maxRecent]
	if c := *recent; int(c) < len(t.counters) && t.counters[c].value == v {
		t.counters[c].n++
		return false
	}
	i, known := t.index[v]
	switch {
	case known:
	case len(t.counters) < maxTop:
		i = uint32(len(t.counters))
		t.counters = append(t.counters, counter[T]{value: v})
		t.index[v] = i
	default:
		i = t.least()
		c := &t.counters[i]
		delete(t.index, c.value)
		c.value, c.over = v, c.n
		t.index[v] = i
	}
	t.counters[i].n++
	*recent = i
	return !known
}

// least returns the smallest counter. Counters only grow, so one whose place is
// from when it was as large as now, and that was smaller than all others then,
// still is.
func (t *top[T]) least() uint32 {
	if t.queue == nil {
		t.queue = make([]uint32, len(t.counters))
		for i := range t.queue {
			t.queue[i] = uint32(i)
			t.counters[i].was = t.counters[i].n
		}
		for i := len(t.queue)/2 - 1; i >= 0; i-- {
			t.down(i)
		}
	}
	for {
		i := t.queue[0]
		c := &t.counters[i]
		if c.was == c.n {
			return i
		}
		c.was = c.n
		t.down(0)
	}
}

// down moves a counter of the queue that has grown to its place.
func (t *top[T]) down(i int) {
	was := func(i int) uint64 { return t.counters[t.queue[i]].was }
	for {
		least := 2*i + 1
		if least >= len(t.queue) {
			return
		}
		if right := least + 1; right < len(t.queue) && was(right) < was(least) {
			least = right
		}
		if was(i) <= was(least) {
			return
		}
		t.queue[i], t.queue[least] = t.queue[least], t.queue[i]
		i = least
	}
}

// most returns the n values that came most often, the most frequent first;
// among equals the first by order.
func (t *top[T]) most(n int, order func(a, b T) int) []counter[T] {
	before := func(a, b counter[T]) int {
		if by := cmp.Compare(b.n-b.over, a.n-a.over); by != 0 {
			return by
		}
		return order(a.value, b.value)
	}
	var most []counter[T]
	for _, c := range t.counters { // far more than are asked for: they aren't sorted
		if len(most) == n && (n == 0 || before(c, most[n-1]) > 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(most, c, before)
		most = slices.Insert(most, at, c)
		most = most[:min(n, len(most))]
	}
	return most
}
