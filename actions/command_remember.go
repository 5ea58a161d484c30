//go:build linux

package actions

import (
	"net/netip"
	"time"
)

// Remember takes targets for banned that an earlier process has banned, where no
// program can list them. When they end is not known.
func (c *Command) Remember(targets []netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range targets {
		c.memory.get(t).held = true
	}
}

// TakeOver has c answer for what other programs of the same place, which are no
// longer run, could not take out: they would never hear that it is out.
func (c *Command) TakeOver(other *Command) {
	other.mu.Lock()
	stuck := other.memory.overdue(time.Now(), other.opt.Expires)
	other.mu.Unlock()
	c.mu.Lock()
	for t, err := range stuck {
		k := c.memory.get(t)
		k.held, k.stuck = true, err
	}
	c.mu.Unlock()
	other.mu.Lock() // last, so that at no time neither tells of them
	defer other.mu.Unlock()
	clear(other.memory.known)
}
