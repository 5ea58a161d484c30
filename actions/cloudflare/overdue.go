package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// leastOverdue is how long items have to be over at least to be overdue: those of other
// hosts are left to these for some time.
const leastOverdue = 2 * othersGrace

// overdueError is of a rule that is not renewed as that would keep bans in force that
// are over.
type overdueError struct{ items int }

func (e *overdueError) Error() string {
	return fmt.Sprintf("cloudflare: %d bans are over and can't be taken out of the list, so the rule is not renewed: they end with it", e.items)
}

// overdue is how many items of ours are over by more than half a lease and could not be
// removed. That they only wait for the budget doesn't count: who has many banned must not
// have all let in. a.mu must be held.
func (a *Action) overdue(now time.Time) (n int) {
	if a.tidyErr == nil {
		return 0
	}
	since := now.Add(-max(a.opt.Lease/2, leastOverdue))
	for _, it := range a.cache.items {
		if it.over(since) {
			n++
		}
	}
	return n
}

// noteTidied notes whether what is over could be removed, and returns why not. Rules
// that were not renewed for want of that are then. That another change came first tells
// neither.
func (a *Action) noteTidied(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errLater) {
		return err
	}
	a.mu.Lock()
	a.tidyErr = err
	lapsing := false
	for _, l := range a.leases {
		var e *overdueError
		lapsing = lapsing || errors.As(l.Err, &e)
	}
	a.mu.Unlock()
	if err == nil && lapsing {
		signal(a.rule)
	}
	return err
}
