//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Overdue implements [Overstayer].
func (c *Command) Overdue() Overdue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue(time.Now())
}

// overdue is Overdue. c.mu must be held.
func (c *Command) overdue(now time.Time) Overdue {
	all := c.allOverdue(now)
	o := Overdue{Count: len(all), Since: now}
	if o.Count > 0 && !c.late.IsZero() {
		o.Since = c.late
	}
	for _, target := range slices.SortedFunc(maps.Keys(all), netip.Prefix.Compare) {
		if err := all[target]; o.Err == nil || !errors.Is(err, errNotTried) {
			o.Err = fmt.Errorf("unban %s: %w", target, err)
			if !errors.Is(err, errNotTried) {
				break
			}
		}
	}
	return o
}

// succeed takes over what the action before could not take out.
func (c *Command) succeed(before *Command) {
	if before == nil {
		return
	}
	if !slices.Equal(before.opt.Unban, c.opt.Unban) {
		c.before = before // its bans are elsewhere
		return
	}
	now := time.Now()
	before.mu.Lock()
	defer before.mu.Unlock()
	for target, err := range before.memory.overdue(now, before.opt.Expires) {
		// It has failed often enough: that it does again makes nothing fail.
		c.memory.known[target] = &known{maybe: true, end: now, stuck: err, fails: manyFails, alone: true}
	}
	c.before = before.before
}

// allOverdue is what is overdue, with what the one before could not take out and
// isn't banned again. c.mu must be held.
func (c *Command) allOverdue(now time.Time) map[netip.Prefix]error {
	all := c.memory.overdue(now, c.opt.Expires)
	if c.before == nil {
		return all
	}
	c.before.mu.Lock()
	old := c.before.allOverdue(now)
	c.before.mu.Unlock()
	if len(old) == 0 {
		c.before = nil
	}
	for target, err := range old {
		if k := c.memory.known[target]; k == nil || !k.held {
			all[target] = err
		}
	}
	return all
}

// OverdueAt implements [Overstayer].
func (c *Command) OverdueAt(address netip.Addr) (bans []OverdueBan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for target, err := range c.allOverdue(time.Now()) {
		if target.Contains(address) {
			bans = append(bans, OverdueBan{Target: target, Err: err})
		}
	}
	slices.SortFunc(bans, func(a, b OverdueBan) int { return a.Target.Compare(b.Target) })
	return bans
}

// tellOverdue says that bans are overdue, and when none is any longer. What ends
// because we do is no news.
func (c *Command) tellOverdue(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	o := c.overdue(time.Now())
	begins, ends := o.Count > 0 && c.late.IsZero(), o.Count == 0 && !c.late.IsZero() && !c.untried
	c.untried = false // the first look comes before the first try
	switch {
	case begins:
		c.late = o.Since
	case ends:
		c.late = time.Time{}
	}
	c.mu.Unlock()
	switch {
	case begins:
		c.log.Warn("bans that are over are still enforced, as they can't be taken out: trying again until they are",
			slog.Int("bans", o.Count), slog.Any("err", o.Err))
	case ends:
		c.log.Info("no ban is enforced beyond its end any longer")
	default:
		return
	}
	if c.opt.OnOverdue != nil {
		c.opt.OnOverdue(o)
	}
}
