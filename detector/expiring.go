package detector

import "container/heap"

// expiring is a map whose entries end at a time of their own and whose size
// is capped. When it is full the entry that ends soonest makes room.
type expiring[K comparable, V any] struct {
	cap     int
	entries map[K]*expiringEntry[K, V]
	queue   expiringQueue[K, V]
	noted   func(k K, n int) // hears of each new entry (1) and of its end (-1)
	evicted uint64

	// recent holds, by hash, the entry that was found last: who is banned and
	// goes on asking is found without the map. Entries that have gone are not
	// in it.
	recent []*expiringEntry[K, V]
	hash   func(K) uint32 // of which the lower bits are used
}

// maxRecent is how many entries are found without the map: a power of two.
const maxRecent = 1 << 12

type expiringEntry[K comparable, V any] struct {
	key   K
	value V
	until int64
	at    int // in the queue
}

// newExpiring makes an empty map. hash need be no more than quick.
func newExpiring[K comparable, V any](cap int, hash func(K) uint32, noted func(k K, n int)) *expiring[K, V] {
	return &expiring[K, V]{
		cap: cap, entries: map[K]*expiringEntry[K, V]{}, noted: noted,
		recent: make([]*expiringEntry[K, V], maxRecent), hash: hash,
	}
}

// setCap sets how many entries there may be.
func (m *expiring[K, V]) setCap(n int) {
	m.cap = n
	for len(m.entries) > n {
		m.evicted++
		m.drop(m.queue[0])
	}
}

func (m *expiring[K, V]) len() int { return len(m.entries) }

// get returns the entry that still runs at t.
func (m *expiring[K, V]) get(k K, t int64) (v V, until int64, ok bool) {
	recent := &m.recent[m.hash(k)%maxRecent]
	e := *recent
	if e == nil || e.key != k {
		if e = m.entries[k]; e == nil {
			return v, 0, false
		}
		*recent = e
	}
	if e.until <= t {
		return v, 0, false
	}
	return e.value, e.until, true
}

// near brings the entry that get most likely finds near to the processor.
func (m *expiring[K, V]) near(k K) int64 {
	if e := m.recent[m.hash(k)%maxRecent]; e != nil {
		return e.until
	}
	return 0
}

// put sets an entry.
func (m *expiring[K, V]) put(k K, v V, until int64) {
	if e, ok := m.entries[k]; ok {
		e.value, e.until = v, until
		heap.Fix(&m.queue, e.at)
		return
	}
	if len(m.entries) >= m.cap && len(m.queue) > 0 {
		m.evicted++
		m.drop(m.queue[0])
	}
	e := &expiringEntry[K, V]{key: k, value: v, until: until}
	m.entries[k] = e
	heap.Push(&m.queue, e)
	m.noted(k, 1)
}

func (m *expiring[K, V]) delete(k K) {
	if e, ok := m.entries[k]; ok {
		m.drop(e)
	}
}

// forget drops what has ended at t.
func (m *expiring[K, V]) forget(t int64) {
	for len(m.queue) > 0 && m.queue[0].until <= t {
		m.drop(m.queue[0])
	}
}

func (m *expiring[K, V]) drop(e *expiringEntry[K, V]) {
	heap.Remove(&m.queue, e.at)
	delete(m.entries, e.key)
	if recent := &m.recent[m.hash(e.key)%maxRecent]; *recent == e {
		*recent = nil
	}
	m.noted(e.key, -1)
}

// expiringQueue is a heap by end.
type expiringQueue[K comparable, V any] []*expiringEntry[K, V]

func (q expiringQueue[K, V]) Len() int           { return len(q) }
func (q expiringQueue[K, V]) Less(i, j int) bool { return q[i].until < q[j].until }
func (q expiringQueue[K, V]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *expiringQueue[K, V]) Push(x any) {
	e := x.(*expiringEntry[K, V])
	e.at = len(*q)
	*q = append(*q, e)
}

func (q *expiringQueue[K, V]) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
