package control

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// result is what a call came to.
type result[T any] struct {
	value *T
	err   error
}

// call asks the daemon. It is given up when the time is over: the daemon may
// hang, which must not take the sockets with it. Calls that go on in the dark
// stay counted, so that there can be only so many.
//
// That the other side hangs up does not end a call: a change is made whole,
// and some close their side when they have sent the request and still want
// the answer.
func call[T any](e *endpoint, r *http.Request, timeout time.Duration, do func(context.Context) (*T, error)) (*T, error) {
	select {
	case e.calls <- struct{}{}:
	default:
		return nil, &Error{Code: CodeBusy, Message: "too many requests are at work", Hint: "try again; if it stays so, the daemon hangs"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
	unlink := context.AfterFunc(serverContext(r), cancel)
	done := make(chan result[T], 1)
	go func() {
		defer cancel()
		defer unlink()
		defer func() { <-e.calls }()
		done <- guarded(ctx, e, r.URL.Path, do)
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
	}
	select { // it may just have been in time, or have found out itself
	case got := <-done:
		return got.value, got.err
	default:
		return nil, timedOut(ctx.Err())
	}
}

// guarded is do, with a panic made an error, as a nil value without one is.
func guarded[T any](ctx context.Context, e *endpoint, verb string, do func(context.Context) (*T, error)) (got result[T]) {
	defer func() {
		if p := recover(); p != nil {
			e.panicked(verb, p)
			got = result[T]{err: errPanicked()}
		}
	}()
	got.value, got.err = do(ctx)
	switch {
	case got.err != nil && ctx.Err() != nil && errors.Is(got.err, ctx.Err()):
		got.err = timedOut(ctx.Err())
	case got.err == nil && got.value == nil:
		got.err = errors.New("there is no answer")
	}
	return got
}

// serverKey is that of the context that ends with the server, in the context
// of a request.
type serverKey struct{}

func withServer(ctx context.Context) context.Context {
	return context.WithValue(ctx, serverKey{}, ctx)
}

func serverContext(r *http.Request) context.Context {
	if ctx, ok := r.Context().Value(serverKey{}).(context.Context); ok {
		return ctx
	}
	return r.Context()
}

func timedOut(err error) *Error {
	if errors.Is(err, context.Canceled) {
		return &Error{Code: CodeBusy, Message: "the daemon stops"}
	}
	return &Error{Code: CodeBusy, Message: "the daemon did not answer in time", Hint: "a change may still be made; look at the daemon's log"}
}
