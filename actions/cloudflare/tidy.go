package cloudflare

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	// tidyEvery is how long lies between removals of what is over: one by one they
	// would cost a write each.
	tidyEvery = time.Minute
	// othersGrace is how long what others have put in is left to them after its end.
	othersGrace = 5 * time.Minute
	maxTidyRest = 10 * time.Minute

	sweepTries = 60 // of a sweep, while others write
)

// Run removes items whose time is over, in batches, and writes what others have
// enforced in our place until theirs was over, until ctx is done, which is success.
// Beside it the reconciler may use the action. No failure ends it.
func (a *Action) Run(ctx context.Context) error {
	if len(a.parts) > 0 {
		return a.runZones(ctx)
	}
	rest := a.tidyEvery
	for ctx.Err() == nil {
		if wait, any := a.nextTidy(); !any || wait > 0 {
			a.awaitWork(ctx, wait, any)
			continue
		}
		_, err := a.tidy(ctx, othersGrace)
		if err == nil || errors.Is(err, errLater) {
			rest = a.tidyEvery
			continue
		}
		if ctx.Err() == nil {
			a.log.Debug("bans that are over could not be removed from the list, trying again", slog.Any("err", err))
		}
		sleep.For(ctx, rest)
		rest = min(2*rest, maxTidyRest)
	}
	return nil
}

func (a *Action) awaitWork(ctx context.Context, wait time.Duration, any bool) {
	var at <-chan time.Time
	if any {
		t := time.NewTimer(wait)
		defer t.Stop()
		at = t.C
	}
	select {
	case <-ctx.Done():
	case <-at:
	case <-a.wake:
	}
}

// nextTidy is when there is something to do.
func (a *Action) nextTidy() (wait time.Duration, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listID == "" && !a.opt.AccessRules {
		return 0, false // the reconciler looks for it
	}
	var next time.Time
	soonest := func(t time.Time) {
		if !any || t.Before(next) {
			next, any = t, true
		}
	}
	for _, it := range a.cache.items {
		switch {
		case it.mine:
			soonest(it.until)
		case it.ours:
			soonest(it.until.Add(othersGrace))
		}
	}
	for p, w := range a.wanted {
		if !w.by.IsZero() && w.by.Before(w.until) {
			soonest(a.leftToOwner(p, w.by))
		}
		if !w.check.IsZero() && w.check.Before(w.until) {
			soonest(w.check)
		}
	}
	now := a.time()
	if !a.cache.valid { // what is over there can't be told without reading it
		soonest(now)
	}
	// A long list takes long to read.
	pause := a.tidied.Add(a.tidyEvery + time.Duration(a.cache.pages()-1)*a.tidyEvery/10).Sub(a.opt.now())
	return max(0, next.Sub(now), pause), any
}

// takeOver notes of a target that others ban in our place whether they still do. If
// not, it needs an item of ours. a.mu must be held.
func (a *Action) takeOver(p netip.Prefix, w want, now time.Time) (needed bool) {
	if w.by.IsZero() {
		return false
	}
	until, exact, covered := a.cache.cover(p, now)
	if covered && covers(until, exact, w.until) {
		w.by = until
		a.wanted[p] = w
		return false
	}
	if a.leftToOwner(p, now).After(now) {
		return false
	}
	if a.opt.Protected != nil {
		if _, yes := a.opt.Protected(p); yes {
			return false // the reconciler takes it back
		}
	}
	return w.until.Sub(now) >= tooShort
}

// tidy removes what is over, and that of others grace after it is, and writes what
// they don't ban any longer. It returns how many were removed.
func (a *Action) tidy(ctx context.Context, grace time.Duration) (removed int, err error) {
	end, err := a.begin(ctx)
	if err != nil {
		return 0, a.noteTidied(ctx, err)
	}
	defer end()
	a.mu.Lock()
	a.tidied = a.opt.now()
	a.mu.Unlock()
	// Others may have prolonged what is theirs, or taken over what was ours.
	if err := a.review(ctx); err != nil {
		return 0, a.noteTidied(ctx, err)
	}
	if err := a.checkTaken(ctx); err != nil {
		return 0, a.noteTidied(ctx, err)
	}
	now := a.time()
	over := func(it *item, now time.Time) bool {
		return it.mine && it.over(now) || it.over(now.Add(-grace))
	}
	var gone []netip.Prefix
	var adds []change
	a.mu.Lock()
	for p, w := range a.wanted {
		if a.takeOver(p, w, now) {
			adds = append(adds, change{p, w.until, w.asked})
		}
	}
	taken := map[netip.Prefix]bool{}
	for _, c := range adds {
		taken[c.target] = true
	}
	for p, it := range a.cache.items {
		if over(it, now) && !taken[p] {
			gone = append(gone, p)
		}
	}
	a.mu.Unlock()
	got := a.afford(gone, adds)
	defer func() { a.giveBack(got) }()
	adds, _ = cut(adds, got, nil, func(c change) netip.Prefix { return c.target })
	gone, _ = cut(gone, got-len(adds), nil, func(p netip.Prefix) netip.Prefix { return p })
	before := a.count(gone)
	err = a.noteTidied(ctx, a.removeItems(ctx, gone, false, over))
	removed = before - a.count(gone)
	if err == nil || errors.Is(err, errLater) {
		_, _, failed := a.addItems(ctx, adds)
		err = errors.Join(err, failed)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range adds {
		it := a.cache.items[c.target]
		if w, ok := a.wanted[c.target]; ok && it != nil && it.mine {
			w.by = time.Time{}
			a.wanted[c.target] = w
		}
	}
	a.stats.Removed += uint64(removed)
	return removed, err
}

// count is how many of some targets are in the list.
func (a *Action) count(targets []netip.Prefix) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range targets {
		if a.cache.items[p] != nil {
			n++
		}
	}
	return n
}

// Sweep removes everything of ours that is over, whoever put it in, and returns how
// much that was.
func (a *Action) Sweep(ctx context.Context) (removed int, err error) {
	if len(a.parts) > 0 {
		return a.inZones(func(z *Action) (int, error) { return z.Sweep(ctx) })
	}
	a.unhurried = true
	end, err := a.begin(ctx)
	if err == nil {
		err = a.findList(ctx, false)
		end()
	}
	if err != nil {
		return 0, err
	}
	for range sweepTries {
		n, later := a.tidy(ctx, 0)
		removed += n
		if !errors.Is(later, errLater) {
			return removed, later
		}
		if !sleep.For(ctx, a.look) {
			return removed, ctx.Err()
		}
	}
	return removed, errLater
}
