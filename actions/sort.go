//go:build linux

package actions

import (
	"errors"
	"fmt"
	"net/netip"
)

// The widest networks that can be banned, in bits.
const (
	widest4 = 8
	widest6 = 16
)

// setFor returns the set that a target belongs into, "" for none.
func setFor(target netip.Prefix) string {
	a := target.Addr()
	switch {
	case !target.IsValid() || a.Is4In6():
		return ""
	case a.Is4() && target.Bits() == 32:
		return setBan4
	case a.Is6() && target.Bits() == 64:
		return setBan6
	case a.Is6() && target.Bits() == 128:
		return setHost6
	case a.Is4() && target.Bits() >= widest4:
		return setNet4
	case a.Is6() && target.Bits() >= widest6:
		return setNet6
	}
	return ""
}

// sortAdds sorts entries by set. What must not or cannot be banned is
// rejected, and keeps nothing else from being added.
func sortAdds(add []Entry, setOf func(netip.Prefix) string, protected Protected) (map[string][]Entry, []Rejection) {
	adds := map[string][]Entry{}
	var rejected []Rejection
	for _, e := range add {
		if e.Left <= 0 {
			continue
		}
		set := setOf(e.Target)
		if set == "" || e.Target != e.Target.Masked() {
			rejected = append(rejected, Rejection{e.Target, fmt.Errorf("%w (IPv4 from /%d to /32 and IPv6 from /%d to /128 can be, without bits beyond their length)", ErrUnsupported, widest4, widest6)})
			continue
		}
		if protected != nil {
			if reason, yes := protected(e.Target); yes {
				rejected = append(rejected, Rejection{e.Target, fmt.Errorf("%w: %s", ErrProtected, reason)})
				continue
			}
		}
		adds[set] = append(adds[set], e)
	}
	return adds, rejected
}

// sortRemoves sorts removals by set, with those whose addition was rejected:
// a target that has become protected must not stay banned.
func sortRemoves(remove []netip.Prefix, rejected []Rejection, setOf func(netip.Prefix) string) map[string][]netip.Prefix {
	removes := map[string][]netip.Prefix{}
	put := func(target netip.Prefix) {
		if set := setOf(target); set != "" { // others cannot be there
			removes[set] = append(removes[set], target)
		}
	}
	for _, target := range remove {
		put(target)
	}
	for _, r := range rejected {
		if errors.Is(r.Err, ErrProtected) {
			put(r.Target)
		}
	}
	return removes
}
