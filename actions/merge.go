package actions

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Enforcer is what a [Merger] hands bans to; see [Reconciler].
type Enforcer interface {
	Set(target netip.Prefix, until time.Time)
	Delete(target netip.Prefix)
	SetMerged(network netip.Prefix, until time.Time, least int)
	SetCovered(target netip.Prefix, until time.Time)
}

// MergeOptions of a Merger. Enforcer is required.
type MergeOptions struct {
	Name      string // the action's, for messages
	Least     int    // of how many members at least a network is made, 2 or more
	Enforcer  Enforcer
	Bounded   Bounded          // the action, if it is; nil: there is room for all networks
	Protected Protected        // nil: nothing is
	Log       *slog.Logger     // nil: none
	Now       func() time.Time // nil: time.Now
}

// Merger stands before a Reconciler. Where at least so many members of one
// network are banned at the same time, it has the network banned as one. The
// members are IPv4 addresses of one /24, or IPv6 /64s of one /48; nothing but a
// ban makes anybody one.
//
// A network lasts until fewer than Least of its members are banned: to the end
// that is the Least-th latest of theirs. The Least-1 that end later stay banned
// by themselves, the others are covered by the network. So the action alone, with
// nobody to tell it anything, bans at any moment whom it should.
//
// When a member's ban is lifted the network is split at once, and is not merged
// again before all of its members' bans are over: this one must not be hit
// again. A network that holds somebody protected is not merged, and neither is
// one that overlaps a network which is banned for its own sake.
//
// All methods may be called from any goroutine. Memory is bounded as that of the
// Reconciler is: by what is banned.
type Merger struct {
	opt   MergeOptions
	log   *slog.Logger
	start time.Time // which all times here are counted from

	mu       sync.Mutex
	blocks   map[netip.Prefix]*block
	others   map[netip.Prefix]time.Duration // the ends of networks that are banned for their own sake
	networks map[string]int                 // how many of both are in each place of the action
	stats    MergeStats
}

// MergeStats is a view of a Merger.
type MergeStats struct {
	Networks int // that are banned as one now
	Members  int // whose bans are among them

	Merges uint64 // since NewMerger
	Splits uint64 // before the end of the network
}

// NewMerger returns a Merger that knows of no bans.
func NewMerger(o MergeOptions) *Merger {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Merger{
		opt: o, log: o.Log.With(slog.String("action", o.Name)), start: o.Now(),
		blocks: map[netip.Prefix]*block{}, others: map[netip.Prefix]time.Duration{}, networks: map[string]int{},
	}
}

func (m *Merger) now() time.Duration { return m.opt.Now().Sub(m.start) }

// at is a time as the Reconciler takes it.
func (m *Merger) at(t time.Duration) time.Time { return m.start.Add(t) }

// Set says that target should be banned until then; see [Reconciler.Set].
func (m *Merger) Set(target netip.Prefix, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, end := m.now(), until.Sub(m.start)
	network, ok := MergedNetwork(target)
	if !ok {
		m.setOther(target, end, now)
		return
	}
	b := m.block(network)
	key := keyOf(target)
	m.endAtTime(b, now)
	if end <= now { // it is over, which is no reason for the others to be free
		_, was := b.ends[key]
		delete(b.ends, key)
		if b.merged && was {
			m.arrange(b, now, noKey, "fewer of its members are banned")
		}
		m.opt.Enforcer.Delete(target)
		return
	}
	old, was := b.ends[key]
	b.set(key, end)
	if b.barred(now) {
		b.bar = b.latest()
	}
	switch {
	case !b.merged:
		if !m.merge(b, now, int(key)) {
			m.opt.Enforcer.Set(target, until)
		}
	case m.protected(b.network) != "":
		m.split(b, now, m.protected(b.network))
		m.opt.Enforcer.Set(target, until)
	case was && end < old:
		m.arrange(b, now, int(key), "fewer of its members are banned")
	default:
		m.join(b, key, end)
	}
}

// Delete says that target should not be banned any longer.
func (m *Merger) Delete(target netip.Prefix) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	network, ok := MergedNetwork(target)
	if !ok {
		m.forgetOther(target)
		if b := m.blocks[target]; b == nil || !b.merged { // which is not banned for its own sake
			m.opt.Enforcer.Delete(target)
		}
		return
	}
	if b := m.blocks[network]; b != nil {
		m.endAtTime(b, now)
		if end, was := b.ends[keyOf(target)]; was && end > now {
			delete(b.ends, keyOf(target))
			m.split(b, now, "the ban of "+target.String()+" was lifted")
			b.purge(now)
			b.bar = b.latest()
		}
	}
	m.opt.Enforcer.Delete(target)
}

