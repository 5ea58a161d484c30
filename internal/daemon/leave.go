package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/sleep"
)

const (
	// leaveAtOnce is how long a reload waits for what is not used any more to be
	// cleared. It goes on without it.
	leaveAtOnce = 3 * time.Second

	// leaveFor is for how long it is tried to clear it, and leavePause how long a
	// pause between two tries is at first. Then the next start tries.
	leaveFor   = 5 * time.Minute
	leaveSoon  = 30 * time.Second // after which it is said that it has to wait
	leavePause = time.Second

	// replacedSoon is a pause between an action's end and when another one is in
	// use in its stead, which takes a reload a moment.
	replacedSoon = 100 * time.Millisecond
)

// leaving is a place where bans were enforced and are not any more. It is cleared
// when what enforces in its stead has them, not before: as long as they are in
// neither, everybody gets in.
type leaving struct {
	config.UsedPlace
	teardown func(context.Context) (existed bool, err error) // of what the kernel enforces
	programs *actions.Command                                // of a command
	part     *part                                           // nil: it is left alone

	existed bool           // there was something
	cleared int            // bans that programs have taken out
	before  []*leaving     // of the same place, which this one takes over
	over    bool           // another one has taken this one over
	left    []netip.Prefix // that they could not take out
}

// leave clears places in the background, once after has what is wanted.
func (d *daemon) leave(places []*leaving, after []*enforcer) {
	spared := slices.DeleteFunc(d.enforcers(), func(e *enforcer) bool { return slices.Contains(after, e) })
	d.places.Lock()
	for _, l := range places {
		d.takeOver(l)
		d.left = append(d.left, l)
		l.part = startPart(d.reading, func(ctx context.Context) {
			l.takeRest(ctx)
			d.clearWhenFree(ctx, l, after, spared)
		})
	}
	forgotten := d.limitLeft()
	d.places.Unlock()
	for _, l := range forgotten {
		d.Log.Warn("bans of an action that is not used any more are forgotten, as there are too many such actions",
			"action", l.Action.Name, "of", l.Action.Place(), "by_hand", removal(&l.Action))
	}
	d.notePlaces()
}

// applied waits until those in after have all bans; of those that are replaced
// meanwhile, what is used in their stead, spared aside. It returns whom it waited
// for in vain.
func (d *daemon) applied(ctx context.Context, after, spared []*enforcer) (vain *enforcer) {
	for i := 0; i < len(after); i++ {
		err := after[i].reconciler.Applied(ctx)
		if errors.Is(err, actions.ErrEnded) {
			sleep.For(ctx, replacedSoon)
			after = slices.DeleteFunc(d.enforcers(), func(e *enforcer) bool { return !e.enforces || slices.Contains(spared, e) })
			i = -1
			continue
		}
		if err != nil {
			return after[i]
		}
	}
	return nil
}

// clearWhenFree clears a place as soon as that lets nobody in. That is when all of
// after have the bans; it doesn't wait for those that are spared.
func (d *daemon) clearWhenFree(ctx context.Context, l *leaving, after, spared []*enforcer) {
	a := &l.Action
	late := time.AfterFunc(leaveSoon, func() {
		d.Log.Warn("the bans of an action that is not used any more stay where they are for now: what takes its place does not work yet",
			"action", a.Name, "of", a.Place())
	})
	defer late.Stop()
	if e := d.applied(ctx, after, spared); e != nil {
		if d.isOver(l) {
			return
		}
		d.Log.Warn("the bans of an action that is not used any more stay where they are, as what takes its place has not come to work; the next start looks after them",
			"action", a.Name, "of", a.Place(), "waits_for", e.name)
		return
	}
	late.Stop()
	if d.isOver(l) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, leaveTime(a))
	defer cancel()
	err := d.clear(limited, l)
	for wait := leavePause; err != nil && !errors.Is(err, actions.ErrPermanent) && limited.Err() == nil; wait *= 2 {
		if sleep.For(limited, wait) {
			err = d.clear(limited, l)
		}
	}
	if err != nil && d.isOver(l) {
		return // the other one says how it went
	}
	gone := l.programs != nil && errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil && !l.existed:
	case gone: // it would be the same at each start
		d.Log.Warn("bans of an action that is not used any more can't be taken out, as its programs are gone: it is forgotten",
			"action", a.Name, "left", len(l.left), "by_hand", removal(a), "err", err)
	case err == nil && l.programs != nil:
		d.Log.Info("the bans of an action that is not used any more are taken out", "action", a.Name, "bans", l.cleared)
	case err == nil:
		d.Log.Info("what an action that is not used any more had is removed", "action", a.Name, "of", a.Place())
	case l.programs != nil:
		d.Log.Error("bans of an action that is not used any more can't be taken out; the next start tries again (or: tailban teardown)",
			"action", a.Name, "taken_out", l.cleared, "left", len(l.left), "err", err)
		if len(a.Command.List) == 0 {
			d.places.Lock()
			l.Targets = l.left
			d.places.Unlock()
		}
	default:
		d.Log.Error("an action is not used any more, but its bans can't be removed: they end at their time; the next start tries again (or: tailban teardown)",
			"action", a.Name, "of", a.Place(), "by_hand", removal(a), "err", err)
	}
	if err == nil || gone {
		d.places.Lock()
		d.left = slices.DeleteFunc(d.left, func(x *leaving) bool { return x == l })
		d.places.Unlock()
	}
	d.notePlaces()
	d.unlockUnused()
}

