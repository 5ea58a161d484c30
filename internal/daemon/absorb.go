package daemon

import (
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/state"
)

// absorb has a stored ban overlap no network that is banned, before it is taken
// up: those inside it become part of it, and it becomes part of one around it,
// which absorb reports. Both may have come to be when the kernel or another state
// file knew what this one doesn't. The one that is left lasts as long as either
// would have.
func (e *engine) absorb(b *state.Ban, now time.Time) (part bool) {
	if isHost(b.Target) {
		return false
	}
	b.Owners = fromNow(slices.Clone(b.Owners), now)
	if _, wider, yes := e.bans.networks.LookupPrefixLPM(b.Target); yes {
		if outlast(&wider.Ban, b) {
			e.bans.moved(wider)
			e.touch(&wider.Ban)
			e.enforce(&wider.Ban)
			if e.again == nil {
				e.tellDetector(&wider.Ban)
			}
			e.noteBan(&wider.Ban)
		}
		return true
	}
	var inside []netip.Prefix
	for target := range e.bans.networks.Subnets(b.Target) {
		inside = append(inside, target)
	}
	for _, target := range inside {
		old := e.bans.take(target)
		if outlast(b, old) {
			e.touch(b)
		}
		e.lift(old)
	}
	return false
}

// outlast gives a ban those owners of another that let go later than it. It
// reports whether there are any.
func outlast(b, other *state.Ban) (changed bool) {
	end := b.Until("")
	for _, o := range other.Owners {
		if !o.Until.After(end) {
			continue
		}
		changed = true
		if i := slices.IndexFunc(b.Owners, func(x state.Owner) bool { return x.Jail == o.Jail }); i >= 0 {
			b.Owners[i].Until = o.Until
		} else {
			b.Owners = append(b.Owners, o)
		}
	}
	return changed
}

// fromNow has stored times keep the monotonic reading of now, so that a step of
// the wall clock doesn't move the end.
func fromNow(owners []state.Owner, now time.Time) []state.Owner {
	for i := range owners {
		o := &owners[i]
		o.Since, o.Until = now.Add(o.Since.Sub(now.Round(0))), now.Add(o.Until.Sub(now.Round(0)))
	}
	return owners
}