// Spare says that a target must not be hit as part of a network, at least until
// then, whether or not it was banned: its network is split, and not merged again
// before all of its members' bans are over, those included that are set before
// the next Recheck. It reports whether a network was split.
func (m *Merger) Spare(target netip.Prefix, until time.Time) (split bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	network, inside := networkAround(target)
	if !inside {
		for _, b := range m.blocks {
			if b.network.Overlaps(target) {
				split = m.spare(b, now, target) || split
			}
		}
		return split
	}
	b := m.block(network)
	b.spared, b.fresh = max(b.spared, until.Sub(m.start)), true
	return m.spare(b, now, target)
}

func (m *Merger) spare(b *block, now time.Duration, target netip.Prefix) (split bool) {
	m.endAtTime(b, now)
	split = b.merged
	m.split(b, now, target.String()+" was let go")
	b.purge(now)
	b.bar = b.latest()
	return split
}

// Spared returns until when a target's network will not be merged for what
// Spare or Delete have said of it, as far as that is known.
func (m *Merger) Spared(target netip.Prefix) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	network, inside := networkAround(target)
	if b := m.blocks[network]; inside && b != nil && b.barred(m.now()) {
		return m.at(max(b.bar, b.spared))
	}
	return time.Time{}
}

// Inherit takes over a network that the action holds as banned as one although
// too few of its members are known, as an earlier process has ended before it
// could store them. It goes on to its end, which is none later than theirs.
func (m *Merger) Inherit(network netip.Prefix, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	b := m.block(network)
	b.rest = until.Sub(m.start)
	if m.hindered(b, now) != "" {
		b.rest = 0
		return
	}
	m.arrange(b, now, noKey, "")
	m.log.Warn("a network is banned as one and most of its members are not known: it goes on to its end",
		slog.String("network", network.String()), slog.Time("until", until))
}

// Recheck forgets what is over, splits networks that must not be banned any
// longer, and merges those that could not be. It is to be called every few
// seconds, and when what is protected has changed.
func (m *Merger) Recheck() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for target, end := range m.others {
		if end <= now {
			m.forgetOther(target)
		}
	}
	for network, b := range m.blocks {
		b.fresh = false
		m.endAtTime(b, now)
		b.purge(now)
		switch why := ""; {
		case b.merged:
			if why = m.protected(network); why != "" {
				m.split(b, now, why)
			}
		case len(b.ends) == 0 && !b.barred(now):
			delete(m.blocks, network)
		default:
			m.merge(b, now, noKey)
		}
	}
}

// Merged is a network that is banned as one.
type Merged struct {
	Network netip.Prefix
	Until   time.Time
	Members int // that are banned
}

// Network returns the network banned as one that an address is in.
func (m *Merger) Network(a netip.Addr) (x Merged, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	network, _ := networkAround(netip.PrefixFrom(a, a.BitLen()))
	b, now := m.blocks[network], m.now()
	if b == nil || !b.merged || b.until <= now {
		return Merged{}, false
	}
	return Merged{network, m.at(b.until), b.live(now)}, true
}

// Stats returns a view.
func (m *Merger) Stats() MergeStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.stats, m.now()
	for _, b := range m.blocks {
		if b.merged && b.until > now {
			s.Networks++
			s.Members += b.live(now)
		}
	}
	return s
}

// networkAround returns the network that could be merged around a target;
// false: the target is as wide or wider.
func networkAround(target netip.Prefix) (netip.Prefix, bool) {
	bits := merged4
	if target.Addr().Is6() {
		bits = merged6
	}
	return netip.PrefixFrom(target.Addr(), bits).Masked(), target.Bits() > bits
}

// keyOf is a member's place in its network.
func keyOf(target netip.Prefix) uint16 {
	if a := target.Addr(); a.Is6() {
		b := a.As16()
		return binary.BigEndian.Uint16(b[merged6/8:])
	}
	b := target.Addr().As4()
	return uint16(b[merged4/8])
}

// member is the inverse of keyOf.
func (b *block) member(key uint16) netip.Prefix {
	if a := b.network.Addr(); a.Is6() {
		x := a.As16()
		binary.BigEndian.PutUint16(x[merged6/8:], key)
		return netip.PrefixFrom(netip.AddrFrom16(x), 64)
	}
	x := b.network.Addr().As4()
	x[merged4/8] = byte(key)
	return netip.PrefixFrom(netip.AddrFrom4(x), 32)
}
