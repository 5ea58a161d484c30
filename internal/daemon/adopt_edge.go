package daemon

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/state"
)

// edgeAction is an action at an edge. What it holds at first is taken over like what the
// kernel holds, but no start waits for an API: it is done when the reconciler lists it,
// before anything is removed.
type edgeAction struct {
	*cloudflare.Action

	// adopt takes over what is listed; nil: that was done, or is not to be.
	adopt func(context.Context, []actions.Entry) error
}

// List implements [actions.Action].
func (a *edgeAction) List(ctx context.Context) ([]actions.Entry, error) {
	entries, err := a.Action.List(ctx)
	if err != nil || a.adopt == nil {
		return entries, err
	}
	if err := a.adopt(ctx, entries); err != nil {
		return nil, err
	}
	a.adopt = nil
	return entries, nil
}

// adoptAtEdge has what an action of this start holds taken over.
func (d *daemon) adoptAtEdge(e *enforcer) {
	a, ok := e.action.(*edgeAction)
	if !ok {
		return
	}
	a.adopt = func(ctx context.Context, entries []actions.Entry) error {
		_, err := asked(ctx, d, func(en *engine, now time.Time) (struct{}, error) {
			if n := en.adopt(e.name, entries, now); n > 0 {
				en.log.Warn("took over bans that are in force and not in the state", "action", e.name, "bans", n)
			}
			return struct{}{}, nil
		})
		return err
	}
}

// adopt takes over those of an action's bans that are not in the state, and returns
// their number. They keep their end.
func (e *engine) adopt(action string, entries []actions.Entry, now time.Time) (n int) {
	l, unstored := &state.Loaded{}, map[netip.Prefix]bool{}
	for i := range entries {
		x := &entries[i]
		if x.Left <= atEnd || x.Left > maxManualBan || e.pardons.covers(x.Target) {
			continue // longer than any ban: whoever can write there is not to have one made for good
		}
		o := state.Owner{
			Jail: adoptedJail, Client: x.Target.Addr(), Since: now, Until: now.Add(x.Left),
			Actions: []string{action}, Offence: 1, Event: now,
		}
		h := e.bans.bans[x.Target]
		switch {
		case h == nil:
			e.detect.UseUp(x.Target) // whoever has decided it did not get to storing that
			l.Bans = append(l.Bans, state.Ban{Target: x.Target, Origin: e.origin, Owners: []state.Owner{o}})
			unstored[x.Target] = true
		case h.Waiting && wanted(&h.Ban, action):
			e.admit(h) // it had its turn, which is not stored
		case h.Until(action).IsZero() && isAdopted(&h.Ban):
			h.Owners = append(h.Owners, o)
			e.bans.moved(h)
			e.touch(&h.Ban)
			e.retell(&h.Ban)
			e.enforce(&h.Ban)
			n++
		}
	}
	return n + e.takeUp(l, unstored, now)
}

// isAdopted reports whether all that is known of a ban was taken over: of others the state
// says where they are enforced, or the configuration, which may have changed.
func isAdopted(b *state.Ban) bool {
	return !slices.ContainsFunc(b.Owners, func(o state.Owner) bool { return o.Jail != adoptedJail })
}
