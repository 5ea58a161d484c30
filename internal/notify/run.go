package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	settle = time.Second // between an event and the message, for those that come with it

	firstBackoff = 5 * time.Second
	maxBackoff   = 15 * time.Minute

	// foldAfter is for how long the same message is tried. Then it goes into the
	// next one: whoever was away gets one message, and whatever may be wrong with
	// this one doesn't hold up others for ever.
	foldAfter = time.Hour

	// listedFor is how old an event that was tried may be and still be told one by
	// one.
	listedFor = 6 * time.Hour

	lastPost = 3 * time.Second // for what is not told when Run is to end

	saidEvery = time.Hour // that messages don't arrive
)

// Run posts what is published until ctx is done, and then what is left. What it
// could not tell is what Stats says to wait.
func (n *Notifier) Run(ctx context.Context, log *slog.Logger) {
	posting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastPost, end) })()
	r := &runner{posting: posting, n: n, log: log, backoff: firstBackoff}
	if err := n.ready(); err != nil { // before the first ban, and not with it
		r.note(answer{err: err})
	}
	defer r.last()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		if n.Stats().Waiting == 0 {
			continue
		}
		if !sleep.For(ctx, max(settle, n.o.Interval-time.Since(r.began))) || !r.turn(ctx) {
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

	n       *Notifier
	log     *slog.Logger
	began   time.Time // when a message was last tried
	backoff time.Duration
	gone    bool // the last try was not answered as one that takes messages would

	said  time.Time // that messages don't arrive
	still bool      // that is the last that was said
}

// turn waits until one more try is within what is allowed in an hour. It reports
// false if ctx is done.
func (r *runner) turn(ctx context.Context) bool {
	for {
		r.n.mu.Lock()
		wait := r.n.pace.wait(time.Now())
		r.n.mu.Unlock()
		if wait <= 0 {
			return true
		}
		if !sleep.For(ctx, wait) {
			return false
		}
	}
}

// try posts a message once.
func (r *runner) try(m message) answer {
	r.began = time.Now()
	r.n.mu.Lock()
	r.n.pace.note(r.began)
	r.n.mu.Unlock()
	return r.n.post(r.posting, m)
}

// deliver posts a message until it is taken, is refused for good, has been tried
// for long, or ctx is done. What is not told goes back to what waits. It reports
// whether ctx is not done.
func (r *runner) deliver(ctx context.Context, m message) bool {
	for begin := time.Now(); ; {
		a := r.try(m)
		if r.note(a) {
			r.n.close(a, m)
			return ctx.Err() == nil
		}
		ok := sleep.For(ctx, max(r.backoff, a.retryAfter))
		r.backoff = min(2*r.backoff, maxBackoff)
		if !ok || time.Since(begin) >= foldAfter {
			r.n.putBack(m, time.Now())
			return ok
		}
		if !r.turn(ctx) {
			r.n.putBack(m, time.Now())
			return false
		}
	}
}

// note notes what came of a try, and reports whether there is nothing left to
// try.
func (r *runner) note(a answer) (over bool) {
	now := time.Now()
	r.n.mu.Lock()
	s := &r.n.stats
	failing := a.err != nil
	if failing != s.Failing {
		s.Failing, s.Since = failing, now
	}
	s.Err = a.err
	since := s.Since
	r.n.mu.Unlock()
	switch {
	case a.refused:
		r.log.Warn("a message was refused for good", "err", a.err)
	case failing && (r.said.IsZero() || now.Sub(r.said) >= saidEvery && since.After(r.said)):
		r.log.Warn("messages don't arrive; bans are as before", "err", a.err)
		r.said, r.still = now, true
	case !failing && r.still:
		r.log.Info("messages arrive again")
		r.still = false
	}
	over = !failing || a.refused
	r.gone = !over
	if over {
		r.backoff = firstBackoff
	}
	return over
}

// last tells what was not told when all ends, whatever the pace: there is no
// later. Whoever has just failed isn't tried again.
func (r *runner) last() {
	if r.gone {
		return
	}
	if m, ok := r.n.take(); ok {
		a := r.try(m)
		if r.note(a) {
			r.n.close(a, m)
		} else {
			r.n.putBack(m, time.Now())
		}
	}
}

// take makes a message of what there is.
func (n *Notifier) take() (message, bool) {
	n.mu.Lock()
	d := n.next
	n.next = digest{}
	n.out, n.taken = d.total(), time.Now()
	n.mu.Unlock()
	if d.total() == 0 {
		return message{}, false
	}
	return newMessage(&n.o, newID(), d), true
}

// close counts a message that is over.
func (n *Notifier) close(a answer, m message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out, n.stats.Told = 0, n.taken
	if a.refused {
		n.stats.Lost += uint64(m.digest.total())
		return
	}
	n.stats.Sent++
	n.stats.Last = time.Now()
}

// putBack has a message's events told with those that came later.
func (n *Notifier) putBack(m message, now time.Time) {
	m.digest.forget(now.Add(-listedFor))
	n.mu.Lock()
	n.out = 0
	n.next = m.digest.and(&n.next)
	n.mu.Unlock()
	n.awake()
}

func (n *Notifier) awake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Inherit takes over what another notifier, whose Run has ended, did not tell,
// its counters, and its pace.
func (n *Notifier) Inherit(old *Notifier) {
	old.mu.Lock()
	d, s, tries := old.next, old.stats, old.pace.tries
	old.next = digest{}
	old.mu.Unlock()
	d.keep(n.kinds)
	n.mu.Lock()
	n.next = d.and(&n.next)
	n.stats.Sent += s.Sent
	n.stats.Lost += s.Lost
	n.stats.Last, n.stats.Told = s.Last, s.Told
	n.pace.tries = tries
	n.mu.Unlock()
	n.awake()
}

// newID names a message, so that who gets it twice can tell.
func newID() string { return "msg_" + rand.Text() }

// Test posts a message that says it is a test, and returns what went wrong.
func (n *Notifier) Test(ctx context.Context, now time.Time) error {
	var d digest
	d.add(Event{Time: now, Kind: test})
	a := n.post(ctx, newMessage(&n.o, newID(), d))
	if a.err != nil {
		return fmt.Errorf("notify %s: %w", n.o.Name, a.err)
	}
	return nil
}
