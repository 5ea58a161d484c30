package daemon

import (
	"net/netip"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// pardonRest is how long a pardon is kept beyond the time up to which events
// don't count and the longest window behind that: what is read again after a
// crash, or was late, must find it.
const pardonRest = time.Hour

// pardons are those in force, as they are stored. There are at most as many as
// the detector takes; the one that is forgotten soonest makes room.
type pardons struct {
	keys map[state.PardonKey]*heldPardon
	ends *queue[heldPardon]
}

type heldPardon struct {
	state.Pardon
	at int // in the queue
}

func newPardons() *pardons {
	return &pardons{
		keys: map[state.PardonKey]*heldPardon{},
		ends: newQueue(
			func(p *heldPardon) time.Time { return p.Keep },
			func(p *heldPardon) *int { return &p.at }),
	}
}

// put adds a pardon, or replaces that of the same target and jail if it reaches
// further: nobody who was forgiven for a day is less so for a second word. It
// reports whether it did.
func (s *pardons) put(p state.Pardon) bool {
	k := p.Key()
	if old := s.keys[k]; old != nil {
		if !p.Before.After(old.Before) {
			return false
		}
		old.Pardon = p
		s.ends.moved(old)
		return true
	}
	h := &heldPardon{Pardon: p}
	s.keys[k] = h
	s.ends.add(h)
	return true
}

// pop removes the pardon that is forgotten soonest, if that is by now or there
// are too many.
func (s *pardons) pop(now time.Time) (state.Pardon, bool) {
	h := s.ends.first()
	if h == nil || len(s.keys) <= detector.MaxPardons && h.Keep.After(now) {
		return state.Pardon{}, false
	}
	s.ends.remove(h)
	delete(s.keys, h.Key())
	return h.Pardon, true
}

// forgive has events up to a time not count, now and after a restart.
func (e *engine) forgive(p state.Pardon, now time.Time) {
	if !e.pardons.put(p) {
		return
	}
	e.update.Pardons = append(e.update.Pardons, p)
	e.forgetPardons(now) // makes room first: the detector takes no more
	if e.pardons.keys[p.Key()] != nil {
		e.detect.Forgive(p.Target, p.Jail, p.Before.UnixNano())
	}
}

// forgetPardons lets go of those that no event can need any more.
func (e *engine) forgetPardons(now time.Time) {
	for p, ok := e.pardons.pop(now); ok; p, ok = e.pardons.pop(now) {
		if until := e.sparedUntil(p.Target); !p.Keep.After(now) && until.After(now) && len(e.pardons.keys) < detector.MaxPardons {
			p.Keep = until // or a restart would merge its network
			e.pardons.put(p)
			e.update.Pardons = append(e.update.Pardons, p)
			continue
		}
		e.detect.Unforgive(p.Target, p.Jail)
		e.update.ForgetPardons = append(e.update.ForgetPardons, p.Key())
	}
}

// restorePardons takes up those of an earlier daemon.
func (e *engine) restorePardons(list []state.Pardon) {
	for _, p := range list {
		if e.pardons.put(p) {
			e.detect.Forgive(p.Target, p.Jail, p.Before.UnixNano())
		}
	}
}

// covers reports whether all jails have forgiven a target something.
func (s *pardons) covers(target netip.Prefix) bool {
	for _, p := range s.keys {
		if p.Jail == "" && p.Target.Bits() <= target.Bits() && p.Target.Overlaps(target) {
			return true
		}
	}
	return false
}

// forgiven reports whether a pardon covers what an owner of a ban has decided.
func (s *pardons) forgiven(target netip.Prefix, o *state.Owner) bool {
	for _, p := range s.keys {
		if p.Target.Bits() <= target.Bits() && p.Target.Overlaps(target) && (p.Jail == "" || p.Jail == o.Jail) && !o.Event.After(p.Before) {
			return true
		}
	}
	return false
}

// keepPardon is until when a pardon is kept.
func (e *engine) keepPardon(before time.Time) time.Time {
	longest := time.Duration(0)
	for i := range e.config.Jails {
		longest = max(longest, e.config.Jails[i].Window)
	}
	return before.Add(longest + pardonRest)
}
