package daemon

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gaissmai/bart"
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
		d.adopted = map[netip.Prefix]bool{}
	}
	// Networks that are banned as one come last: by then their members are known.
	slices.SortStableFunc(entries, func(a, b actions.Entry) int { return cmp.Compare(min(a.Merged, 1), min(b.Merged, 1)) })
	a := newAdoption(d, e, time.Now())
	n := 0
	for i := range entries {
		x := &entries[i]
		if a.isKnown(x) || x.Left <= atEnd || a.isOver(x) {
			continue
		}
		if x.Merged > 0 && e.settled(x, a.members()[x.Target], a.pardoned, a.now) {
			continue
		}
		a.add(x)
		n++
	}
	if n > 0 {
		d.Log.Warn("took over bans that are in force and not in the state", "action", e.name, "bans", n)
	}
}

// adoption is what the state knows as an action's bans are compared with it.
type adoption struct {
	*daemon
	action   string
	now      time.Time
	known    map[netip.Prefix]int        // places of loaded bans
	networks bart.Table[struct{}]        // that are banned there
	members  func() map[netip.Prefix]int // of what could be banned as one
	pardoned *pardons
}

func newAdoption(d *daemon, e *enforcer, now time.Time) *adoption {
	a := &adoption{daemon: d, action: e.name, now: now, known: map[netip.Prefix]int{}, pardoned: newPardons()}
	for i := range d.loaded.Bans {
		b := &d.loaded.Bans[i]
		a.known[b.Target] = i
		if !isHost(b.Target) && b.Until(e.name).After(now) {
			a.networks.Insert(b.Target, struct{}{})
		}
	}
	for _, p := range d.loaded.Pardons {
		a.pardoned.put(p)
	}
	a.members = sync.OnceValue(func() map[netip.Prefix]int { return d.membersKnown(e.name, now) })
	return a
}

// isKnown reports whether the state has a ban enforced by the action, and takes
// what only the kernel knows of it.
func (a *adoption) isKnown(x *actions.Entry) bool {
	i, ok := a.known[x.Target]
	if !ok {
		return false
	}
	b := &a.loaded.Bans[i]
	if b.Waiting && x.Left > atEnd && wanted(b, a.action) {
		b.Waiting = false // it had its turn, which is not stored
		a.adopted[x.Target] = false
	}
	if b.Until(a.action).IsZero() {
		return false
	}
	believe(b, x, a.action, a.now)
	return true
}

// wanted reports whether an owner of a ban wants it enforced by an action, be it
// when its turn comes.
func wanted(b *state.Ban, action string) bool {
	return slices.ContainsFunc(b.Owners, func(o state.Owner) bool { return slices.Contains(o.Actions, action) })
}

// isOver reports whether a ban that the state doesn't have was ended by somebody,
// which the action has not heard.
func (a *adoption) isOver(x *actions.Entry) bool {
	// Lifted, or a jail's hold on it was. What a jail has banned since and the state
	// doesn't know is decided anew, as its lines were not stored as counted either.
	if a.pardoned.covers(x.Target) {
		return true
	}
	if isHost(x.Target) {
		return false
	}
	// Part of a wider one since, which would be kept out by it.
	_, _, part := a.networks.LookupPrefixLPM(x.Target)
	return part
}

// add makes it a ban of the state's.
func (a *adoption) add(x *actions.Entry) {
	i, ok := a.known[x.Target]
	if !ok {
		i = len(a.loaded.Bans)
		a.loaded.Bans = append(a.loaded.Bans, state.Ban{Target: x.Target, Origin: a.Host})
	}
	b := &a.loaded.Bans[i]
	b.Waiting = false
	b.Owners = append(b.Owners, state.Owner{
		Jail: adoptedJail, Client: x.Target.Addr(), Since: a.now, Until: a.now.Add(x.Left),
		Actions: []string{a.action}, Offence: 1, Event: a.now,
	})
	a.adopted[x.Target] = true
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
