package cloudflare

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
)

// Access rules are kept in several zones by one action for each, within one budget and
// one after the other. What follows makes one of these: a ban is in force if it is so
// in each zone.

// useZones has the zones that are named be those with the rules.
func (a *Action) useZones() {
	zones := a.opt.Zones
	a.opt.Zones = nil // there is no lease
	if len(zones) == 1 {
		a.scope = scope(zones[0])
		return
	}
	for _, zone := range zones {
		z := blank(a.opt, a.ledger, a.work)
		z.client, z.scope, z.log = a.client, scope(zone), a.log.With(slog.String("zone", zone))
		a.parts = append(a.parts, z)
	}
}

func (a *Action) prepareZones(ctx context.Context) error {
	for _, z := range a.parts {
		if err := z.Prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *Action) listZones(ctx context.Context) ([]actions.Entry, error) {
	var failed, refused []error
	for _, z := range a.parts {
		switch _, err := z.List(ctx); {
		case z.noteRefusal(err, true):
			refused = append(refused, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	if err := a.judgeZones(failed, refused); err != nil {
		return nil, err
	}
	return a.knownInZones(), nil
}

// noteRefusal notes of a zone whether it takes rules, and reports if it doesn't: the
// token is not for it, or there is no such zone, which listing shows. It is left out
// then, and the others have what they should: to have a ban in some zones is better than
// in none.
func (a *Action) noteRefusal(err error, listing bool) (refused bool) {
	var r *actions.RejectedError
	var w *actions.WaitingError
	known := err == nil || errors.As(err, &r) || errors.As(err, &w)
	if !known {
		a.mu.Lock()
		gone := listing || a.refuses.Err != nil
		a.mu.Unlock()
		refused = is(err, BadToken) || is(err, Permission) || gone && (is(err, Missing) || is(err, Invalid))
		if !refused {
			return false
		}
	}
	a.mu.Lock()
	was := a.refuses
	switch {
	case !refused:
		a.refuses = Lease{}
	case was.Err == nil:
		a.refuses = Lease{Zone: string(a.scope), Err: err, Since: a.opt.now()}
	}
	a.mu.Unlock()
	switch {
	case refused && was.Err == nil:
		a.log.Warn("a zone at Cloudflare refuses access rules: bans are in force in the others only", slog.Any("err", err))
	case !refused && was.Err != nil:
		a.log.Info("a zone at Cloudflare takes access rules again")
	}
	return refused
}

// judgeZones is what the failures in zones come to: that some refuse rules is none.
func (a *Action) judgeZones(failed, refused []error) error {
	if len(refused) == len(a.parts) {
		failed = append(failed, refused...)
	}
	return errors.Join(failed...)
}

// refusing are the zones that refuse rules.
func (a *Action) refusing() (list []Lease) {
	for _, z := range a.parts {
		z.mu.Lock()
		if z.refuses.Err != nil {
			list = append(list, z.refuses)
		}
		z.mu.Unlock()
	}
	return list
}

// accepting are the zones that don't.
func (a *Action) accepting() []*Action {
	return slices.DeleteFunc(slices.Clone(a.parts), func(z *Action) bool {
		z.mu.Lock()
		defer z.mu.Unlock()
		return z.refuses.Err != nil
	})
}

// knownInZones lists what is in any zone. What isn't in all of them is listed so that it
// is put in or taken out everywhere.
func (a *Action) knownInZones() (entries []actions.Entry) {
	type sum struct {
		zones int
		left  time.Duration
	}
	all := map[netip.Prefix]sum{}
	zones := a.accepting()
	for _, z := range zones {
		for _, e := range z.Known() {
			s := all[e.Target]
			if s.zones == 0 || s.left != anyMoment && e.Left < s.left || e.Left == anyMoment {
				s.left = e.Left
			}
			s.zones++
			all[e.Target] = s
		}
	}
	for p, s := range all {
		if s.zones < len(zones) && s.left != anyMoment {
			s.left = noEnd
		}
		entries = append(entries, actions.Entry{Target: p, Left: s.left})
	}
	return entries
}

func (a *Action) heldInZones(ctx context.Context, target netip.Prefix) (e actions.Entry, held bool, err error) {
	for i, z := range a.accepting() {
		here, held, err := z.Held(ctx, target)
		if !held || err != nil {
			return actions.Entry{}, false, err
		}
		if i == 0 || here.Left < e.Left {
			e = here
		}
	}
	return e, e.Target.IsValid(), nil
}

// applyToZones writes to one zone after the other, and begins with the next one each time:
// the budget may last for the first only. What one of them rejects, or has to wait, is
// named even if others have it.
func (a *Action) applyToZones(ctx context.Context, add []actions.Entry, remove []netip.Prefix, asked time.Time) error {
	rejected, waiting := map[netip.Prefix]actions.Rejection{}, map[netip.Prefix]bool{}
	var failed, refused []error
	a.mu.Lock()
	first := a.turn % len(a.parts)
	a.turn = first + 1
	a.mu.Unlock()
	for _, z := range slices.Concat(a.parts[first:], a.parts[:first]) {
		err := z.apply(ctx, add, remove, asked)
		if z.noteRefusal(err, false) {
			refused = append(refused, err)
			continue
		}
		var r *actions.RejectedError
		var w *actions.WaitingError
		isRejected, isWaiting := errors.As(err, &r), errors.As(err, &w)
		if err != nil && !isRejected && !isWaiting {
			failed = append(failed, err)
		}
		if isRejected {
			for _, x := range r.Rejected {
				rejected[x.Target] = x
			}
		}
		if isWaiting {
			for _, p := range w.Targets {
				waiting[p] = true
			}
		}
	}
	if err := a.judgeZones(failed, refused); err != nil {
		return err
	}
	var no []actions.Rejection
	for p, x := range rejected {
		delete(waiting, p)
		no = append(no, x)
	}
	var later []netip.Prefix
	for p := range waiting {
		later = append(later, p)
	}
	return result(no, later)
}

func (a *Action) runZones(ctx context.Context) error {
	var all sync.WaitGroup
	for _, z := range a.parts {
		all.Go(func() { _ = z.Run(ctx) }) // which has no error
	}
	all.Wait()
	return nil
}

func (a *Action) pauseOfZones() (wait time.Duration) {
	for _, z := range a.parts {
		wait = max(wait, z.Pause())
	}
	return wait
}

// roomInZones is that of the account, of which a ban takes a rule in each zone.
func (a *Action) roomInZones() (place string, size int) {
	size = a.opt.Capacity
	others := 0
	for _, z := range a.parts {
		_, here := z.Room(netip.Prefix{})
		size = min(size, here)
		others += z.Stats().Others
	}
	return a.place(), max(1, min(size, (a.opt.Capacity-others)/len(a.parts)))
}

// statsOfZones adds up what is counted for each zone.
func (a *Action) statsOfZones() (s Stats) {
	for _, z := range a.parts {
		x := z.Stats()
		s.Requests = x.Requests // of all
		s.Items += x.Items
		s.Others += x.Others
		s.Covered = max(s.Covered, x.Covered)
		s.Waiting = max(s.Waiting, x.Waiting)
		s.Changes += x.Changes
		s.Removed += x.Removed
		s.Overdue += x.Overdue
	}
	return s
}

// inZones does something in each zone, and adds up what it was done to.
func (a *Action) inZones(f func(*Action) (int, error)) (n int, err error) {
	parts := a.parts
	if len(parts) == 0 {
		parts = []*Action{a}
	}
	for _, z := range parts {
		here, failed := f(z)
		n += here
		err = errors.Join(err, failed)
	}
	return n, err
}

// TeardownBut is Teardown, but for the access rules of some zones.
func (a *Action) TeardownBut(ctx context.Context, zones []string) (existed bool, err error) {
	n, err := a.inZones(func(z *Action) (int, error) {
		if z.scope != "" && slices.Contains(zones, string(z.scope)) {
			return 0, nil
		}
		return z.Clear(ctx)
	})
	return n > 0, err
}
