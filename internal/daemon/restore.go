package daemon

import (
	"cmp"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/state"
)

// restore takes up what an earlier daemon has left, under what the
// configuration and the host are now.
func (e *engine) restore(d *daemon) {
	now := time.Now()
	plan := d.planWindows(planPatience)
	mark := uint64(0)
	if plan != nil {
		e.again = &rereading{offences: d.loaded.Offences}
		mark = d.windows.Mark
	}
	e.takeUpNotes(d.loaded.Notes, mark)
	if plan != nil { // what is noted from now on comes after their lines
		for _, f := range plan.files {
			e.notes.counts(&f.position, f.upTo, false)
		}
	}
	e.takeUp(d.loaded, d.adopted, now)
	if plan != nil {
		d.loaded.Positions, d.counted = plan.resume, plan.counted
		e.goOn(d.windows, plan, now)
	}
	e.handOver()
}

// restoreLate takes up what a state file holds that could not be opened at the
// start: its bans, unless the target has been banned anew, and offences that
// have not been counted on since.
func (e *engine) restoreLate(l *state.Loaded, now time.Time) {
	n := e.takeUp(l, nil, now)
	for i := range l.Notes { // of a snapshot that was not taken up
		e.update.ForgetNotes = append(e.update.ForgetNotes, l.Notes[i].N)
	}
	e.allowLate(l.Allowances)
	e.log.Info("took up what the state file holds", "bans", n)
	e.handOver()
}

// takeUp adds what is stored to what there is, which goes before it. unstored
// are targets of bans that the state file lacks (true), or has otherwise. It
// returns how many bans it has added. While lines are read again the detector is told later: see settle.
func (e *engine) takeUp(l *state.Loaded, unstored map[netip.Prefix]bool, now time.Time) (n int) {
	e.restorePardons(l.Pardons, now)
	e.restoreHolds(l.Holds, now)
	for i := range l.Positions {
		p := &l.Positions[i]
		if _, newer := e.positions[p.Key()]; !newer {
			e.positions[p.Key()] = *p
			e.missed(p.Log, now)
		}
	}
	for i := range l.Offences {
		o := &l.Offences[i]
		if e.offences.keys[o.Key()] == nil {
			e.offences.add(o)
			if e.again == nil {
				e.detect.RestoreOffence(o.Jail, o.Target, o.Count, o.Last)
			}
		}
	}
	e.update.ForgetOffences = append(e.update.ForgetOffences, e.offences.forget(now)...)

	rules := actionsOf(e.config)
	var added []*state.Ban
	for _, b := range l.Bans {
		if reason, yes := e.guard.Protected(b.Target); yes {
			e.touch(&b)
			e.note(state.Note{What: state.NoteLifted, Target: b.Target})
			e.sayLifted(&b, reason, now)
			continue
		}
		if e.bans.bans[b.Target] != nil {
			e.touch(&b)
			continue
		}
		owners := len(b.Owners)
		if e.spareOwners(&b) || e.absorb(&b, now) {
			e.touch(&b)
			e.note(state.Note{What: state.NoteLifted, Target: b.Target})
			continue
		}
		isNew, changed := unstored[b.Target]
		renewed := rules.renew(&b)
		if renewed || changed {
			e.touch(&b)
		}
		added = append(added, e.bans.restore(b, now))
		switch {
		case isNew:
			e.note(state.Note{What: state.NoteAdopted, Target: b.Target})
			e.noteBan(&b)
		case renewed || len(b.Owners) < owners || e.again == nil: // comes late, or otherwise than it was
			e.noteChanged(&b)
		}
	}
	for _, m := range e.mergers {
		e.spareForgiven(m)
	}
	before := e.bans.evicted
	for e.bans.overfull() {
		e.lift(e.bans.evict())
	}
	if e.bans.evicted > before {
		e.sayFull(now)
	}
	// Networks come first: what overlaps them is not to be banned as one.
	slices.SortStableFunc(added, func(a, b *state.Ban) int { return cmp.Compare(a.Target.Bits(), b.Target.Bits()) })
	for _, b := range added {
		if h := e.bans.bans[b.Target]; h != nil && &h.Ban == b {
			if e.again == nil {
				e.tellDetector(b)
			}
			e.enforce(b)
			n++
		}
	}
	return n
}

// spareOwners takes owners off a stored ban that have been pardoned since: with
// a file that comes late an unban may be younger than what is in it. It reports
// whether none is left.
func (e *engine) spareOwners(b *state.Ban) bool {
	if len(e.pardons.keys) > 0 {
		b.Owners = slices.DeleteFunc(b.Owners, func(o state.Owner) bool { return e.pardons.forgiven(b.Target, &o) })
	}
	return len(b.Owners) == 0
}

// spare ends a ban whose target is protected by now.
func (e *engine) spare(b *state.Ban, now time.Time) {
	reason, _ := e.guard.Protected(b.Target)
	e.spared++
	e.bans.drop(e.bans.bans[b.Target])
	e.lift(b)
	e.sayLifted(b, reason, now)
}

func (e *engine) sayLifted(b *state.Ban, reason string, now time.Time) {
	e.say(now, slog.LevelWarn, "ban lifted: its target is protected now", "target", b.Target.String(), "reason", reason)
}

// tellDetector has a restored ban's target not counted: by nobody if an action
// that is in use keeps it away, or else by the jails that own the ban.
func (e *engine) tellDetector(b *state.Ban) {
	for _, o := range b.Owners {
		e.detect.Restore(b.Target, o.Jail, slices.ContainsFunc(o.Actions, e.keepsAway), o.Until)
	}
}

// retell has a ban whose owners have changed kept as it is now.
func (e *engine) retell(b *state.Ban) {
	e.detect.Unban(b.Target)
	e.tellDetector(b)
	e.noteChanged(b)
}

// keepsAway reports whether an action of that name is in use, and does more
// than log.
func (e *engine) keepsAway(action string) bool { return e.enforcing[action] }

// rules says, by jail, which actions enforce its bans by the configuration:
// none if it only observes.
type rules struct {
	jails map[string][]string
	all   []config.Action
}

func actionsOf(c *config.Config) rules {
	r := rules{map[string][]string{}, c.Actions}
	for i := range c.Jails {
		j := &c.Jails[i]
		r.add(j.Name, j.Observe, j.Actions)
	}
	if c.Deny != nil {
		r.add(detector.DenyName, c.Deny.Observe, c.Deny.Actions)
	}
	return r
}

func (r rules) add(jail string, observe bool, actions []string) {
	if observe {
		actions = nil
	}
	r.jails[jail] = actions
}

// renew has enforced bans enforced where their jails now say. If a jail only
// observes now, or is gone, its bans stay as they were decided.
func (r rules) renew(b *state.Ban) (changed bool) {
	for i := range b.Owners {
		o := &b.Owners[i]
		now := reach(r.all, r.jails[o.Jail], o.Plane)
		if len(o.Actions) == 0 || len(now) == 0 || slices.Equal(o.Actions, now) {
			continue
		}
		o.Actions, changed = now, true
	}
	return changed
}
