package daemon

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// pardonRest is how long a pardon is kept beyond the time up to which events
// don't count and the longest window behind that: what is read again after a
// crash, or was late, must find it.
const pardonRest = time.Hour

// maxUnheard is how long a pardon is kept at most for an action that has not heard
// of it and would hand what was lifted to the next daemon as a ban of its own.
const maxUnheard = 24 * time.Hour

// pardons are those in force, as they are stored. There are at most as many as
// the detector takes; the one that is forgotten soonest makes room.
type pardons struct {
	keys map[state.PardonKey]*heldPardon
	in   bart.Table[[]*heldPardon] // by target, one for each jail
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

// put adds a pardon. With one of the same target and jail it becomes one that
// reaches as far as either, since nobody who was forgiven for a day is less so for
// a second word, and was given when the later one was, as it lifted what was
// decided by then. It returns the pardon that there is now, and whether it says
// more than before.
func (s *pardons) put(p state.Pardon) (now state.Pardon, more bool) {
	k := p.Key()
	old := s.keys[k]
	if old == nil {
		h := &heldPardon{Pardon: p}
		s.keys[k] = h
		s.ends.add(h)
		here, _ := s.in.Get(p.Target)
		s.in.Insert(p.Target, append(here, h))
		return p, true
	}
	if !p.Before.After(old.Before) && !p.Since.After(old.Since) {
		return old.Pardon, false
	}
	if old.Since.After(p.Since) {
		p.Since, p.Reason, p.By = old.Since, old.Reason, old.By
	}
	p.Before, p.Keep = later(p.Before, old.Before), later(p.Keep, old.Keep)
	old.Pardon = p
	s.ends.moved(old)
	return p, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
	here, _ := s.in.Get(h.Target)
	if here = slices.DeleteFunc(slices.Clone(here), func(x *heldPardon) bool { return x == h }); len(here) > 0 {
		s.in.Insert(h.Target, here)
	} else {
		s.in.Delete(h.Target)
	}
	return h.Pardon, true
}

// around yields those of a target and of networks around it.
func (s *pardons) around(target netip.Prefix) iter.Seq[*heldPardon] {
	return eachOf(s.in.Supernets(target))
}

// inside yields those of a target and of what is in it.
func (s *pardons) inside(target netip.Prefix) iter.Seq[*heldPardon] {
	return eachOf(s.in.Subnets(target))
}

func eachOf(lists iter.Seq2[netip.Prefix, []*heldPardon]) iter.Seq[*heldPardon] {
	return func(yield func(*heldPardon) bool) {
		for _, list := range lists {
			for _, p := range list {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// forgive has events up to a time not count, now and after a restart.
func (e *engine) forgive(p state.Pardon, now time.Time) {
	p, more := e.pardons.put(p)
	if !more {
		return
	}
	e.update.Pardons = append(e.update.Pardons, p)
	e.forgetPardons(now) // makes room first: the detector takes no more
	if e.pardons.keys[p.Key()] != nil {
		e.detect.Forgive(p.Target, p.Jail, p.Before.UnixNano())
	}
}

// endForgiveness has what a target, and all in it, does from now on count again:
// it is banned by hand. What was forgiven of the past stays, or lines that are
// read again would count. So does a pardon of a wider network, which is about
// others as well; the ban holds all the same, as it is the later word.
func (e *engine) endForgiveness(target netip.Prefix, now time.Time) {
	for p := range e.pardons.inside(target) {
		if !p.Before.After(now) {
			continue
		}
		p.Before = now
		e.retellPardon(p)
	}
}

// retellPardon has a pardon whose times have changed kept as it is now.
func (e *engine) retellPardon(p *heldPardon) {
	e.update.Pardons = append(e.update.Pardons, p.Pardon)
	e.detect.Unforgive(p.Target, p.Jail)
	e.detect.Forgive(p.Target, p.Jail, p.Before.UnixNano())
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
func (e *engine) restorePardons(list []state.Pardon, now time.Time) {
	for _, p := range list {
		p.Since, p.Before, p.Keep = byClock(p.Since, now), byClock(p.Before, now), byClock(p.Keep, now)
		if p, more := e.pardons.put(p); more {
			e.detect.Forgive(p.Target, p.Jail, p.Before.UnixNano())
		}
	}
}

// covers reports whether a target was forgiven something, by whatever jail.
func (s *pardons) covers(target netip.Prefix) bool {
	_, yes := s.in.LookupPrefix(target)
	return yes
}

// forgiven reports whether a pardon has lifted what an owner of a ban has decided:
// it had to be there by then. Whoever is banned behind that, by hand or for what
// the pardon does not cover, stays so.
func (s *pardons) forgiven(target netip.Prefix, o *state.Owner) bool {
	for p := range s.around(target) {
		if (p.Jail == "" || p.Jail == o.Jail) && o.Since.Before(p.Since) {
			return true
		}
	}
	return false
}

// keepPardon is until when a pardon is kept: of events up to before, and that has
// lifted bans until lifted at the latest.
func (e *engine) keepPardon(before, lifted, now time.Time) time.Time {
	longest := time.Duration(0)
	for i := range e.config.Jails {
		longest = max(longest, e.config.Jails[i].Window)
	}
	keep := before.Add(longest + pardonRest)
	if unheard := now.Add(maxUnheard); lifted.After(unheard) {
		return later(keep, unheard)
	}
	return later(keep, lifted)
}
