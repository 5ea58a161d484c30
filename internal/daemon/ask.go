package daemon

import (
	"context"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// question is work for the engine's goroutine: it is done between two batches
// of lines, and must be short.
type question struct {
	do   func(*engine, time.Time)
	done chan struct{} // closed afterwards
}

// ask has the engine's goroutine run do, and waits for that. If it returns an
// error do may still be run, later: it must not touch anything of the caller's
// then.
func (d *daemon) ask(ctx context.Context, do func(*engine, time.Time)) error {
	q := question{do, make(chan struct{})}
	select {
	case d.questions <- q:
	case <-ctx.Done():
		return errBusy
	case <-d.ended:
		return errEnding
	}
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		return errBusy
	case <-d.ended:
		return errEnding
	}
}

var (
	errBusy   = &control.Error{Code: control.CodeBusy, Message: "the daemon did not get to it in time", Hint: "it may be catching up with a long log; try again"}
	errEnding = &control.Error{Code: control.CodeBusy, Message: "the daemon is stopping"}
)

// asked is ask for a question with an answer.
func asked[T any](ctx context.Context, d *daemon, f func(*engine, time.Time) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	c := make(chan answer, 1)
	var zero T
	if err := d.ask(ctx, func(e *engine, now time.Time) {
		v, err := f(e, now)
		c <- answer{v, err}
	}); err != nil {
		return zero, err
	}
	a := <-c
	return a.value, a.err
}
