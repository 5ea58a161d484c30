package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tailban/tailban/internal/lists"
)

// Ranges wider than these are slips of the pen, or else a way to switch the
// daemon off without saying so.
const (
	widest4 = 8
	widest6 = 16
)

// readPrefixes reads a list of addresses, ranges and provider names, and
// notes the providers in c.
func readPrefixes(top *section, key string, c *Config) []netip.Prefix {
	n, ok := top.get(key)
	if !ok {
		return nil
	}
	var out []netip.Prefix
	once := unique{}
	for _, item := range n.items() {
		s, ok := item.text()
		if !ok {
			continue
		}
		if ranges, ok := lists.Lookup(s); ok {
			if once.first(item, s) {
				out = append(out, ranges...)
				c.Providers = append(c.Providers, Provider{
					Key: key, Name: s, Prefixes: slices.Clone(ranges), Snapshot: lists.Snapshot,
				})
			}
			continue
		}
		if p, ok := item.prefix(s); ok && once.first(item, p.String()) {
			out = append(out, p)
			if key == "allow" {
				item.warnWide(p)
			}
		}
	}
	return out
}

// prefix reads an address or a range.
func (n node) prefix(s string) (netip.Prefix, bool) {
	if p, ok := parsePrefix(s); ok {
		return p, n.checkPrefix(p)
	}
	switch {
	case strings.Contains(s, "%"):
		n.bad("addresses with a zone are not supported")
	case isAddrPort(s):
		n.bad("must be an address without a port")
	case isHostName(s):
		n.bad("host names are not supported yet")
	case isBareKey(s):
		n.bad("unknown provider%s", suggest(s, lists.Names()))
	default:
		n.bad(`must be an address, a range like "10.0.0.0/8", or a provider (known: %s)`,
			strings.Join(lists.Names(), ", "))
	}
	return netip.Prefix{}, false
}

// checkPrefix reports whether p is a range one can mean.
func (n node) checkPrefix(p netip.Prefix) bool {
	widest := widest6
	if p.Addr().Is4() {
		widest = widest4
	}
	switch {
	case p.Bits() == 0:
		n.bad("is every address there is")
	case p.Bits() < widest:
		n.bad("is too wide: /%d at most", widest)
	case p != p.Masked():
		n.bad("has bits set behind the mask, is %q meant?", p.Masked())
	default:
		return true
	}
	return false
}

// parsePrefix reads an address or a range, unmapped. The bits behind the mask
// are kept.
func parsePrefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	if mapped := 128 - 32; p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, true
}

func isAddrPort(s string) bool {
	_, err := netip.ParseAddrPort(s)
	return err == nil
}

// isHostName reports whether s can only be meant as a host name: labels with
// dots between them, the last of which doesn't begin with a digit.
func isHostName(s string) bool {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if !isBareKey(l) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && (last[0] < '0' || last[0] > '9')
}
