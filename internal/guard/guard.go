// Package guard knows the never-ban set: whom no ban may ever hit, whatever
// the logs say. It guards every decision, and again every action.
package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// Entry is a part of the never-ban set.
type Entry struct {
	Prefix netip.Prefix
	Reason string // what it is, as in "own address"
}

// Set is the never-ban set. It is safe for concurrent use; a change replaces
// it as a whole.
type Set struct {
	mu       sync.Mutex // of the lists
	static   []Entry    // what is configured, and what is never anybody's client
	host     []Entry    // what is known of the host
	names    []Entry    // addresses of names that are allowed
	sessions []Entry    // from where somebody is logged in
	byHand   []Entry    // allowed by hand, for some time
	current  atomic.Pointer[snapshot]
	version  atomic.Uint64
	changed  chan struct{} // holds a token when the version has changed
}

type snapshot struct {
	table   *bart.Table[string]
	entries []Entry
	shared  map[netip.Prefix]struct{} // IPv6 /64s that hold something narrower
}

// New makes a Set of what the configuration names, and of the addresses that
// are never anybody's client.
func New(configured []Entry) *Set {
	s := &Set{changed: make(chan struct{}, 1)}
	s.UpdateConfigured(configured)
	return s
}

// reserved lists the special-purpose ranges (IANA registries) of which a ban
// would hit the host itself, its links, or nobody.
func reserved() []Entry {
	var out []Entry
	for _, e := range []struct{ prefix, reason string }{
		{"127.0.0.0/8", "loopback"},
		{"::1/128", "loopback"},
		{"169.254.0.0/16", "link-local"},
		{"fe80::/10", "link-local"},
		{"0.0.0.0/8", "no client's address"},
		{"::/128", "no client's address"},
		{"224.0.0.0/4", "multicast"},
		{"ff00::/8", "multicast"},
		{"240.0.0.0/4", "no client's address"},
	} {
		out = append(out, Entry{netip.MustParsePrefix(e.prefix), e.reason})
	}
	return out
}

// UpdateConfigured sets what the configuration names, after a reload.
func (s *Set) UpdateConfigured(configured []Entry) {
	s.update(&s.static, append(reserved(), configured...))
}

// Update sets what is known of the host besides the configuration.
func (s *Set) Update(host []Entry) { s.update(&s.host, host) }

// UpdateNames sets the addresses of host names that are allowed.
func (s *Set) UpdateNames(names []Entry) { s.update(&s.names, names) }

// UpdateSessions sets the addresses from which somebody is logged in.
func (s *Set) UpdateSessions(sessions []Entry) { s.update(&s.sessions, sessions) }

// UpdateAllowances sets what is allowed by hand at the moment. The reason of
// each is the caller's, as in "allowed by hand until 15:04".
func (s *Set) UpdateAllowances(allowances []Entry) { s.update(&s.byHand, allowances) }

// update replaces one of the lists, keeping nothing of the caller's.
func (s *Set) update(list *[]Entry, entries []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = slices.Clone(entries)
	s.rebuild()
}

// network6 is the length of the IPv6 networks that count as one client.
const network6 = 64

// rebuild replaces the set.
func (s *Set) rebuild() {
	snap := &snapshot{table: new(bart.Table[string]), shared: map[netip.Prefix]struct{}{}}
	// Of two reasons for one prefix the configuration's is said.
	for _, list := range []struct {
		entries []Entry
		alone   bool // others of the /64 are counted by themselves
	}{
		// Whoever may log in, or answers for a name, must not be able to have
		// a whole /64 counted address by address.
		{s.sessions, false}, {s.host, true}, {s.names, false}, {s.byHand, true}, {s.static, true},
	} {
		for _, e := range list.entries {
			snap.table.Insert(e.Prefix, e.Reason)
			snap.entries = append(snap.entries, e)
			if list.alone && e.Prefix.Addr().Is6() && e.Prefix.Bits() > network6 {
				snap.shared[netip.PrefixFrom(e.Prefix.Addr(), network6).Masked()] = struct{}{}
			}
		}
	}
	old := s.current.Swap(snap)
	if old == nil || !slices.Equal(old.entries, snap.entries) {
		s.version.Add(1)
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// Version is another number whenever the set has changed.
func (s *Set) Version() uint64 { return s.version.Load() }

// Changed has a token after each change, or one for several. It is for one
// reader.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Entries lists the set as it is now.
func (s *Set) Entries() []Entry { return s.current.Load().entries }

// Check is asked before every decision, of whichever jail. It returns the target
// to ban, or the reason why there is none: the client is protected. A network that holds
// somebody protected beside the client is narrowed to the client's address.
// How wide a target may be is the caller's concern.
func (s *Set) Check(_ string, target netip.Prefix, client netip.Addr) (allowed netip.Prefix, reason string) {
	snap := s.current.Load()
	if r, ok := snap.table.Lookup(client); ok {
		return netip.Prefix{}, r
	}
	reason, yes := snap.protected(target)
	if !yes {
		return target, ""
	}
	host := netip.PrefixFrom(client, client.BitLen())
	if !target.Contains(client) || target == host {
		return netip.Prefix{}, reason
	}
	return host, ""
}

// Shared reports whether an IPv6 /64 holds somebody protected who has less
// than all of it: its other addresses are then counted and banned one by one.
func (s *Set) Shared(network netip.Prefix) bool {
	_, yes := s.current.Load().shared[network]
	return yes
}

// Protected reports whether a ban of the target would hit somebody in the
// set: the target lies in an entry, or holds one, which the reason then names.
func (s *Set) Protected(target netip.Prefix) (reason string, yes bool) {
	return s.current.Load().protected(target)
}

func (snap *snapshot) protected(target netip.Prefix) (string, bool) {
	if !target.IsValid() {
		return "no address", true
	}
	if r, ok := snap.table.LookupPrefix(target); ok {
		return r, true
	}
	for p, r := range snap.table.Subnets(target) {
		if p.IsSingleIP() {
			return fmt.Sprintf("holds %s: %s", p.Addr(), r), true
		}
		return fmt.Sprintf("holds %s: %s", p, r), true
	}
	return "", false
}

// FromConfig makes entries of what a configuration names. waiting are ranges that
// may become trusted proxies.
func FromConfig(trusted, waiting, allow []netip.Prefix) []Entry {
	var out []Entry
	for _, p := range trusted {
		out = append(out, Entry{p, "trusted proxy"})
	}
	for _, p := range waiting {
		out = append(out, Entry{p, "range of a trusted proxy that waits for tailban lists accept"})
	}
	for _, p := range allow {
		out = append(out, Entry{p, "allowed"})
	}
	return out
}
