//go:build linux

package actions

import (
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// ActAsOldKernel makes the action change timeouts as kernels before 6.12 need
// it.
func ActAsOldKernel(n *Nftables) { n.renew, n.probed = false, true }

// Renews reports whether the kernel has been found to need no such help.
func Renews(n *Nftables) bool { return n.renew }

// HearLittle makes the socket that listens small.
func HearLittle(n *Nftables) { n.watchBuffer = 4 << 10 }

// Connected reports whether the netlink socket is open.
func Connected(n *Nftables) bool { return n.conn != nil }

// ActAsUnprotecting makes the action ask for a flag that no kernel has, as
// kernels before 6.9 take those of protection. It comes before Prepare.
func ActAsUnprotecting(n *Nftables) { n.flags |= 1 << 7 }

// ActAsWithoutIPv6 makes the action take the kernel for one without IPv6.
func ActAsWithoutIPv6(t *Iptables) { t.hasIPv6 = func() bool { return false } }

// LosePatience makes the action end programs that take so long.
func LosePatience(t *Iptables, limit time.Duration) { t.patience, t.tools = limit, nil }

// CommandMemory is what a Command that has programs that end bans remembers.
type CommandMemory struct{ m memory }

// NewCommandMemory returns an empty one.
func NewCommandMemory() *CommandMemory { return &CommandMemory{newMemory()} }

// Banned notes a ban.
func (m *CommandMemory) Banned(target netip.Prefix, until time.Time) { m.m.banned(target, until) }

// Learn takes a listing.
func (m *CommandMemory) Learn(listed map[netip.Prefix]time.Duration, now time.Time) []Entry {
	defer m.m.endListing()
	return m.m.learn(listed, m.m.beginListing(), now, true)
}

// ParseCommandListing reads a listing: objects if there is a key, or lines.
func ParseCommandListing(text []byte, key string) map[netip.Prefix]time.Duration {
	c := &Command{opt: CommandOptions{ListTarget: key, ListSeconds: "t"}}
	found := map[netip.Prefix]time.Duration{}
	if c.parseListing(text, found) != nil {
		return nil
	}
	return found
}

// ExpandCommand fills in what a ban by argv is given for a target.
func ExpandCommand(args []string, target netip.Prefix) ([]string, error) {
	t, err := parseTemplate(argv.Unban, args, false, true)
	if err != nil {
		return nil, err
	}
	return t.Expand(valuesOf(target).fill), nil
}
