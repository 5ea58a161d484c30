package actions

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

// Somebody else who changes what an action holds is answered at once, so many
// times within contestSpan; from then on more and more rarely, until nothing
// has come for calmSpan.
const (
	contestRepairs = 10
	contestSpan    = time.Minute
	contestDelay   = time.Second // doubled at each repair, up to the interval
	calmSpan       = 2 * time.Minute
)

// noticed is what others have changed and has not been looked at yet.
type noticed struct {
	targets map[netip.Prefix]cause
	all     bool
	seen    bool // a change was; false: some may have been missed
}

func (n *noticed) empty() bool { return !n.all && len(n.targets) == 0 }

// contest tells one change by somebody else from a fight.
type contest struct {
	repairs [contestRepairs]time.Time // the latest, in a ring
	next    int
	delay   time.Duration // of repairs while it is on; 0: it is off
	latest  time.Time     // when the latest change was noticed
}

// wait is how long a repair has to wait.
func (c *contest) wait(now time.Time) time.Duration {
	if c.delay == 0 {
		return 0
	}
	last := c.repairs[(c.next+contestRepairs-1)%contestRepairs]
	return max(0, c.delay-now.Sub(last))
}

// repaired counts a repair, and reports whether that makes it a fight.
func (c *contest) repaired(now time.Time, longest time.Duration) (begins bool) {
	oldest := c.repairs[c.next]
	c.repairs[c.next] = now
	c.next = (c.next + 1) % contestRepairs
	switch {
	case c.delay > 0:
		c.delay = min(2*c.delay, longest)
	case !oldest.IsZero() && now.Sub(oldest) < contestSpan:
		c.delay = min(contestDelay, longest)
		return true
	}
	return false
}

// over ends it if it has been quiet for long enough, and reports that.
func (c *contest) over(now time.Time) bool {
	if c.delay == 0 || now.Sub(c.latest) < calmSpan {
		return false
	}
	*c = contest{latest: c.latest}
	return true
}

// goesOn takes up a fight that began before.
func (r *Reconciler) goesOn(now time.Time) {
	r.stats.Contested, r.stats.Since = true, now
	if _, ok := r.opt.Action.(Contester); !ok {
		r.contest = contest{delay: min(contestDelay, r.opt.Interval), latest: now}
	}
}

// Watch listens to what others do to the action, for Run to repair it. It
// blocks until ctx is done, which is success; no failure ends it. An action
// that is no [Watcher] can't be listened to, and is only compared at the
// interval.
func (r *Reconciler) Watch(ctx context.Context) error {
	w, ok := r.opt.Action.(Watcher)
	if !ok {
		return nil
	}
	backoff, said := r.opt.MinBackoff, false
	for {
		err := w.Watch(ctx, func() {
			backoff, said = r.opt.MinBackoff, false
			r.watched(true)
			r.notice(Change{All: true}, false) // what was missed until now
		}, func(c Change) { r.notice(c, true) })
		r.watched(false)
		if ctx.Err() != nil {
			return nil
		}
		if !said {
			said = true
			r.log.Warn("can't hear what others do to the bans, which are only compared at the interval", slog.Any("err", err))
		}
		sleep.For(ctx, jitter(backoff))
		backoff = min(2*backoff, r.opt.MaxBackoff)
	}
}

func (r *Reconciler) watched(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Watched = yes
}

// notice takes up what somebody else has changed, or, if it does not count, may
// have.
func (r *Reconciler) notice(c Change, counted bool) {
	r.mu.Lock()
	n := &r.noticed
	n.all = n.all || c.All
	if n.targets == nil {
		n.targets = map[netip.Prefix]cause{}
	}
	for _, part := range []struct {
		targets []netip.Prefix
		why     cause
	}{{c.Gone, gone}, {c.Came, came}} {
		for _, t := range part.targets {
			if len(n.targets) < maxPending {
				n.targets[t] = part.why
			} else {
				n.all = true
			}
		}
	}
	if counted {
		n.seen = true
		r.contest.latest = r.opt.Now()
		r.stats.Noticed += count(c.All) + uint64(len(c.Gone)+len(c.Came))
	}
	r.mu.Unlock()
	r.notify()
}

// repairIn is how long what was noticed has to wait; ok is false if there is
// nothing.
func (r *Reconciler) repairIn() (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noticed.empty() {
		return 0, false
	}
	return r.contest.wait(r.opt.Now()), true
}

// takeNoticed makes what was noticed pending. It reports whether that takes a
// full pass. A pass because we did not listen for a while is no repair: a socket
// that fails again and again is nobody's fight.
func (r *Reconciler) takeNoticed() (full bool) {
	now := r.opt.Now()
	r.mu.Lock()
	n := r.noticed
	r.noticed = noticed{}
	begins := n.seen && r.contest.repaired(now, r.opt.Interval)
	for t, why := range n.targets {
		r.markPending(t, why)
	}
	full = n.all || r.lost
	r.mu.Unlock()
	if begins {
		r.contested(true, now, slog.Int("repairs", contestRepairs), slog.Duration("within", contestSpan))
	}
	return full
}

// forgetNoticed is for a full pass, which finds it all.
func (r *Reconciler) forgetNoticed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noticed = noticed{}
}

// calm notes the end of a fight.
func (r *Reconciler) calm() {
	now := r.opt.Now()
	r.mu.Lock()
	over := r.contest.over(now)
	r.mu.Unlock()
	if over {
		r.contested(false, now, slog.Duration("quiet", calmSpan))
	}
}

// askContested takes over what an action finds out by itself.
func (r *Reconciler) askContested() {
	if c, ok := r.opt.Action.(Contester); ok {
		if yes := c.Contested(); yes != r.Stats().Contested {
			r.contested(yes, r.opt.Now())
		}
	}
}

// contested says that a fight begins, or is over; more are attributes for that.
func (r *Reconciler) contested(yes bool, now time.Time, more ...any) {
	r.mu.Lock()
	r.stats.Contested = yes
	s := r.stats.State
	r.mu.Unlock()
	if yes {
		r.log.Warn("somebody else changes the bans or rules of this action again and again: repairs wait longer and longer (another program that manages this firewall?)", more...)
	} else {
		r.log.Info("nobody else has changed the bans or rules of this action for a while", more...)
	}
	if r.opt.OnState != nil {
		s.Since = now
		r.opt.OnState(s)
	}
}
