package cloudflare

import (
	"context"
	"net/netip"
	"time"
)

// A rule whose time is over may be wanted by another host, which makes it its own. The
// host that it was of removes it about then, and nothing tells its request that the
// rule has become another's after it was looked at. So who takes a rule over leaves it
// alone for a moment, and looks later whether it is still there.
const (
	// ownerTime is how long a rule that is over is left to the host that it was of.
	ownerTime = 5 * time.Second
	// checkTakenAfter is when a rule that was taken over is looked at again. What its
	// host was about to do is done by then.
	checkTakenAfter = 2 * time.Minute
)

// leftToOwner is when a target that others don't ban from some time on can be taken
// over: then, unless their very rule is there. a.mu must be held.
func (a *Action) leftToOwner(p netip.Prefix, from time.Time) time.Time {
	if it := a.cache.items[p]; a.opt.AccessRules && it != nil && it.ours && !it.mine {
		if end := it.until.Add(ownerTime); end.After(from) {
			return end
		}
	}
	return from
}

// lookAgainAfter is for how long rules that were looked at count as they were then.
// What it takes to read them is not to be had all the time.
func (a *Action) lookAgainAfter() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return ownerTime * time.Duration(a.cache.pages())
}

// checkTaken looks at the rules that were taken over some time ago. What is gone of
// them is noted as what others don't ban any longer.
func (a *Action) checkTaken(ctx context.Context) error {
	var targets []netip.Prefix
	a.mu.Lock()
	now := a.time()
	for p, w := range a.wanted {
		if !w.check.IsZero() && !w.check.After(now) {
			targets = append(targets, p)
		}
	}
	a.mu.Unlock()
	if len(targets) == 0 {
		return nil
	}
	if err := a.lookAgain(ctx, targets); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range targets {
		w, ok := a.wanted[p]
		if !ok {
			continue
		}
		w.check = time.Time{}
		if it := a.cache.items[p]; it == nil || !it.mine {
			w.by = now
		}
		a.wanted[p] = w
	}
	return nil
}
