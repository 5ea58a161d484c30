package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"
)

// fullShare is how many times longer than a full pass the pause behind it is at
// least.
const fullShare = 50

// lastTry is how long the end of Run waits for changes that came just before.
const lastTry = 2 * time.Second

// Run reconciles until ctx is done, which is success; bans stay where they
// are, and changes that are pending then are applied if the action works. It
// is the only one to call the action's methods, but does not close it. No
// failure ends it.
func (r *Reconciler) Run(ctx context.Context) error {
	r.setEnded(false)
	defer r.setEnded(true)
	next := time.NewTimer(r.opt.Interval)
	defer next.Stop()
	backoff := r.opt.MinBackoff
	for full, first := true, true; ; {
		began, repairs := r.opt.Now(), r.repairs()
		err := r.pass(ctx, full)
		if ctx.Err() != nil {
			r.finish(ctx)
			return nil
		}
		r.settle(err)
		if err == nil {
			r.passedAll()
		}
		if full {
			next.Reset(r.fullPause(r.opt.Now().Sub(began), first || r.repairs() != repairs))
			first = first && err != nil
		}
		if err == nil {
			backoff = r.opt.MinBackoff
			full = r.await(ctx, next.C)
			continue
		}
		if errors.Is(err, ErrPermanent) {
			backoff = r.opt.MaxBackoff
		}
		r.rest(ctx, jitter(backoff), errors.Is(err, ErrHoldsBans))
		backoff = min(2*backoff, r.opt.MaxBackoff)
		full = true // any part of a failed batch may be in force
	}
}

// fullPause is how long to leave it at a full pass that took so long: listing many
// bans is work for the kernel, and that is to be a small share of it. It does not go
// by a pass that set up the rules or repaired them: that takes longer than looking,
// and what was amiss once is soon looked at again. Who has us wait for a pause does
// not work all the time that an Apply takes.
func (r *Reconciler) fullPause(took time.Duration, setUp bool) time.Duration {
	if _, paced := r.opt.Action.(Paced); paced || setUp {
		return r.opt.Interval
	}
	return max(r.opt.Interval, fullShare*took)
}

// repairs is how often the action found its rules changed by others.
func (r *Reconciler) repairs() uint64 {
	if a, ok := r.opt.Action.(Repairer); ok {
		return a.Repairs()
	}
	return 0
}

// rest waits after an error, but not if somebody else has just been seen to be
// the cause. If the action holds bans all the same, changes of these don't wait.
func (r *Reconciler) rest(ctx context.Context, d time.Duration, holds bool) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		if wait, noticed := r.repairIn(); noticed && wait == 0 {
			r.takeNoticed()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-r.wake:
			if full, yes := r.due(); holds && yes && !full {
				holds = r.passChanges(ctx) == nil // or they are tried with all else
			}
		}
	}
}

// finish applies what is pending, once, unless the action has been failing.
func (r *Reconciler) finish(ctx context.Context) {
	if s := r.Stats(); s.Failing || s.Passes == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	if err := r.apply(ctx, r.planChanges(r.opt.Now())); err != nil {
		r.log.Warn("the last changes of bans are not enforced until the next start", slog.Any("err", err))
	}
}

// await waits for something to do and says whether that is a full pass. When
// ctx is done, what it says does not matter.
func (r *Reconciler) await(ctx context.Context, next <-chan time.Time) (full bool) {
	repair := time.NewTimer(0)
	defer repair.Stop()
	var gathered <-chan time.Time
	for {
		wait, noticed := r.repairIn()
		if noticed && wait == 0 {
			return r.takeNoticed()
		}
		repair.Stop()
		if noticed {
			repair.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return false
		case <-next:
			return true
		case <-repair.C:
			continue
		case <-r.wake:
		case <-gathered:
		}
		full, yes := r.due()
		pause := r.pause()
		switch {
		case yes && pause <= 0:
			return full
		case yes:
			gathered = time.After(pause)
		}
	}
}

// pause is how long to gather changes.
func (r *Reconciler) pause() time.Duration {
	if p, ok := r.opt.Action.(Paced); ok {
		return p.Pause()
	}
	return 0
}

// due reports whether changes are to be applied, and whether that takes a full
// pass.
func (r *Reconciler) due() (full, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost, r.lost || len(r.pending) > 0
}

// signal leaves a token, if there is none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// jitter spreads retries of several actions and hosts: between d/2 and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// pass applies either everything that differs or the pending changes.
func (r *Reconciler) pass(ctx context.Context, full bool) error {
	if ctx.Err() != nil {
		return nil
	}
	if !full {
		return r.passChanges(ctx)
	}
	r.calm()
	r.forgetNoticed()
	amiss := r.call(func() error { return r.opt.Action.Prepare(ctx) })
	if amiss != nil {
		amiss = fmt.Errorf("prepare action %s: %w", r.opt.Name, amiss)
	}
	if amiss != nil && !errors.Is(amiss, ErrHoldsBans) {
		return amiss
	}
	r.askContested()
	began := r.opt.Now()
	held, err := r.list(ctx)
	if err != nil {
		return fmt.Errorf("list bans of action %s: %w", r.opt.Name, err)
	}
	now := r.opt.Now()
	p := r.planFull(held, now, now.Sub(began))
	r.tell(p.found, nil)
	if err := r.apply(ctx, p); err != nil {
		return err
	}
	if amiss != nil {
		return amiss
	}
	r.passed(p)
	r.sayCrowded()
	return r.readAll(ctx, p, now)
}

