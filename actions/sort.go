//go:build linux

package actions

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
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

// changes are what is to be done, by set.
type changes struct {
	adds     map[string][]Entry
	removes  map[string][]netip.Prefix
	rejected []Rejection

	protected, unsupported uint64 // of those that are rejected
}

// sortChanges sorts what is to be added and removed by the set that a target
// belongs into; "": none.
func sortChanges(add []Entry, remove []netip.Prefix, setOf func(netip.Prefix) string, protected Protected) (c changes) {
	c.adds, c.rejected = sortAdds(add, setOf, protected)
	c.removes = sortRemoves(remove, c.rejected, setOf)
	for _, r := range c.rejected {
		c.protected += count(errors.Is(r.Err, ErrProtected))
		c.unsupported += count(errors.Is(r.Err, ErrUnsupported))
	}
	return c
}

// refusal is why a target must not be banned; nil if it may be.
func (p Protected) refusal(target netip.Prefix) error {
	if p == nil {
		return nil
	}
	if reason, yes := p(target); yes {
		return fmt.Errorf("%w: %s", ErrProtected, reason)
	}
	return nil
}

// errUnfit is of a target that can't be banned at all.
func errUnfit() error {
	return fmt.Errorf("%w (IPv4 from /%d to /32 and IPv6 from /%d to /128 can be, without bits beyond their length)", ErrUnsupported, widest4, widest6)
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
			rejected = append(rejected, Rejection{e.Target, errUnfit()})
			continue
		}
		if err := protected.refusal(e.Target); err != nil {
			rejected = append(rejected, Rejection{e.Target, err})
			continue
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

// filterDefaults fills in what the options of all packet filters have in common,
// and puts ports in order, each once.
func filterDefaults(ports *[]uint16, size *int, log **slog.Logger) {
	if len(*ports) == 0 {
		*ports = DefaultPorts()
	}
	*ports = slices.Compact(slices.Sorted(slices.Values(*ports)))
	if *size <= 0 {
		*size = DefaultSize
	}
	if *log == nil {
		*log = slog.New(slog.DiscardHandler)
	}
}
