package daemon

import (
	"container/heap"
	"time"
)

// queue holds items in the order of a time that each has. An item can be in
// several queues; it keeps its place in each.
type queue[T any] struct {
	due   func(*T) time.Time
	place func(*T) *int
	heap  itemHeap[T]
}

func newQueue[T any](due func(*T) time.Time, place func(*T) *int) *queue[T] {
	q := &queue[T]{due: due, place: place}
	q.heap.queue = q
	return q
}

// first returns the item whose time is the earliest, nil if there is none.
func (q *queue[T]) first() *T {
	if len(q.heap.items) == 0 {
		return nil
	}
	return q.heap.items[0]
}

func (q *queue[T]) add(x *T) { heap.Push(&q.heap, x) }

// moved is to be called when an item's time has changed.
func (q *queue[T]) moved(x *T) { heap.Fix(&q.heap, *q.place(x)) }

func (q *queue[T]) remove(x *T) { heap.Remove(&q.heap, *q.place(x)) }

// itemHeap is a queue as container/heap sees it.
type itemHeap[T any] struct {
	*queue[T]
	items []*T
}

func (h *itemHeap[T]) Len() int           { return len(h.items) }
func (h *itemHeap[T]) Less(i, j int) bool { return h.due(h.items[i]).Before(h.due(h.items[j])) }

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
