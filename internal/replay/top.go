package replay

import (
	"cmp"
	"slices"
)

// maxTop is how many clients are counted one by one, in about 6 MB.
const maxTop = 50_000

// top counts how often each of many addresses comes, for those that come most.
// While there are at most maxTop different ones it is exact. Beyond that it
// keeps maxTop counters, of which the smallest goes to whoever is new and
// carries on from there (space-saving: Metwally, Agrawal, El Abbadi, 2005): who
// comes more often than once in maxTop times is among them, and is counted
// too high by at most what its counter began with.
type top struct {
	index    map[address]uint32 // to counters, which stay where they are
	counters []counter
	queue    []queued // once all are taken: a heap, the smallest first as they were when it was put in order
	total    uint64
	sum      uint64 // see near

	// recent holds, by the hash of an address, the counter of the latest one that
	// has it: for most addresses that come often it is their own.
	recent []uint32
}

// maxRecent is a power of two that keeps recent in a processor's own cache.
const maxRecent = 1 << 17

// counter is half a cache line.
type counter struct {
	value address
	n     uint64
	over  uint64 // at most so many of n are another's
}

// queued is a counter in the queue, by what its n was when it was put there.
type queued struct {
	was     uint64
	counter uint32
}

func newTop() *top {
	return &top{index: map[address]uint32{}, recent: make([]uint32, maxRecent)}
}

// place is where in recent an address may be.
func (a address) place() uint32 { return a.hash() % maxRecent }

// near brings the counters of addresses near to the processor, those of all at once,
// and tells their places.
func (t *top) near(values []address, places *[maxWaiting]uint32) {
	var first [maxWaiting]uint32
	for i := range values {
		p := values[i].place()
		places[i], first[i] = p, t.recent[p]
	}
	sum := uint64(0)
	for _, c := range first[:len(values)] {
		if int(c) < len(t.counters) {
			sum += t.counters[c].n
		}
	}
	t.sum += sum
}

// add counts an address, whose place is known, and reports whether it has no counter
// yet.
func (t *top) add(v address, place uint32) (fresh bool) {
	t.total++
	recent := &t.recent[place]
	if c := int(*recent); c < len(t.counters) {
		if c := &t.counters[c]; c.value == v {
			c.n++
			return false
		}
	}
	i, known := t.index[v]
	switch {
	case known:
	case len(t.counters) < maxTop:
		i = uint32(len(t.counters))
		t.counters = append(t.counters, counter{value: v})
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
func (t *top) least() uint32 {
	if t.queue == nil {
		t.queue = make([]queued, len(t.counters))
		for i := range t.queue {
			t.queue[i] = queued{t.counters[i].n, uint32(i)}
		}
		for i := len(t.queue)/2 - 1; i >= 0; i-- {
			t.down(i)
		}
	}
	for {
		first := &t.queue[0]
		n := t.counters[first.counter].n
		if first.was == n {
			return first.counter
		}
		first.was = n
		t.down(0)
	}
}

// down moves a counter of the queue that has grown to its place.
func (t *top) down(i int) {
	q := t.queue
	for {
		least := 2*i + 1
		if least >= len(q) {
			return
		}
		if right := least + 1; right < len(q) && q[right].was < q[least].was {
			least = right
		}
		if q[i].was <= q[least].was {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// most returns the n addresses that came most often, the most frequent first;
// among equals the first by order.
func (t *top) most(n int, order func(a, b address) int) []counter {
	before := func(a, b counter) int {
		if by := cmp.Compare(b.n-b.over, a.n-a.over); by != 0 {
			return by
		}
		return order(a.value, b.value)
	}
	var most []counter
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
