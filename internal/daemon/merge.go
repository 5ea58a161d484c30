package daemon

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// recheckNetworks has what is banned as one looked at again.
func (e *engine) recheckNetworks() {
	for _, m := range e.mergers {
		m.Recheck()
	}
}

// spareInNetworks has a target not turned away as part of a network either. It
// reports whether it was.
func (e *engine) spareInNetworks(target netip.Prefix, until time.Time) (was bool) {
	for _, m := range e.mergers {
		was = m.Spare(target, until) || was
	}
	return was
}

// spareForgiven has those who were let go not be hit as part of a network whose
// bans are about to be set.
func (e *engine) spareForgiven(m *actions.Merger) {
	for _, p := range e.pardons.keys {
		if e.bans.bans[p.Target] == nil {
			m.Spare(p.Target, p.Before)
		}
	}
}

// sparedUntil is until when a target keeps its network from being merged.
func (e *engine) sparedUntil(target netip.Prefix) (until time.Time) {
	for _, m := range e.mergers {
		if at := m.Spared(target); at.After(until) {
			until = at
		}
	}
	return until
}

// membersKnown counts the bans at an action that are members of networks, by what
// could be banned as one.
func (d *daemon) membersKnown(action string, now time.Time) map[netip.Prefix]int {
	n := map[netip.Prefix]int{}
	for i := range d.loaded.Bans {
		b := &d.loaded.Bans[i]
		if network, ok := actions.MergedNetwork(b.Target); ok && b.Until(action).After(now) {
			n[network]++
		}
	}
	return n
}

// settled reports whether nothing is to be taken over of a network that the action
// holds as banned as one: so many of its members are known that they make it one
// again if they should. Members that are missing were lost with the last daemon,
// or with the state file. The network goes on to its end then, which is none
// later than theirs: as one that can be split, if networks are still merged.
func (e *enforcer) settled(x *actions.Entry, known int, lifted *pardons, now time.Time) bool {
	if known >= x.Merged {
		return true
	}
	if lifted.in.OverlapsPrefix(x.Target) {
		return true // somebody in it was let go, which the kernel has not heard
	}
	if e.merger == nil {
		return false
	}
	e.merger.Inherit(x.Target, now.Add(x.Left))
	return true
}

// networkOf returns the network that an action bans as one with a target in it.
func (e *enforcer) networkOf(target netip.Prefix) (n netip.Prefix, ok bool) {
	if _, could := actions.MergedNetwork(target); e.merger == nil || !could {
		return netip.Prefix{}, false
	}
	x, ok := e.merger.Network(target.Addr())
	return x.Network, ok
}

// fillNetworks adds the networks that turn an address away without its being
// banned.
func (d *daemon) fillNetworks(ctx context.Context, x *control.Explanation) {
	if slices.ContainsFunc(x.Bans, func(b control.Ban) bool { return !b.Observed }) {
		return
	}
	for _, e := range d.enforcers() {
		if e.merger == nil {
			continue
		}
		n, ok := e.merger.Network(x.Address)
		if !ok {
			continue
		}
		if h, can := e.action.(actions.Holder); can {
			if _, held, err := h.Held(ctx, n.Network); err == nil && !held {
				continue // not yet, or not any more
			}
		}
		x.Networks = append(x.Networks, control.InMerged{Action: e.name, Network: n.Network, Members: n.Members, Until: utc(n.Until)})
	}
}
