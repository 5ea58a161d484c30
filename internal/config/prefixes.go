package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/parser"
)

// addressList is what a list of addresses is for.
type addressList struct {
	key     string // as of a Provider
	allowed bool   // who is in it is never banned; it may hold host names
}

// addresses reads a list of addresses, ranges, names of providers and of
// files, and host names where they may be. What is not an address is noted
// in c.
func (n node) addresses(list addressList, c *Config) []netip.Prefix {
	var out []netip.Prefix
	n.eachAddress(list, c, func(_ string, ranges []netip.Prefix) { out = append(out, ranges...) })
	return out
}

// eachAddress is addresses, by what each is from: the name of a provider, that
// of a file, or "" for one that stands in the list itself.
func (n node) eachAddress(list addressList, c *Config, add func(source string, ranges []netip.Prefix)) {
	once := unique{}
	for _, item := range n.items() {
		s, ok := item.text()
		if !ok {
			continue
		}
		built, isProvider := lists.Lookup(s)
		path, isFile := strings.CutPrefix(s, filePrefix)
		switch {
		case isProvider:
			if once.first(item, s) {
				p := item.provider(built, list, c)
				add(s, slices.Clone(p.Prefixes))
				c.Providers = append(c.Providers, p)
			}
		case isFile:
			if once.first(item, s) {
				entries, date := item.listFile(path, list)
				add(path, entries)
				c.Lists = append(c.Lists, List{Key: list.key, Path: path, Entries: len(entries), Date: date})
			}
		case list.allowed && isHostName(s):
			item.allowHost(s, once, c)
		case list.allowed && isBareKey(s) && suggestProvider(s) == suggestProvider(""):
			item.bad("is no address, no provider%s and no host name, which has a dot in it; loopback is never banned anyway", suggestProvider(""))
		default:
			if p, ok := item.prefix(s); ok && once.first(item, p.String()) {
				add("", []netip.Prefix{p})
				item.warnWide(p, list)
			}
		}
	}
}

// suggestProvider is suggest for providers, who are too many to be listed.
func suggestProvider(got string) string {
	if near, ok := nearest(got, lists.Names()); ok {
		return suggest(got, []string{near})
	}
	return " (tailban lists --all shows those that there are)"
}

// prefix reads an address or a range.
func (n node) prefix(s string) (netip.Prefix, bool) {
	if p, ok := parser.ParsePrefix(s); ok {
		return p, n.checkPrefix(p)
	}
	switch {
	case isHostName(s):
		n.bad("host names can be in allow only")
	case isBareKey(s):
		n.bad("unknown provider%s", suggestProvider(s))
	default:
		n.badAddress(s, `must be an address, a range like "10.0.0.0/8", or a provider`+suggestProvider(""))
	}
	return netip.Prefix{}, false
}

// badAddress says what is wrong with what is no address, if it looks like one
// with something that doesn't belong to it, or else what it should be.
func (n node) badAddress(s, otherwise string) {
	switch {
	case strings.Contains(s, "%"):
		n.bad("addresses with a zone are not supported")
	case isAddrPort(s):
		n.bad("must be an address without a port")
	default:
		n.bad("%s", otherwise)
	}
}

// checkPrefix reports whether p is a range one can mean.
func (n node) checkPrefix(p netip.Prefix) bool {
	widest := lists.Widest6
	if p.Addr().Is4() {
		widest = lists.Widest4
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

func isAddrPort(s string) bool {
	_, err := netip.ParseAddrPort(s)
	return err == nil
}