// clear removes what is in a place.
func (d *daemon) clear(ctx context.Context, l *leaving) error {
	if l.programs != nil {
		return d.unban(ctx, l)
	}
	existed, err := l.teardown(ctx)
	l.existed = l.existed || existed
	d.clearedAtEdge(&l.Action)
	return err
}

// atOnce is how many bans programs are given at a time when they are to take out
// all, if they take no more in one run.
const atOnce = 32

// inVain is after how many parts in a row of which some could not be taken out the
// rest is left for the next try: the programs may work for none.
const inVain = 8

// unban has programs take out what they hold. Other programs may have put bans
// into the same place since, and it can't be told whether they have: what their
// action wants is banned again. If they take bans out in the very same way the
// place is the same, and what is wanted stays. A reload may replace these programs
// meanwhile, so it is asked again each time which there are.
func (d *daemon) unban(ctx context.Context, l *leaving) error {
	if err := l.programs.PrepareUnban(ctx); err != nil {
		l.left = l.Targets
		return err
	}
	entries, err := l.programs.List(ctx)
	if err != nil {
		return fmt.Errorf("list what it holds: %w", err)
	}
	c := l.Action.Command
	targets := targetsOf(entries, d.wanted(c))
	l.existed = l.existed || len(entries) > 0
	l.left = nil
	var failed error
	vain := 0
	for part := range slices.Chunk(targets, max(atOnce, c.Batch)) {
		if ctx.Err() == nil && vain < inVain {
			part = slices.DeleteFunc(part, d.wanted(c))
			err := l.programs.Apply(ctx, nil, part)
			for _, e := range d.commands() { // those of now, not of when it began
				e.reconciler.Again(part)
			}
			if err == nil {
				l.cleared += len(part)
				vain = 0
				continue
			}
			failed = err
			vain++ // one that can't be taken out keeps no other in
		}
		l.left = append(l.left, part...)
	}
	if len(l.left) > 0 && len(c.List) == 0 { // of a part that failed, some may be out
		if entries, err := l.programs.List(context.WithoutCancel(ctx)); err == nil { // from memory
			n := len(l.left)
			l.left = targetsOf(entries, d.wanted(c))
			l.cleared += n - len(l.left)
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// commands are the actions in use that run programs.
func (d *daemon) commands() []*enforcer {
	return slices.DeleteFunc(d.enforcers(), func(e *enforcer) bool { return e.config.Type != config.TypeCommand })
}

// wanted tells which targets are to stay where c puts them, as an action in use that
// takes them out in the very same way wants them.
func (d *daemon) wanted(c *config.Command) func(netip.Prefix) bool {
	same := slices.DeleteFunc(d.commands(), func(e *enforcer) bool { return !slices.Equal(e.config.Command.Unban, c.Unban) })
	return func(t netip.Prefix) bool {
		return slices.ContainsFunc(same, func(e *enforcer) bool { return e.reconciler.Wants(t) })
	}
}

// targetsOf are those of bans that are not to stay.
func targetsOf(entries []actions.Entry, stays func(netip.Prefix) bool) (targets []netip.Prefix) {
	for i := range entries {
		if t := entries[i].Target; !stays(t) {
			targets = append(targets, t)
		}
	}
	return targets
}
