package daemon

import (
	"context"
	"net/netip"
	"slices"
)

// maxLeft is how many places that are not cleared yet are remembered.
const maxLeft = 64

// takeOver has l do what is left of other clearings of the same place: whoever
// changes a configuration back and forth leaves it again and again, and each time
// as a whole. d.places is locked.
func (d *daemon) takeOver(l *leaving) {
	if l.programs == nil {
		return // what the kernel has stays if it is used again; see stay
	}
	d.left = slices.DeleteFunc(d.left, func(x *leaving) bool {
		if x.programs == nil || !x.Action.SamePlace(&l.Action) {
			return false
		}
		x.over = true
		l.Targets = union(l.Targets, x.Targets)
		if x.part != nil {
			x.part.cancel()
			l.before = append(l.before, x)
		}
		return true
	})
	if len(l.Action.Command.List) == 0 {
		l.programs.Remember(l.Targets)
	}
}

// takeRest waits until those have ended whose place l takes over: two must not take
// out the same bans.
func (l *leaving) takeRest(ctx context.Context) {
	for _, x := range l.before {
		select {
		case <-x.part.done:
			l.programs.TakeOver(x.programs)
		case <-ctx.Done():
			return
		}
	}
	l.before = nil
}

// isOver reports whether another clearing has taken l over.
func (d *daemon) isOver(l *leaving) bool {
	d.places.Lock()
	defer d.places.Unlock()
	return l.over
}

// limitLeft forgets those that have failed first if there are too many. d.places is
// locked.
func (d *daemon) limitLeft() (forgotten []*leaving) {
	n := len(d.left) - maxLeft
	d.left = slices.DeleteFunc(d.left, func(l *leaving) bool {
		if n <= 0 || l.part == nil || !ended(l.part) {
			return false
		}
		n--
		forgotten = append(forgotten, l)
		return true
	})
	return forgotten
}

// ended reports whether a part has.
func ended(p *part) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// union is a with what only b has.
func union(a, b []netip.Prefix) []netip.Prefix {
	if len(b) == 0 {
		return a
	}
	known := make(map[netip.Prefix]bool, len(a))
	for _, t := range a {
		known[t] = true
	}
	for _, t := range b {
		if !known[t] {
			known[t] = true
			a = append(a, t)
		}
	}
	return a
}