// passChanges applies what is pending.
func (r *Reconciler) passChanges(ctx context.Context) error {
	now := r.opt.Now()
	p := r.planChanges(now)
	if err := r.apply(ctx, p); err != nil {
		return err
	}
	r.drifted(p)
	r.sayCrowded()
	r.readSample(ctx, p, now)
	return nil
}

// call calls the action. One that does not answer in time is failing, until it
// does.
func (r *Reconciler) call(f func() error) error {
	said := make(chan struct{})
	late := time.AfterFunc(r.opt.Patience, func() {
		defer close(said)
		r.settle(fmt.Errorf("no answer from action %s within %v: does it hang?", r.opt.Name, r.opt.Patience))
	})
	err := f()
	if !late.Stop() {
		<-said
	}
	return err
}

// list lists what the action holds.
func (r *Reconciler) list(ctx context.Context) (held []Entry, err error) {
	err = r.call(func() (err error) { held, err = r.opt.Action.List(ctx); return err })
	return held, err
}

// apply carries out a plan. After an error its changes are pending again.
func (r *Reconciler) apply(ctx context.Context, p *plan) error {
	if p.empty() {
		return nil
	}
	err := r.call(func() error { return r.opt.Action.Apply(ctx, p.add, p.remove) })
	var rejected *RejectedError
	var waiting *WaitingError
	isRejected, isWaiting := errors.As(err, &rejected), errors.As(err, &waiting)
	if err != nil && !isRejected && !isWaiting {
		r.putBack(p)
		return fmt.Errorf("apply to action %s: %w", r.opt.Name, err)
	}
	if isWaiting {
		r.postpone(p, waiting.Targets)
	}
	r.reject(p, rejected)
	r.markBegun(p, rejected)
	r.tell(p.begun, p.ended())
	return nil
}

// tell tells who listens what has come in force and what is not any longer.
func (r *Reconciler) tell(begun, ended []netip.Prefix) {
	if r.opt.OnChange != nil && len(begun)+len(ended) > 0 {
		r.opt.OnChange(begun, ended)
	}
}

// reject remembers which additions were refused, and says so once for each.
// They are tried again at every full pass, as what protects them may change.
func (r *Reconciler) reject(p *plan, rejected *RejectedError) {
	var news []Rejection
	r.mu.Lock()
	r.stats.Applies++
	for _, target := range p.retried {
		if w, ok := r.desired[target]; ok {
			w.rejected = false
			r.desired[target] = w
		}
	}
	var kept []Rejection
	if rejected != nil {
		news = r.markRejected(p, rejected.Rejected)
		kept = rejected.Kept
	}
	r.keep(p, kept)
	r.mu.Unlock()
	for _, n := range news {
		r.log.Warn("ban refused by the action", slog.String("target", n.Target.String()), slog.Any("err", n.Err))
	}
}

// settle notes how a pass went, and says so when that has changed.
func (r *Reconciler) settle(err error) {
	now := r.opt.Now()
	r.mu.Lock()
	s := &r.stats.State
	before := *s
	s.Failing, s.Err = err != nil, err
	changed := before.Failing != s.Failing
	if changed {
		s.Since = now
	}
	after := *s
	atLast := r.failed && err == nil
	r.failed = r.failed && !atLast
	r.mu.Unlock()
	if !changed && !atLast {
		return
	}
	if after.Failing {
		r.log.Warn("bans are not enforced, trying again until they are", slog.Any("err", err))
	} else if changed {
		r.log.Info("bans are enforced again", slog.Duration("after", now.Sub(before.Since)))
	} else {
		after.Since = now
	}
	if r.opt.OnState != nil {
		r.opt.OnState(after)
	}
}

// passed counts a full pass and says what it found.
func (r *Reconciler) passed(p *plan) {
	r.mu.Lock()
	first := r.stats.Passes == 0
	r.stats.Passes++
	r.stats.LastPassed = r.opt.Now()
	r.mu.Unlock()
	if first {
		r.countDrift(p)
		r.log.Info("bans compared with what the action held", append(p.drift(),
			slog.Int("held", p.held), slog.Int("changed", len(p.add)+len(p.remove)))...)
		return
	}
	r.drifted(p)
}

// drifted counts what others had changed, and says it.
func (r *Reconciler) drifted(p *plan) {
	if p.added+p.corrected > 0 || len(p.strays) > 0 {
		r.countDrift(p)
		r.log.Warn("the action held other bans than it should, repaired", p.drift()...)
	}
}

func (r *Reconciler) countDrift(p *plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.DriftAdded += p.added
	r.stats.DriftRemoved += uint64(len(p.strays))
	r.stats.DriftCorrected += p.corrected
}

// sayCrowded says that there is no room for all bans, and when there is again.
func (r *Reconciler) sayCrowded() {
	for _, c := range r.crowded() {
		if c.over {
			r.log.Info("the action has room for all bans again", slog.String("in", c.place))
			continue
		}
		r.log.Warn("the action is full: the bans that end soonest are not enforced",
			slog.String("in", c.place), slog.Int("size", c.size), slog.Int("left_out", c.out))
	}
}
