//go:build linux

package actions

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/argv"
	"github.com/tailban/tailban/internal/sleep"
)

// checksPerPass is about how many targets check is asked for at each full pass,
// where there is no list.
const checksPerPass = 300

// sayBlindAfter is how often at most it is said that check can't tell.
const sayBlindAfter = time.Hour

// looksAround reports whether what others take out is found by asking check.
func (c *Command) looksAround() bool { return c.check.Given() && !c.list.Given() }

// lookAround asks check, after each full pass, for the next of the targets that
// are in memory, and forgets those that are not there, so that the pass behind it
// misses them. They are asked for beside the pass, one at a time and for half of
// the time at most, as bans would have to wait for it.
func (c *Command) lookAround(ctx context.Context) {
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.passed:
		}
		began := time.Now()
		if err := c.lookOn(ctx); err != nil && ctx.Err() == nil && began.Sub(said) > sayBlindAfter {
			said = began
			c.log.Warn("can't look whether bans are still there, so what others take out may not be put in again", slog.Any("err", err))
		}
		c.tellOverdue(ctx)
		sleep.For(ctx, time.Since(began))
	}
}

// lookOn asks for the targets that have been waiting longest. The error is of
// one that could not be told; the next time begins behind it.
func (c *Command) lookOn(ctx context.Context) error {
	for _, target := range c.nextLooks() {
		seq, ok := c.steady(target)
		if !ok {
			continue
		}
		held, err := c.ask(ctx, target)
		c.looked = target
		if err != nil {
			return err
		}
		if held {
			continue
		}
		c.mu.Lock()
		// What has been changed meanwhile is as it was made since.
		if k := c.memory.known[target]; k != nil && k.seq == seq && c.memory.busy[target] == nil {
			c.memory.gone(target, k)
		}
		c.mu.Unlock()
	}
	return nil
}

// nextLooks are the targets to ask for next.
func (c *Command) nextLooks() []netip.Prefix {
	var behind, others []netip.Prefix
	c.mu.Lock()
	for target, k := range c.memory.known {
		switch {
		case !k.held:
		case target.Compare(c.looked) > 0:
			behind = append(behind, target)
		default:
			others = append(others, target)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(behind, netip.Prefix.Compare)
	if len(behind) < checksPerPass {
		slices.SortFunc(others, netip.Prefix.Compare)
		behind = append(behind, others...)
	}
	return behind[:min(len(behind), checksPerPass)]
}

// steady reports whether a target should be there: it is in force, does not end
// soon, and nobody is at work on it. seq is of its last change.
func (c *Command) steady(target netip.Prefix) (seq uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.memory.known[target]
	if k == nil || !k.held || c.memory.busy[target] != nil || !k.end.IsZero() && time.Until(k.end) < tooShort {
		return 0, false
	}
	return k.seq, true
}

// ask runs check.
func (c *Command) ask(ctx context.Context, target netip.Prefix) (held bool, err error) {
	v := valuesOf(target)
	_, _, err = c.run(ctx, c.check, v, v.appendLine(nil, argv.Check), maxSaid)
	switch {
	case err == nil:
		return true, nil
	case exitStatus(err) == exitNotThere:
		return false, nil
	}
	return false, fmt.Errorf("check %s: %w", target, err)
}
