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
	static  []Entry
	mu      sync.Mutex // of the next two
	host    []Entry    // what is known of the host
	names   []Entry    // addresses of names that are allowed
	current atomic.Pointer[snapshot]
	version atomic.Uint64
}

type snapshot struct {
	table   *bart.Table[string]
	entries []Entry
	shared  map[netip.Prefix]struct{} // IPv6 /64s that hold something narrower
}

// The widest targets there may be, in bits.
const (
	widest4 = 24
	widest6 = 64
)

// New makes a Set of what the configuration names, and of the addresses that
// are never anybody's client.
func New(configured []Entry) *Set {
	s := &Set{static: append(reserved(), configured...)}
	s.rebuild()
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

// Update sets what is known of the host besides the configuration.
func (s *Set) Update(host []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = host
	s.rebuild()
}

// UpdateNames sets the addresses of host names that are allowed.
func (s *Set) UpdateNames(names []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
	s.rebuild()
}

// rebuild replaces the set.
func (s *Set) rebuild() {
	snap := &snapshot{table: new(bart.Table[string]), shared: map[netip.Prefix]struct{}{}}
	// Of two reasons for one prefix the configuration's is said.
	const byName = 1
	for i, list := range [][]Entry{s.host, s.names, s.static} {
		for _, e := range list {
			snap.table.Insert(e.Prefix, e.Reason)
			snap.entries = append(snap.entries, e)
			// Whoever answers for a name must not be able to have a whole /64
			// counted address by address.
			if e.Prefix.Addr().Is6() && e.Prefix.Bits() > widest6 && i != byName {
				snap.shared[netip.PrefixFrom(e.Prefix.Addr(), widest6).Masked()] = struct{}{}
			}
		}
	}
	old := s.current.Swap(snap)
	if old == nil || !slices.Equal(old.entries, snap.entries) {
		s.version.Add(1)
	}
}

// Version is another number whenever the set has changed.
func (s *Set) Version() uint64 { return s.version.Load() }

// Entries lists the set as it is now.
func (s *Set) Entries() []Entry { return s.current.Load().entries }

// Check is asked before every decision. It returns the target to ban, or the
// reason why there is none: the client is protected, or the target is wider
// than any may be. An IPv6 network that holds somebody protected beside the
// client is narrowed to the client's address.
func (s *Set) Check(target netip.Prefix, client netip.Addr) (allowed netip.Prefix, reason string) {
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
// set, or be too wide.
func (s *Set) Protected(target netip.Prefix) (reason string, yes bool) {
	return s.current.Load().protected(target)
}

func (snap *snapshot) protected(target netip.Prefix) (string, bool) {
	widest := widest4
	if target.Addr().Is6() {
		widest = widest6
	}
	if !target.IsValid() || target.Bits() < widest {
		return fmt.Sprintf("wider than /%d", widest), true
	}
	if r, ok := snap.table.LookupPrefix(target); ok {
		return r, true
	}
	for _, r := range snap.table.Subnets(target) {
		return r, true
	}
	return "", false
}

// FromConfig makes entries of what a configuration names.
func FromConfig(trusted, allow []netip.Prefix) []Entry {
	var out []Entry
	for _, p := range trusted {
		out = append(out, Entry{p, "trusted proxy"})
	}
	for _, p := range allow {
		out = append(out, Entry{p, "allowed"})
	}
	return out
}
