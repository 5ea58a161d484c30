//go:build linux

package actions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/argv"
	"github.com/tailban/tailban/internal/sleep"
)

// restAfterEnds is how long Run waits at least after it has taken out bans, so
// that those which end one after the other make few runs and little work.
const restAfterEnds = 200 * time.Millisecond

// Run takes out the bans that have ended, if the program does not end them
// itself, and asks check whether others have taken out some, if there is no
// list, until ctx is done, which is success. Beside it the reconciler may
// use the action. What can't be taken out is tried again, for each target by
// itself, a second later and up to a minute; no failure ends Run.
func (c *Command) Run(ctx context.Context) error {
	if c.looksAround() {
		var looks sync.WaitGroup
		looks.Go(func() { c.lookAround(ctx) })
		defer looks.Wait()
	}
	if c.opt.Expires {
		<-ctx.Done()
		return nil
	}
	rest := restAfterEnds
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
		gaveUp := c.end(ctx, items)
		c.tellOverdue(ctx)
		if rest = min(2*rest, maxAgain); !gaveUp {
			rest = restAfterEnds
		}
		sleep.For(ctx, rest)
	}
	return nil
}

// end takes out what has ended. It reports whether it left some for later, as
// nothing worked.
func (c *Command) end(ctx context.Context, items []*item) (gaveUp bool) {
	still := func(it *item) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.memory.over(it.target, time.Now())
	}
	jobs := c.jobs(argv.Unban, items)
	c.carry(ctx, jobs, still)
	c.confirm(ctx, jobs)
	for _, j := range jobs {
		gaveUp = gaveUp || slices.ContainsFunc(j.items, func(it *item) bool { return errors.Is(it.err, errNotTried) })
	}
	return gaveUp
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
func (c *Command) wakeRun() { signal(c.wake) }
