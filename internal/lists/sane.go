package lists

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tailban/tailban/parser"
	"go4.org/netipx"
)

// Ranges returns the ranges of a file that a publisher has, as few as can be and
// sorted. It refuses all of them if one can't be meant: whoever publishes that has
// made a mistake, and what else is wrong can't be told.
func (f *File) Ranges() ([]netip.Prefix, error) {
	if len(f.Entries) == 0 {
		return nil, errors.New("it has no ranges")
	}
	if len(f.Entries) > MaxEntries {
		return nil, fmt.Errorf("it has %d ranges: %d at most", len(f.Entries), MaxEntries)
	}
	out := make([]netip.Prefix, 0, len(f.Entries))
	for _, e := range f.Entries {
		p, ok := parser.ParsePrefix(e.Text)
		if !ok {
			return nil, fmt.Errorf("line %d: %.60q is no address and no range", e.Line, e.Text)
		}
		if err := Published(p); err != nil {
			return nil, fmt.Errorf("line %d: %w", e.Line, err)
		}
		out = append(out, p)
	}
	return Tidy(out), nil
}

// Published returns why a range can't be one of a publisher's, or nil.
func Published(p netip.Prefix) error {
	widest := Widest6
	if p.Addr().Is4() {
		widest = Widest4
	}
	switch {
	case !p.IsValid() || p.Addr().Is4In6():
		return fmt.Errorf("%v is no range", p)
	case p.Bits() == 0:
		return fmt.Errorf("%v is every address there is", p)
	case p.Bits() < widest:
		return fmt.Errorf("%v is too wide: /%d at most", p, widest)
	case p != p.Masked():
		return fmt.Errorf("%v has bits set behind the mask", p)
	case special(p):
		return fmt.Errorf("%v has addresses that are nobody's on the Internet", p)
	}
	return nil
}

// special reports whether a range holds addresses that nobody has on the Internet
// (IANA special-purpose registries).
func special(p netip.Prefix) bool {
	if p.Addr().Is6() && !netip.MustParsePrefix("2000::/3").Contains(p.Addr()) {
		return true
	}
	return slices.ContainsFunc([]string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	}, func(s string) bool { return p.Overlaps(netip.MustParsePrefix(s)) })
}

// Tidy returns ranges as few as can be, sorted with IPv4 first.
func Tidy(ranges []netip.Prefix) []netip.Prefix { return setOf(ranges).Prefixes() }

func setOf(ranges []netip.Prefix) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, p := range ranges {
		b.AddPrefix(p)
	}
	return setFrom(&b)
}

func setFrom(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		panic("lists: a range is none: " + err.Error()) // all were checked
	}
	return set
}

// Change is how ranges differ from others.
type Change struct {
	Added, Removed []netip.Prefix // as few as can be
}

// Compare returns what others have that ranges have not, and the other way round,
// by address: it doesn't matter how either is cut into ranges.
func Compare(before, after []netip.Prefix) Change {
	old, now := setOf(before), setOf(after)
	without := func(a, b *netipx.IPSet) []netip.Prefix {
		var left netipx.IPSetBuilder
		left.AddSet(a)
		left.RemoveSet(b)
		return setFrom(&left).Prefixes()
	}
	return Change{Added: without(now, old), Removed: without(old, now)}
}

// None reports whether there is no difference.
func (c Change) None() bool { return len(c.Added) == 0 && len(c.Removed) == 0 }

// Large returns why a change of these ranges is larger than a publisher makes at
// a time, "" if it is not: more than half of them are new, or gone. Addresses and
// ranges are both counted, and IPv4 apart from IPv6, as each alone can be got
// round: a /9 is one range among five hundred, two hundred single addresses are
// nothing beside a /12, and all of IPv4 is little beside a /32 of IPv6.
func (c Change) Large(before []netip.Prefix) string {
	before = Tidy(before)
	for _, x := range []struct {
		part []netip.Prefix
		is   string
	}{{c.Added, "new"}, {c.Removed, "gone"}} {
		if 2*len(x.part) > len(before) {
			return fmt.Sprintf("%d ranges are %s, of %d: more than half", len(x.part), x.is, len(before))
		}
		for _, family := range []struct {
			name string
			bits int
		}{{"IPv4", 32}, {"IPv6", 128}} {
			all, part := addresses(before, family.bits), addresses(x.part, family.bits)
			switch {
			case part > 0 && all == 0:
				return "there were no " + family.name + " ranges before"
			case 2*part > all:
				return fmt.Sprintf("the %s addresses that are %s are %s those before: more than half", family.name, x.is, times(part/all))
			}
		}
	}
	return ""
}

// times writes a share.
func times(share float64) string {
	if share >= 10 {
		return fmt.Sprintf("%.0f times", share)
	}
	return fmt.Sprintf("%.0f%% of", 100*share)
}

// addresses counts those of a family. A float64 is exact enough: what is lost
// beside it is less than a millionth of the rest.
func addresses(ranges []netip.Prefix, bits int) (n float64) {
	for _, p := range ranges {
		if p.Addr().BitLen() == bits {
			share := 1.0
			for range bits - p.Bits() {
				share *= 2
			}
			n += share
		}
	}
	return n
}

// Widest returns up to n ranges, those with the most addresses first.
func Widest(ranges []netip.Prefix, n int) []netip.Prefix {
	out := slices.Clone(ranges)
	slices.SortStableFunc(out, func(a, b netip.Prefix) int {
		// A /64 of IPv6 is about what an address of IPv4 is.
		size := func(p netip.Prefix) int { return min(64, p.Addr().BitLen()) - min(64, p.Bits()) }
		return cmp.Compare(size(b), size(a))
	})
	return out[:min(n, len(out))]
}
