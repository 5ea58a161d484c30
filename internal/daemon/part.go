package daemon

import (
	"context"
	"sync"
	"time"
)

// part is a goroutine of the daemon that can be ended by itself.
type part struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// startPart runs f until it returns; ctx is done then, or stop was called.
func startPart(ctx context.Context, f func(context.Context)) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer cancel()
		f(ctx)
	}()
	return p
}

// stop ends the part and waits for that, but not forever: a disk that hangs
// can't be taken back. It reports whether the part has ended.
func (p *part) stop(patience time.Duration) bool {
	p.cancel()
	return waitFor(p.done, patience)
}

// waitFor reports whether done was closed in time.
func waitFor(done <-chan struct{}, patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// within returns what f does, or false if that takes too long or ctx is done:
// for what may hang on a disk. f then ends by itself, whenever it does.
func within[T any](ctx context.Context, patience time.Duration, f func() T) (value T, ok bool) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case value = <-c:
		return value, true
	case <-t.C:
	case <-ctx.Done():
	}
	return value, false
}

// answer is within for what can fail. slow is the error of what takes too long.
func answer[T any](patience time.Duration, slow error, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	r, ok := within(context.Background(), patience, func() (r result) {
		r.value, r.err = f()
		return r
	})
	if !ok {
		r.err = slow
	}
	return r.value, r.err
}

// allOf returns a channel that is closed when all parts have ended.
func allOf(parts []*part) <-chan struct{} {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { <-p.done })
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}
