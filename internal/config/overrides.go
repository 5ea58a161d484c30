package config

import (
	"net/netip"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

const (
	// maxOverrides is how many networks of one jail may have a limit of their
	// own; each different limit takes memory and time.
	maxOverrides = 100

	// narrowest6 is the length of what an IPv6 client is counted by.
	narrowest6 = 64
)

// overrides reads the networks of a jail that have another limit.
func (n node) overrides() []detector.Override {
	items := n.items()
	switch {
	case len(items) == 0:
		n.bad("must not be empty")
	case len(items) > maxOverrides:
		n.bad("has %d networks: %d at most", len(items), maxOverrides)
	}
	var out []detector.Override
	once := unique{}
	for _, item := range items {
		if _, ok := item.v.(map[string]any); !ok {
			item.bad(`must be a table like { from = "203.0.113.0/24", limit = 500 }`)
			continue
		}
		if o, ok := item.override(once); ok {
			out = append(out, o)
		}
	}
	return out
}

// override reads one of them. Its network must not be among those before.
func (n node) override(once unique) (detector.Override, bool) {
	s, ok := n.section()
	if !ok {
		return detector.Override{}, false
	}
	defer s.finish()
	var o detector.Override
	from, hasFrom := s.get("from")
	if hasFrom {
		o.From, ok = from.network(once)
	} else {
		s.missing("from", `required: an address, or a range like "203.0.113.0/24"`)
	}
	if l := option(s, "limit", node.limit); l.is {
		o.Limit = l.v
	} else {
		s.missing("limit", "required: the limit of clients in that network")
	}
	return o, ok && hasFrom
}

// network reads the network of an override.
func (n node) network(once unique) (netip.Prefix, bool) {
	s, ok := n.text()
	if !ok {
		return netip.Prefix{}, false
	}
	p, ok := parser.ParsePrefix(s)
	switch {
	case !ok:
		n.badAddress(s, `must be one address, or one range like "203.0.113.0/24"`)
		return p, false
	case !n.checkPrefix(p):
		return p, false
	case p.Addr().Is6() && p.Bits() > narrowest6:
		n.bad("is narrower than /%d, by which IPv6 clients are counted", narrowest6)
		return p, false
	}
	return p, once.first(n, p.String())
}
