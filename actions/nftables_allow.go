//go:build linux

package actions

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
)

// allowElements encodes prefixes as the interval sets for IPv4 and IPv6, by
// the sets' names. The prefixes may overlap.
func allowElements(allow []netip.Prefix) (map[string][]nftables.SetElement, error) {
	v4, v6, err := families(allow)
	if err != nil {
		return nil, err
	}
	return map[string][]nftables.SetElement{
		setAllow4: intervals(v4),
		setAllow6: intervals(v6),
	}, nil
}

// families sorts what is allowed by family, masked.
func families(allow []netip.Prefix) (v4, v6 []netip.Prefix, err error) {
	for _, p := range allow {
		switch {
		case !p.IsValid() || p.Addr().Is4In6() || p.Addr().Zone() != "":
			return nil, nil, Permanent(fmt.Errorf("allow %s: not a network of IPv4 or IPv6 addresses", p))
		case p.Addr().Is4():
			v4 = append(v4, p.Masked())
		default:
			v6 = append(v6, p.Masked())
		}
	}
	return v4, v6, nil
}

// intervals encodes masked prefixes of one family as the kernel wants them.
// They must not overlap, so what another prefix holds is left out.
func intervals(prefixes []netip.Prefix) []nftables.SetElement {
	var elements []nftables.SetElement
	for _, p := range disjoint(prefixes) {
		elements = append(elements, span{first: p.Addr(), last: last(p)}.elements()...)
	}
	return elements
}

// disjoint sorts masked prefixes of one family and drops those inside of
// others.
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	sorted := slices.SortedFunc(slices.Values(prefixes), func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits() // the wider first
	})
	var out []netip.Prefix
	for _, p := range sorted {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
