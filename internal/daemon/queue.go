package daemon

import (
	"container/heap"
	"time"
)

// queue holds items in an order. An item can be in several queues; it keeps its
// place in each.
type queue[T any] struct {
	less  func(a, b *T) bool
	place func(*T) *int
	heap  itemHeap[T]
}

// newQueue makes one in the order of a time that each item has.
func newQueue[T any](due func(*T) time.Time, place func(*T) *int) *queue[T] {
	return newQueueBy(func(a, b *T) bool { return due(a).Before(due(b)) }, place)
}

func newQueueBy[T any](less func(a, b *T) bool, place func(*T) *int) *queue[T] {
	q := &queue[T]{less: less, place: place}
	q.heap.queue = q
	return q
}

// first returns the first item, nil if there is none.
func (q *queue[T]) first() *T {
	if len(q.heap.items) == 0 {
		return nil
	}
	return q.heap.items[0]
}

func (q *queue[T]) len() int { return len(q.heap.items) }

func (q *queue[T]) add(x *T) { heap.Push(&q.heap, x) }

// moved is to be called when what an item is ordered by has changed.
func (q *queue[T]) moved(x *T) { heap.Fix(&q.heap, *q.place(x)) }

func (q *queue[T]) remove(x *T) { heap.Remove(&q.heap, *q.place(x)) }

// itemHeap is a queue as container/heap sees it.
type itemHeap[T any] struct {
	*queue[T]
	items []*T
}

func (h *itemHeap[T]) Len() int           { return len(h.items) }
func (h *itemHeap[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *itemHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.place(h.items[i]), *h.place(h.items[j]) = i, j
}

func (h *itemHeap[T]) Push(x any) {
	item := x.(*T)
	*h.place(item) = len(h.items)
	h.items = append(h.items, item)
}

func (h *itemHeap[T]) Pop() any {
	end := len(h.items) - 1
	item := h.items[end]
	h.items[end] = nil
	h.items = h.items[:end]
	return item
}
