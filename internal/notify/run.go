package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

const (
	settle = time.Second // between an event and the message, for those that come with it

	firstBackoff = 5 * time.Second
	maxBackoff   = 15 * time.Minute

	lastPost = 3 * time.Second // for what is not told when Run is to end
	burst    = 5               // messages at once
)

// Run posts what is published until ctx is done, and then what is left.
func (n *Notifier) Run(ctx context.Context, log *slog.Logger) {
	posting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastPost, end) })()
	r := &runner{posting: posting, n: n, log: log, limit: rate.NewLimiter(rate.Limit(float64(n.o.PerHour)/time.Hour.Seconds()), min(burst, n.o.PerHour))}
	defer r.last()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		if !r.sleep(ctx, max(settle, r.quiet())) {
			return
		}
		if m, ok := n.take(); ok && !r.deliver(ctx, m) {
			return
		}
	}
}

// runner is what Run keeps in mind.
type runner struct {
	posting context.Context // of tries; done lastPost after Run is to end: what is on its way arrives once

	n     *Notifier
	log   *slog.Logger
	limit *rate.Limiter
	began time.Time // when a message was last tried
	open  *message  // is not taken yet
}

// quiet is how long to wait since the last message.
func (r *runner) quiet() time.Duration {
	if r.began.IsZero() {
		return 0
	}
	return r.n.o.Interval - time.Since(r.began)
}

// sleep reports whether the time is up, and not ctx.
func (r *runner) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// deliver posts a message until it is taken, refused for good, or ctx is done.
// It reports whether ctx is not.
func (r *runner) deliver(ctx context.Context, m message) bool {
	r.open = &m
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if !r.sleep(ctx, r.limit.Reserve().Delay()) {
			return false
		}
		r.began = time.Now()
		a := r.n.post(r.posting, m)
		if r.done(a) {
			return ctx.Err() == nil
		}
		if !r.sleep(ctx, max(backoff, a.retryAfter)) {
			return false
		}
	}
}

// done notes what came of a try, and reports whether there is nothing left to
// try.
func (r *runner) done(a answer) bool {
	n := r.n
	now := time.Now()
	n.mu.Lock()
	lost := 0
	switch {
	case a.err == nil:
		n.stats.Sent++
		n.stats.Last = now
	case a.refused:
		lost = n.out
		n.stats.Lost += uint64(lost)
	}
	failing := a.err != nil
	changed := failing != n.stats.Failing
	if changed {
		n.stats.Failing, n.stats.Since = failing, now
	}
	n.stats.Err = a.err
	over := a.err == nil || a.refused
	if over {
		n.out = 0
	}
	n.mu.Unlock()
	switch {
	case lost > 0:
		r.log.Warn("a message was refused for good", "events", lost, "err", a.err)
	case changed && failing:
		r.log.Warn("messages don't arrive; bans are as before", "err", a.err)
	case changed:
		r.log.Info("messages arrive again")
	}
	if over {
		r.open = nil
	}
	return over
}

// last tells what was not told when all ends. What has just failed isn't tried
// again.
func (r *runner) last() {
	if r.n.Stats().Failing {
		return
	}
	if r.open != nil { // it was held up by the rate, and not tried yet
		if !r.limit.Allow() || !r.done(r.n.post(r.posting, *r.open)) {
			return
		}
	}
	if m, ok := r.n.take(); ok && r.limit.Allow() {
		r.done(r.n.post(r.posting, m))
	}
}

// take makes a message of what there is.
func (n *Notifier) take() (message, bool) {
	n.mu.Lock()
	d := n.next
	n.next = digest{}
	n.out = d.total()
	n.mu.Unlock()
	if d.total() == 0 {
		return message{}, false
	}
	return newMessage(&n.o, newID(), d), true
}

// newID names a message, so that who gets it twice can tell.
func newID() string { return "msg_" + rand.Text() }

// Test posts a message that says it is a test, and returns what went wrong.
func (n *Notifier) Test(ctx context.Context, now time.Time) error {
	var d digest
	d.add(Event{Time: now, Kind: test})
	a := n.post(ctx, newMessage(&n.o, newID(), d))
	if a.err != nil {
		return fmt.Errorf("%s: %w", n.o.label(), a.err)
	}
	return nil
}
