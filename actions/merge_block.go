package actions

import (
	"cmp"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"time"
)

// block is a network with members that are banned. Its times are counted from
// the Merger's start.
type block struct {
	network netip.Prefix
	ends    map[uint16]time.Duration // of members, with some that are over
	first   time.Duration            // no member's ban ends before that

	merged bool
	until  time.Duration // of the network, while it is merged
	kept   []end         // the members that stay banned by themselves, soonest end first
	rest   time.Duration // to when it was inherited

	bar    time.Duration // it is not merged until then: the last end of its members
	spared time.Duration // likewise: to when somebody in it is forgiven
	fresh  bool          // bar reaches to the ends of those that come before the next Recheck
}

// end is when the ban of a member ends.
type end struct {
	at  time.Duration
	key uint16
}

func byEnd(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) }

// noKey is no member: one that was not told of just now.
const noKey = -1

func (m *Merger) block(network netip.Prefix) *block {
	b := m.blocks[network]
	if b == nil {
		b = &block{network: network, ends: map[uint16]time.Duration{}}
		m.blocks[network] = b
	}
	return b
}

func (b *block) barred(now time.Duration) bool { return b.fresh || now < max(b.bar, b.spared) }

// set notes until when a member is banned.
func (b *block) set(key uint16, at time.Duration) {
	if len(b.ends) == 0 || at < b.first {
		b.first = at
	}
	b.ends[key] = at
}

// purge forgets members whose bans are over.
func (b *block) purge(now time.Duration) {
	if now < b.first {
		return
	}
	b.first = math.MaxInt64
	for key, at := range b.ends {
		if at <= now {
			delete(b.ends, key)
		} else {
			b.first = min(b.first, at)
		}
	}
	b.kept = slices.DeleteFunc(b.kept, func(e end) bool { return e.at <= now })
}

// latest is when the last ban of a member ends; 0: there are none.
func (b *block) latest() (at time.Duration) {
	for _, x := range b.ends {
		at = max(at, x)
	}
	return at
}

// live counts the members that are banned.
func (b *block) live(now time.Duration) (n int) {
	for _, at := range b.ends {
		if at > now {
			n++
		}
	}
	return n
}

// endAtTime notes that a network has ended by itself.
func (m *Merger) endAtTime(b *block, now time.Duration) {
	if !b.merged || b.until > now {
		return
	}
	m.unmerged(b)
	m.log.Info("network is no longer banned as one: fewer of its members are banned",
		slog.String("network", b.network.String()), slog.Int("members", b.live(now)))
}

func (m *Merger) unmerged(b *block) {
	b.merged, b.kept, b.rest = false, nil, 0
	m.count(b.network, -1)
}

// merge has a network banned as one if it can be. fresh is the member that has
// made it so, whom the Enforcer doesn't know yet.
func (m *Merger) merge(b *block, now time.Duration, fresh int) bool {
	if len(b.ends) < m.opt.Least || m.hindered(b, now) != "" {
		return false
	}
	b.purge(now)
	if len(b.ends) < m.opt.Least {
		return false
	}
	m.arrange(b, now, fresh, "")
	m.stats.Merges++
	m.log.Info("network banned as one, as so many of its members are banned",
		slog.String("network", b.network.String()), slog.Int("members", len(b.ends)), slog.Time("until", m.at(b.until).UTC()))
	return true
}

// hindered says why a network must not be merged, or can't be.
func (m *Merger) hindered(b *block, now time.Duration) string {
	if b.barred(now) {
		return "somebody in it was let go"
	}
	if !m.fits(b.network, 1) {
		return "there is no room for it"
	}
	for other, at := range m.others {
		if at > now && other.Overlaps(b.network) {
			return other.String() + " is banned"
		}
	}
	return m.protected(b.network)
}

func (m *Merger) protected(network netip.Prefix) (reason string) {
	if m.opt.Protected != nil {
		if reason, yes := m.opt.Protected(network); yes {
			return cmp.Or(reason, "protected")
		}
	}
	return ""
}

