package daemon

// swap hands the latest value from one goroutine to another: one that has not
// been taken yet is replaced.
type swap[T any] struct{ latest chan T }

func newSwap[T any]() *swap[T] { return &swap[T]{latest: make(chan T, 1)} }

// put never waits. It is for one goroutine.
func (s *swap[T]) put(v T) {
	select {
	case <-s.latest:
	default:
	}
	s.latest <- v // nobody else fills it
}
