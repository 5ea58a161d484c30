package actions

import (
	"net/netip"
	"time"
)

// Lengths, in bits, of the networks that can be banned as one in place of many
// of their members.
const (
	merged4 = 24 // of IPv4 addresses
	merged6 = 48 // of IPv6 /64s
)

// MergedNetwork returns the network that a target is a member of, for [Merger]:
// the /24 of an IPv4 address, the /48 of an IPv6 /64; false: it is none of any.
func MergedNetwork(target netip.Prefix) (network netip.Prefix, ok bool) {
	a := target.Addr()
	switch {
	case a.Is4() && target.Bits() == 32:
		return netip.PrefixFrom(a, merged4).Masked(), true
	case a.Is6() && !a.Is4In6() && target.Bits() == 64:
		return netip.PrefixFrom(a, merged6).Masked(), true
	}
	return netip.Prefix{}, false
}

// merged is a network that is banned as one, in place of the members under it.
type merged struct {
	least int                       // of how many members it is made, at least
	held  time.Time                 // until when the action bans it, as far as we know
	under map[netip.Prefix]struct{} // these need no ban of their own while it lasts

	// waiting are those under it whose own bans can be taken back as soon as
	// the network is banned for long enough.
	waiting map[netip.Prefix]struct{}
}

// SetMerged is Set of a network that is banned as one since at least so many
// of its members are banned. SetCovered names those that it stands for.
func (r *Reconciler) SetMerged(network netip.Prefix, until time.Time, least int) {
	r.mu.Lock()
	m := r.merged[network]
	if m == nil {
		m = &merged{under: map[netip.Prefix]struct{}{}, waiting: map[netip.Prefix]struct{}{}}
		r.merged[network] = m
	}
	m.least = least
	r.want(network, until)
	r.markPending(network, asked)
	r.mu.Unlock()
	r.notify()
}

// SetCovered is Set of a member of a network that is banned as one: the ban is
// not held by itself as long as that of the network is in force and lasts until
// then at least. Whatever comes of the network, the member stays banned.
func (r *Reconciler) SetCovered(target netip.Prefix, until time.Time) {
	r.mu.Lock()
	r.want(target, until)
	if network, ok := MergedNetwork(target); ok && r.merged[network] != nil {
		r.merged[network].under[target] = struct{}{}
	}
	r.markPending(target, asked)
	r.mu.Unlock()
	r.notify()
}

// above returns the merged network that a target is under; nil: there is none.
func (r *Reconciler) above(target netip.Prefix) (network netip.Prefix, m *merged) {
	if len(r.merged) == 0 {
		return netip.Prefix{}, nil
	}
	network, _ = MergedNetwork(target)
	if m = r.merged[network]; m == nil {
		return netip.Prefix{}, nil
	}
	if _, yes := m.under[target]; !yes {
		return netip.Prefix{}, nil
	}
	return network, m
}

// covered reports whether the ban of a network makes one of the target needless.
// If it will do so as soon as it is in force, the target is looked at again then.
func (r *Reconciler) covered(target netip.Prefix, until time.Time) bool {
	network, m := r.above(target)
	if m == nil {
		return false
	}
	w := r.desired[network]
	if w.inForce && !w.rejected && !w.out && !w.until.Before(until) && !m.held.Before(until) {
		return true
	}
	m.waiting[target] = struct{}{}
	return false
}

// uncover has a target need a ban of its own. If it was covered, that ban does
// not begin now.
func (r *Reconciler) uncover(target netip.Prefix) {
	_, m := r.above(target)
	if m == nil {
		return
	}
	if w, ok := r.desired[target]; ok && r.covered(target, w.until) {
		w.inForce = true
		r.desired[target] = w
	}
	delete(m.under, target)
	delete(m.waiting, target)
}

// release has the members under a network looked at again, as it is not, or not
// for as long, in force.
func (r *Reconciler) release(network netip.Prefix) {
	m := r.merged[network]
	if m == nil {
		return
	}
	m.held = time.Time{}
	for target := range m.under {
		r.markPending(target, asked)
	}
	r.notify()
}

// unmerge is release, and the network is an ordinary target from here on.
func (r *Reconciler) unmerge(network netip.Prefix) {
	r.release(network)
	delete(r.merged, network)
}

// mergedAs says of how many members at least a target is made; 0: it is no
// merged network.
func (r *Reconciler) mergedAs(target netip.Prefix) int {
	if m := r.merged[target]; m != nil {
		return m.least
	}
	return 0
}

// heldMerged notes which networks the action has been told to ban, until when,
// and has their members' own bans taken back.
func (r *Reconciler) heldMerged(p *plan, refused map[netip.Prefix]struct{}) {
	news := false
	for network, until := range p.merged {
		m := r.merged[network]
		if _, no := refused[network]; no || m == nil {
			continue
		}
		m.held = until
		for target := range m.waiting {
			r.markPending(target, asked)
			news = true
		}
		clear(m.waiting)
	}
	if news {
		r.notify()
	}
}

// findMerged notes until when the action holds networks, as listed. They come
// before their members.
func (r *Reconciler) findMerged(p *plan, there map[netip.Prefix]Entry, now time.Time, slack time.Duration) {
	for network, m := range r.merged {
		w, ok := r.desired[network]
		e, held := there[network]
		if !ok || !held {
			m.held = time.Time{}
			continue
		}
		if short(e.Left, r.left(w, now), slack) {
			m.held = now.Add(e.Left)
		} else {
			m.held = w.until
		}
		if !w.inForce {
			r.foundInForce(p, network, w)
		}
	}
}

// foundInForce notes that a target is held although no Apply has said so.
func (r *Reconciler) foundInForce(p *plan, target netip.Prefix, w want) {
	if r.stats.Passes > 0 { // before that, it was there when we began
		p.found = append(p.found, target)
	}
	w.inForce = true
	r.desired[target] = w
}

// short reports whether a network ends too early for the members under it. It
// is less patient than tolerance: nothing else bans them.
func short(has, left, slack time.Duration) bool {
	return has > 0 && has+tolerance(0)+slack < left
}

// standing judges what is held of a wanted target: its time left, and what it
// passes for.
func (r *Reconciler) standing(target netip.Prefix, e Entry, left, slack time.Duration) standing {
	least := r.mergedAs(target)
	switch {
	case e.Merged != least, least > 0 && (e.Left-left).Abs() > tolerance(0)+slack: // others are hit as well
		return wrong
	}
	return compareTime(e.Left, left, r.reach(), slack)
}
