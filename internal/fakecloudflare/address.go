package fakecloudflare

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseItem reads an item's address as a list takes it. The error is the text that
// follows "invalid value for ip at position N: ".
//
// That a network with host bits is refused is this double's choice: nothing says what
// the real API does, and a client that sends none is right with either.
func parseItem(text string, shortIPv6 bool) (netip.Prefix, error) {
	bad := fmt.Errorf("filters.api.not a valid IP address or CIDR: %q", text)
	var p netip.Prefix
	if strings.Contains(text, "/") {
		var err error
		if p, err = netip.ParsePrefix(text); err != nil {
			return netip.Prefix{}, bad
		}
	} else {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, bad
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	switch a := p.Addr(); {
	case a.Is4In6():
		return netip.Prefix{}, bad
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("filters.api.CIDR %q has bits set beyond its prefix length", text)
	case a.Is4() && p.Bits() < 8:
		return netip.Prefix{}, fmt.Errorf("filters.api.IPv4 CIDRs should have a prefix length from /8 to /32 inclusive")
	case a.Is6() && shortIPv6 && (p.Bits() < 12 || p.Bits() > 64):
		return netip.Prefix{}, fmt.Errorf("filters.api.IPv6 CIDRs should have a prefix length from /12 to /64 inclusive")
	case a.Is6() && p.Bits() < 12:
		return netip.Prefix{}, fmt.Errorf("filters.api.IPv6 CIDRs should have a prefix length from /12 to /128 inclusive")
	}
	return p, nil
}

// show is how a list writes an address: /32 and /128 are left off, IPv6 is in small
// letters.
func show(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// comparePrefix is the order of a list: by address, then by length.
func comparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
