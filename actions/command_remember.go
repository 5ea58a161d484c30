//go:build linux

package actions

import "net/netip"

// Remember takes targets for banned that an earlier process has banned, where no
// program can list them. When they end is not known.
func (c *Command) Remember(targets []netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range targets {
		c.memory.get(t).held = true
	}
}
