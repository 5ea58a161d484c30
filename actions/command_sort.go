//go:build linux

package actions

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// fits reports whether a target can be enforced at all.
func (c *Command) fits(target netip.Prefix) bool {
	if setFor(target) == "" || target != target.Masked() {
		return false
	}
	return target.IsSingleIP() || !c.hostsOnly()
}

// hostsOnly reports whether a program is told addresses but no lengths.
func (c *Command) hostsOnly() bool {
	for _, t := range []argv.Template{c.ban, c.unban, c.check} {
		if t.Has(argv.Address) && !t.Has(argv.Bits, argv.Prefix) {
			return true
		}
	}
	return false
}

// sortAdds returns what is to be banned, and what must not or cannot be.
func (c *Command) sortAdds(add []Entry, now time.Time) (items []*item, rejected []Rejection) {
	for _, e := range add {
		if e.Left <= 0 {
			continue
		}
		if !c.fits(e.Target) {
			rejected = append(rejected, Rejection{e.Target, c.misfit(e.Target)})
			continue
		}
		if err := c.opt.Protected.refusal(e.Target); err != nil {
			rejected = append(rejected, Rejection{e.Target, err})
			continue
		}
		items = append(items, &item{target: e.Target, until: now.Add(e.Left)})
	}
	return items, rejected
}

func (c *Command) misfit(target netip.Prefix) error {
	if setFor(target) != "" && target == target.Masked() {
		return fmt.Errorf("%w: a program is given {address} alone, which would be one address of the network (use {prefix}, or {bits} as well)", ErrUnsupported)
	}
	return errUnfit()
}

// sortRemoves returns what is to be taken out, with what has become protected
// and may be in force.
func (c *Command) sortRemoves(remove []netip.Prefix, rejected []Rejection) []*item {
	var items []*item
	for _, target := range remove {
		if c.fits(target) { // others cannot be there
			items = append(items, &item{target: target})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rejected {
		k := c.memory.known[r.Target]
		if errors.Is(r.Err, ErrProtected) && (!c.list.Given() || k != nil && (k.held || k.maybe)) {
			items = append(items, &item{target: r.Target})
		}
	}
	return items
}
