package daemon

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/state"
)

// adoptedJail owns what was taken over. It is no name that a jail can have.
const adoptedJail = "(adopted)"

// atEnd is how much time a ban must have left to be taken over: the state has
// let go of it already, the kernel is about to.
const atEnd = 3 * time.Second

// adoptFrom takes over bans that an action holds and the state doesn't: the
// state file was lost, or the last daemon was killed between the kernel and
// the disk. They keep their end.
func (d *daemon) adoptFrom(ctx context.Context, e *enforcer) {
	entries, err := e.action.List(ctx)
	if err != nil {
		return // no table, or the reconciler meets the same error, and says it
	}
	if d.adopted == nil {
		d.adopted = map[netip.Prefix]struct{}{}
	}
	known := map[netip.Prefix]int{}
	for i := range d.loaded.Bans {
		known[d.loaded.Bans[i].Target] = i
	}
	pardoned := newPardons()
	for _, p := range d.loaded.Pardons {
		pardoned.put(p)
	}
	now := time.Now()
	n := 0
	// Networks that are banned as one come last: by then their members are known.
	slices.SortStableFunc(entries, func(a, b actions.Entry) int { return cmp.Compare(min(a.Merged, 1), min(b.Merged, 1)) })
	members := sync.OnceValue(func() map[netip.Prefix]int { return d.membersKnown(e.name, now) })
	for _, x := range entries {
		i, ok := known[x.Target]
		if ok && !d.loaded.Bans[i].Until(e.name).IsZero() {
			believe(&d.loaded.Bans[i], &x, e.name, now)
			continue
		}
		if x.Left <= atEnd {
			continue
		}
		if pardoned.covers(x.Target) {
			// Lifted, or a jail's hold on it was, which the kernel has not heard. What a
			// jail has banned since and the state doesn't know is decided anew, as its
			// lines were not stored as counted either.
			continue
		}
		if x.Merged > 0 && e.settled(&x, members()[x.Target], pardoned, now) {
			continue
		}
		if !ok {
			i = len(d.loaded.Bans)
			d.loaded.Bans = append(d.loaded.Bans, state.Ban{Target: x.Target, Origin: d.Host})
		}
		b := &d.loaded.Bans[i]
		b.Owners = append(b.Owners, state.Owner{
			Jail: adoptedJail, Client: x.Target.Addr(), Since: now, Until: now.Add(x.Left),
			Actions: []string{e.name}, Offence: 1, Event: now,
		})
		d.adopted[x.Target] = struct{}{}
		n++
	}
	if n > 0 {
		d.Log.Warn("took over bans that are in force and not in the state", "action", e.name, "bans", n)
	}
}

// believe has a ban end when the kernel says, if it was stored by a clock that was
// ahead of the one that runs now: what is left of it only the kernel knows then.
func believe(b *state.Ban, held *actions.Entry, action string, now time.Time) {
	for i := range b.Owners {
		o := &b.Owners[i]
		if !o.Stored.IsZero() && held.Left > 0 && slices.Contains(o.Actions, action) && now.Add(held.Left).Before(o.Until) {
			o.Until = now.Add(held.Left)
		}
	}
}