// arrange makes a network what it should be by the ends of all its members, or
// splits it if there are too few. fresh is a member whose ban has just been set.
func (m *Merger) arrange(b *block, now time.Duration, fresh int, why string) {
	b.purge(now)
	if len(b.ends) < m.opt.Least && b.rest <= now {
		if fresh != noKey {
			m.opt.Enforcer.Set(b.member(uint16(fresh)), m.at(b.ends[uint16(fresh)]))
		}
		m.split(b, now, why)
		return
	}
	all := make([]end, 0, len(b.ends))
	for key, at := range b.ends {
		all = append(all, end{at, key})
	}
	slices.SortFunc(all, byEnd)
	under := max(0, len(all)-(m.opt.Least-1))
	was := map[uint16]bool{}
	for _, e := range b.kept {
		was[e.key] = true
	}
	single := func(key uint16) bool { return !b.merged || was[key] }

	until := b.rest
	if under > 0 {
		until = max(until, all[under-1].at)
	}
	for _, e := range all[under:] { // before the network may end sooner
		if !single(e.key) || int(e.key) == fresh {
			m.opt.Enforcer.Set(b.member(e.key), m.at(e.at))
		}
	}
	m.opt.Enforcer.SetMerged(b.network, m.at(until), m.opt.Least)
	for _, e := range all[:under] {
		if single(e.key) || int(e.key) == fresh {
			m.opt.Enforcer.SetCovered(b.member(e.key), m.at(e.at))
		}
	}
	if !b.merged {
		m.count(b.network, 1)
	}
	b.merged, b.until, b.kept = true, until, slices.Clone(all[under:])
}

// join takes in a member of a merged network that is new, or banned for longer.
func (m *Merger) join(b *block, key uint16, at time.Duration) {
	b.kept = slices.DeleteFunc(b.kept, func(e end) bool { return e.key == key })
	fresh := end{at, key}
	i, _ := slices.BinarySearchFunc(b.kept, fresh, byEnd)
	b.kept = slices.Insert(b.kept, i, fresh)
	if i > 0 || len(b.kept) < m.opt.Least {
		m.opt.Enforcer.Set(b.member(key), m.at(at))
	}
	if len(b.kept) < m.opt.Least {
		return
	}
	first := b.kept[0] // all that are covered end before that
	b.kept = b.kept[1:]
	if first.at > b.until {
		b.until = first.at
		m.opt.Enforcer.SetMerged(b.network, m.at(b.until), m.opt.Least)
	}
	m.opt.Enforcer.SetCovered(b.member(first.key), m.at(first.at))
}

// split has the members of a network banned by themselves, and the network not
// any more.
func (m *Merger) split(b *block, now time.Duration, why string) {
	if !b.merged {
		return
	}
	kept := map[uint16]bool{}
	for _, e := range b.kept {
		kept[e.key] = true
	}
	n := 0
	for key, at := range b.ends {
		if at <= now {
			continue
		}
		if n++; !kept[key] {
			m.opt.Enforcer.Set(b.member(key), m.at(at))
		}
	}
	m.opt.Enforcer.Delete(b.network)
	m.unmerged(b)
	m.stats.Splits++
	m.log.Info("network is no longer banned as one, its members are banned one by one",
		slog.String("network", b.network.String()), slog.Int("members", n), slog.String("reason", why))
}

// setOther bans what is no member of any network. A network is banned for its
// own sake: it goes before those that could be split.
func (m *Merger) setOther(target netip.Prefix, at, now time.Duration) {
	if target.IsSingleIP() {
		m.opt.Enforcer.Set(target, m.at(at)) // an IPv6 address overlaps no network there
		return
	}
	if at <= now {
		m.forgetOther(target)
		if b := m.blocks[target]; b == nil || !b.merged {
			m.opt.Enforcer.Delete(target)
		}
		return
	}
	for _, b := range m.blocks {
		if b.merged && b.network.Overlaps(target) {
			m.split(b, now, target.String()+" is banned for its own sake")
		}
	}
	if _, known := m.others[target]; !known {
		m.count(target, 1)
	}
	m.others[target] = at
	if !m.fits(target, 0) {
		m.makeRoom(target, now)
	}
	m.opt.Enforcer.Set(target, m.at(at))
}

func (m *Merger) forgetOther(target netip.Prefix) {
	if _, known := m.others[target]; known {
		delete(m.others, target)
		m.count(target, -1)
	}
}

// fits reports whether there is room for so many networks more beside a target.
func (m *Merger) fits(target netip.Prefix, more int) bool {
	if m.opt.Bounded == nil {
		return true
	}
	place, size := m.opt.Bounded.Room(target)
	return place == "" || m.networks[place]+more <= size
}

func (m *Merger) count(target netip.Prefix, n int) {
	if m.opt.Bounded != nil {
		place, _ := m.opt.Bounded.Room(target)
		m.networks[place] += n
	}
}

// makeRoom splits the network that ends soonest of those in a target's place.
func (m *Merger) makeRoom(target netip.Prefix, now time.Duration) {
	place, _ := m.opt.Bounded.Room(target)
	var first *block
	for _, b := range m.blocks {
		if !b.merged || first != nil && b.until >= first.until {
			continue
		}
		if p, _ := m.opt.Bounded.Room(b.network); p == place {
			first = b
		}
	}
	if first != nil {
		m.split(first, now, "there is no room for it beside "+target.String())
	}
}
