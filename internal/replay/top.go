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
	places   places    // of the counters
	counters []counter // which stay where they are
	over     []uint64  // at most so many of what each has counted are another's
	queue    []queued  // once all are taken: a heap, the smallest first as they were when it was put in order
	total    uint64
	sum      uint64 // see near
}

// counter is half a cache line.
type counter struct {
	value  address
	n      uint64
	latest uint64 // for whoever counts
}

// counted is what a counter has counted.
type counted struct {
	value   address
	n, over uint64
}

// queued is a counter in the queue, by what its n was when it was put there.
type queued struct {
	was     uint64
	counter uint32
}

func newTop() *top { return &top{places: newPlaces()} }

// near brings the counters of addresses near to the processor, those of all at once,
// and tells the addresses' hashes.
func (t *top) near(values []address, hashes *[maxWaiting]uint32) {
	var first [maxWaiting]uint32
	for i := range values {
		h := t.places.hash(values[i])
		hashes[i], first[i] = h, t.places.first(h)
	}
	sum := uint64(0)
	for _, c := range first[:len(values)] {
		if int(c) < len(t.counters) {
			sum += t.counters[c].n
		}
	}
	t.sum += sum
}

// add counts an address, whose hash is known. fresh: it had no counter before.
func (t *top) add(v address, hash uint32) (c *counter, fresh bool) {
	t.total++
	i, known := t.find(v, hash)
	if !known {
		i = t.take(v, hash)
	}
	c = &t.counters[i]
	c.n++
	return c, !known
}

// find returns the counter of an address.
func (t *top) find(v address, hash uint32) (c uint32, known bool) {
	for at := home(hash); ; at = after(at) {
		switch e := t.places.entries[at]; {
		case e == 0:
			return 0, false
		case e.tag() == tag(hash) && t.counters[e.counter()].value == v:
			return e.counter(), true
		}
	}
}

// take gives an address a counter: one more or, if there are as many as there may
// be, the smallest.
func (t *top) take(v address, hash uint32) (c uint32) {
	if len(t.counters) < maxTop {
		c = uint32(len(t.counters))
		t.counters, t.over = append(t.counters, counter{value: v}), append(t.over, 0)
	} else {
		c = t.least()
		x := &t.counters[c]
		t.places.delete(c, t.counters)
		x.value, t.over[c] = v, x.n
	}
	t.places.put(hash, c)
	return c
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
func (t *top) most(n int, order func(a, b address) int) []counted {
	before := func(a, b counted) int {
		if by := cmp.Compare(b.n-b.over, a.n-a.over); by != 0 {
			return by
		}
		return order(a.value, b.value)
	}
	var most []counted
	for i := range t.counters { // far more than are asked for: they aren't sorted
		c := counted{t.counters[i].value, t.counters[i].n, t.over[i]}
		if len(most) == n && (n == 0 || before(c, most[n-1]) > 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(most, c, before)
		most = slices.Insert(most, at, c)
		most = most[:min(n, len(most))]
	}
	return most
}
