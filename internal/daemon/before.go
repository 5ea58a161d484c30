package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/state"
)

// placesBefore lists where earlier daemons with this state have put bans, and this
// one does not: nobody else looks after them. Where another daemon enforces by now
// is left to that.
func (d *daemon) placesBefore() (before []*leaving) {
	u, err := answer(loadPatience, errors.New("the list is not read in time: does the disk hang?"), func() (*config.UsedPlaces, error) {
		return config.LoadPlaces(d.Config.StateDir)
	})
	if err != nil {
		d.Log.Warn("whether an earlier daemon had other actions is not known: what these have put in stays, if there is any", "err", err)
		if u != nil { // or the disk hangs
			d.setAside(u)
		}
		return nil
	}
	unused := len(u.Bad) > 0
	for _, err := range u.Bad {
		d.Log.Warn("what an earlier daemon had somewhere is left alone, as no configuration can have it", "err", err)
	}
	now := enforcing(d.config)
	for _, p := range u.Places {
		if len(p.Targets) == 0 && slices.ContainsFunc(now, func(a config.Action) bool { return a.SamePlace(&p.Action) || d.sameAtEdge(&a, &p.Action) }) {
			continue
		}
		l, err := d.placeBefore(p, now, u)
		if err != nil {
			d.Log.Warn("bans of an action that is not used any more may be left, and are not looked after",
				"action", p.Action.Name, "of", p.Action.Place(), "by_hand", removal(&p.Action), "err", err)
			unused = true
		}
		if l != nil {
			before = append(before, l)
		}
	}
	if unused {
		d.setAside(u)
	}
	return before
}

// setAside keeps a list of which a part is not used. It can't go on in the one that
// this daemon writes, as nobody could tell then who has named what is in it.
func (d *daemon) setAside(u *config.UsedPlaces) {
	path, err := answer(loadPatience, errors.New("it takes too long: does the disk hang?"), u.SetAside)
	if err != nil {
		d.Log.Warn("the list of what an earlier daemon had can't be set aside, and is replaced", "path", u.Path, "err", err)
		return
	}
	d.Log.Warn("the list of what an earlier daemon had is set aside, as not all of it is used", "path", path)
}

// placeBefore prepares to clear one place; nil: that is not to be done.
func (d *daemon) placeBefore(p config.UsedPlace, now []config.Action, u *config.UsedPlaces) (*leaving, error) {
	l := &leaving{UsedPlace: p}
	a := &p.Action
	if a.Type == config.TypeCommand {
		if u.Foreign != nil {
			return nil, fmt.Errorf("its programs are not run, as somebody else could have named them: %w", u.Foreign)
		}
		if err := d.programsBefore(l); err != nil {
			return nil, err
		}
		return l, nil
	}
	if a.Type == config.TypeCloudflare {
		if u.Foreign != nil {
			return nil, fmt.Errorf("its token is not used, as somebody else could have named where to: %w", u.Foreign)
		}
		edge, err := cloudflare.New(CloudflareOptions(a, d.Host))
		if err != nil {
			return nil, err
		}
		l.teardown = d.teardownEdge(edge, a)
		return l, nil
	}
	place, err := KernelPlaceOf(a, now, &d.iptablesRuns, u.Foreign != nil)
	if err != nil {
		return nil, err
	}
	l.teardown = place.Teardown
	switch got, err := place.Lock(); {
	case errors.Is(err, actions.ErrTableBusy):
		return nil, nil // it is the other's
	case err != nil:
		return nil, err
	default:
		d.locks[a.Place()] = got
	}
	return l, nil
}

// programsBefore makes programs that take out what they list, or what should be
// banned by them as far as the state knows.
func (d *daemon) programsBefore(l *leaving) error {
	a := &l.Action
	o := CommandOptions(a)
	o.Log = d.Log.With("action", a.Name)
	c, err := actions.NewCommand(o)
	if err != nil {
		return err
	}
	l.programs = c
	if len(a.Command.List) > 0 {
		return nil
	}
	known := map[netip.Prefix]bool{}
	for _, t := range l.Targets {
		known[t] = true
	}
	for i := range d.loaded.Bans {
		b := &d.loaded.Bans[i]
		if !b.Waiting && !known[b.Target] && slices.ContainsFunc(b.Owners, func(o state.Owner) bool { return slices.Contains(o.Actions, a.Name) }) {
			l.Targets = append(l.Targets, b.Target)
		}
	}
	c.Remember(l.Targets)
	if !a.Command.Expires {
		d.Log.Warn("bans of an action that is not used any more may be left: those that ended while no daemon ran nobody knows of, as there is no list",
			"action", a.Name, "by_hand", removal(a))
	}
	return nil
}

// leaveBefore clears what an earlier daemon has used once all of this one's
// actions work. Who only observes lets what the configuration still has end by itself:
// it may be there to enforce again.
func (d *daemon) leaveBefore() {
	var places []*leaving
	for _, l := range d.before {
		if d.config.Observe && slices.ContainsFunc(d.config.Actions, func(a config.Action) bool { return a.SamePlace(&l.Action) }) {
			d.Log.Warn("all only observe, but bans from before stay in force until they end (tailban teardown removes them)", "action", l.Action.Name, "of", l.Action.Place())
			d.places.Lock()
			d.left = append(d.left, l)
			d.unlock(l.Action.Place())
			d.places.Unlock()
			continue
		}
		places = append(places, l)
	}
	d.before = nil
	var after []*enforcer
	for _, e := range d.action {
		if e.enforces {
			after = append(after, e)
		}
	}
	d.leave(places, after)
}

// removal says how to remove what an action has.
func removal(a *config.Action) string {
	switch a.Type {
	case config.TypeNftables:
		return "nft delete table inet " + a.Table
	case config.TypeIptables:
		return "tailban teardown; or, for each of iptables and ip6tables, delete the rules -j " + a.Chain + " and the chains " + a.Chain +
			" and " + a.Chain + "-BAN, and by ipset destroy the sets that begin with " + a.Sets
	case config.TypeCommand:
		return fmt.Sprintf("%q for each target", a.Command.Unban)
	case config.TypeCloudflare:
		if a.Cloudflare.AccessRules {
			return "in Cloudflare's dashboard, of the access rules of " + a.Cloudflare.RulesOf() + ", those whose notes begin with tailban/"
		}
		return "in Cloudflare's dashboard, in the list " + a.Cloudflare.List + ", the items whose comment begins with tailban/"
	}
	return ""
}
