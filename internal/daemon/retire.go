package daemon

import (
	"net/netip"
	"slices"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
)

// retire lets go of the actions that are not used any more, and of what they
// hold. It returns those places that are not cleared yet.
func (d *daemon) retire(n *next) (late []*leaving) {
	d.closeOld(n)
	var places []*leaving
	for _, e := range n.old {
		place := e.config.Place()
		if place == "" || e.config.Type != config.TypeCommand && d.placeUsed(place) || d.edgeUsed(&e.config) {
			continue
		}
		l := &leaving{UsedPlace: config.UsedPlace{Action: e.config}, teardown: e.teardown, programs: e.programs}
		if c := e.programs; c != nil && len(e.config.Command.List) == 0 {
			if entries, err := c.List(d.reading); err == nil { // from memory
				l.Targets = targetsOf(entries, func(netip.Prefix) bool { return false })
			}
		}
		places = append(places, l)
	}
	var parts []*part
	d.leave(places, d.waitedFor(n))
	for _, l := range places {
		parts = append(parts, l.part)
	}
	if waitFor(allOf(parts), leaveAtOnce) {
		return nil
	}
	for _, l := range places {
		select {
		case <-l.part.done:
		default:
			d.Log.Warn("the bans of an action that is not used any more are still there: they are cleared in the background, once what takes its place works",
				"action", l.Action.Name, "of", l.Action.Place())
			late = append(late, l)
		}
	}
	return late
}

// waitedFor are the actions that must have all that is wanted before bans go
// elsewhere. One that went on and didn't work before is nothing to wait for.
func (d *daemon) waitedFor(n *next) (after []*enforcer) {
	for _, e := range d.enforcers() {
		if e.enforces && (slices.Contains(n.fresh, e) || !e.reconciler.Stats().Failing) {
			after = append(after, e)
		}
	}
	return after
}

func (d *daemon) placeUsed(place string) bool {
	return slices.ContainsFunc(d.enforcers(), func(e *enforcer) bool { return e.config.Place() == place })
}

// stay ends the clearing of what is used again.
func (d *daemon) stay(n *next) {
	used := func(l *leaving) bool {
		return l.programs == nil && slices.ContainsFunc(n.fresh, func(e *enforcer) bool { return shares(&e.config, &l.Action) || d.sameAtEdge(&e.config, &l.Action) })
	}
	d.places.Lock()
	var parts []*part
	for _, l := range d.left {
		if used(l) && l.part != nil {
			parts = append(parts, l.part)
			l.part.cancel()
		}
	}
	d.left = slices.DeleteFunc(d.left, used)
	d.places.Unlock()
	if !waitFor(allOf(parts), actionPatience) {
		d.Log.Warn("what is used again is still being cleared: it is made again with the next comparison")
	}
}

// shares reports whether two actions have something in the kernel in common.
func shares(a, b *config.Action) bool {
	if a.Type != b.Type {
		return false
	}
	return a.Place() == b.Place() || a.Type == config.TypeIptables && (a.Chain == b.Chain || a.Sets == b.Sets)
}

// notePlaces has a list kept of where bans are, or may be.
func (d *daemon) notePlaces() {
	places := []config.UsedPlace{}
	for _, e := range d.enforcers() {
		if e.config.Place() != "" {
			places = append(places, config.UsedPlace{Action: e.config})
		}
	}
	d.places.Lock()
	defer d.places.Unlock()
	for _, l := range d.left {
		places = append(places, l.UsedPlace)
	}
	d.keepPlaces.put(places)
}

// unlockUnused unlocks what nobody uses any more.
func (d *daemon) unlockUnused() {
	d.places.Lock()
	defer d.places.Unlock()
	for place := range d.locks {
		if d.placeUsed(place) || slices.Contains(d.planned, place) ||
			slices.ContainsFunc(d.left, func(l *leaving) bool { return l.Action.Place() == place }) {
			continue
		}
		d.unlock(place)
	}
}

// unlock unlocks a place, if it is locked.
func (d *daemon) unlock(place string) {
	l := d.locks[place]
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		d.Log.Warn("cannot unlock what an action had for itself", "of", place, "err", err)
	}
	delete(d.locks, place)
}

// planOver lets go of what was locked for a configuration that was refused.
func (d *daemon) planOver() {
	d.places.Lock()
	d.planned = nil
	d.places.Unlock()
	d.unlockUnused()
}

// lastActions are those that are used, and those of places not cleared yet.
func (d *daemon) lastActions() (list []*config.Action) {
	for _, e := range d.enforcers() {
		list = append(list, &e.config)
	}
	d.places.Lock()
	defer d.places.Unlock()
	for _, l := range d.left {
		list = append(list, &l.Action)
	}
	return list
}

// leavers are the parts that clear places.
func (d *daemon) leavers() (parts []*part) {
	d.places.Lock()
	defer d.places.Unlock()
	for _, l := range d.left {
		if l.part != nil {
			parts = append(parts, l.part)
		}
	}
	return parts
}

// lockOf returns the lock of a place, and notes that a plan counts on it.
func (d *daemon) lockOf(place string) *actions.TableLock {
	d.places.Lock()
	defer d.places.Unlock()
	d.planned = append(d.planned, place)
	return d.locks[place]
}
