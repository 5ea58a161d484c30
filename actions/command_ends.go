//go:build linux

package actions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// restAfterEnds is how long Run waits at least after it has taken out bans, so
// that those which end one after the other make few runs and little work.
const restAfterEnds = 200 * time.Millisecond

// Run takes out the bans that have ended, if the program does not end them
// itself, until ctx is done, which is success. Beside it the reconciler may
// use the action. What can't be taken out is tried again, for each target by
// itself, a second later and up to a minute; no failure ends Run.
func (c *Command) Run(ctx context.Context) error {
	if c.opt.Expires {
		<-ctx.Done()
		return nil
	}
	failing, rest := false, restAfterEnds
	for ctx.Err() == nil {
		c.mu.Lock()
		due, next := c.memory.due(time.Now())
		c.mu.Unlock()
		if len(due) == 0 {
			c.awaitEnd(ctx, next)
			continue
		}
		var items []*item
		for _, target := range due {
			items = append(items, &item{target: target})
		}
		failed, gaveUp := c.end(ctx, items)
		failing = c.sayEnds(failed, failing)
		if rest = min(2*rest, maxAgain); !gaveUp {
			rest = restAfterEnds
		}
		pause(ctx, rest)
	}
	return nil
}

// end takes out what has ended. It returns one that it could not, and whether
// it left some for later, as nothing worked.
func (c *Command) end(ctx context.Context, items []*item) (failed *item, gaveUp bool) {
	still := func(it *item) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.memory.over(it.target, time.Now())
	}
	jobs := c.jobs(argv.Unban, items)
	c.carry(ctx, jobs, c.ends, still)
	c.confirm(ctx, jobs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		for _, it := range j.items {
			switch {
			case it.err == nil:
				c.stats.Ended++
			case errors.Is(it.err, errNotTried):
				gaveUp = true
			case ctx.Err() == nil:
				failed = it
			}
		}
	}
	return failed, gaveUp
}

// sayEnds says that bans can't be ended, and when they can again.
func (c *Command) sayEnds(failed *item, failing bool) bool {
	switch {
	case failed != nil && !failing:
		c.log.Warn("bans that have ended are still enforced, as they can't be taken out: trying again until they are",
			slog.String("target", failed.target.String()), slog.Any("err", failed.err))
		return true
	case failed == nil && failing && c.Stats().Overdue == 0:
		c.log.Info("no ban is enforced beyond its end any longer")
		return false
	}
	return failing
}

// awaitEnd waits for a time, zero: for no time, or a change.
func (c *Command) awaitEnd(ctx context.Context, next time.Time) {
	var at <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		at = t.C
	}
	select {
	case <-ctx.Done():
	case <-at:
	case <-c.wake:
	}
}

// wakeRun has Run look when the next ban ends.
func (c *Command) wakeRun() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
