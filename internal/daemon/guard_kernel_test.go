package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/netlab"
)

// denying decides against everybody at their first request, trusted proxies
// included.
const denying = `
[jails.web]
limit = 1000
window = "60s"
ban = "1h"
[deny]
agents = ["x"]
ban = "1h"
[actions.firewall]
type = "nftables"
`

// On a host with addresses and gateways of its own, decisions against each kind
// of protected address are refused for what it is, and those against their
// neighbours in a /64 are about the client alone; so with bans by hand.
func TestGuardInTheKernel(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	newVisitors(l) // makes the host 198.51.100.1
	check(t, l.ns.AddAddr(netlab.LinkName(0), pfx("2001:db8:9::1/64")))
	check(t, l.ns.DefaultRoute(netip.MustParseAddr("198.51.100.254")))
	check(t, l.ns.DefaultRoute(netip.MustParseAddr("2001:db8:9::ff")))
	c := l.daemon(`trusted_proxies = ["10.0.0.0/24"]
allow = ["203.0.113.7", "203.0.113.64/28", "2001:db8:a::1"]
` + l.config(denying))
	refused := []struct{ client, reason string }{
		{"198.51.100.1", "own address"},
		{"2001:db8:9::1", "own address"},
		{"198.51.100.254", "gateway"},
		{"2001:db8:9::ff", "gateway"},
		{"127.0.0.9", "loopback"},
		{"169.254.1.1", "link-local"},
		{"fe80::1", "link-local"},
		{"10.0.0.5", "trusted proxy"},
	}
	for _, x := range refused {
		l.requests(x.client, 2)
	}
	spared := []string{"203.0.113.7", "203.0.113.70", "2001:db8:a::1"}
	for _, client := range spared {
		l.requests(client, 2)
	}
	banned := []string{"2001:db8:9::77/128", "2001:db8:a::2/128", "2001:db8:b::/64", "192.0.2.99/32"}
	for _, client := range []string{"2001:db8:9::77", "2001:db8:a::2", "2001:db8:b::1", "192.0.2.99"} {
		l.requests(client, 2)
	}
	l.waitHeld("192.0.2.99") // the last of them
	slices.Sort(banned)
	wait(t, "the bans", func() bool { return slices.Equal(l.targets(), banned) })
	for _, x := range refused {
		if n := len(c.journal.said("not banned: protected", "client", x.client, "reason", x.reason)); n != 1 {
			t.Errorf("%s was refused %d times as %q", x.client, n, x.reason)
		}
	}
	for _, client := range spared {
		c.journal.want(t, 0, "not banned: protected", "client", client)
		c.journal.want(t, 0, "banned", "client", client)
	}

	for _, x := range []struct{ target, why string }{
		{"198.51.100.1/32", "own address"}, {"198.51.100.0/24", "own address"}, {"198.51.100.254/32", "gateway"},
		{"2001:db8:9::/64", "2001:db8:9::"}, {"127.0.0.0/16", "loopback"}, {"fe80::1/128", "link-local"}, {"169.254.0.0/16", "link-local"},
		{"10.0.0.0/16", "trusted proxy"}, {"203.0.113.0/24", "allowed"}, {"203.0.113.7/32", "allowed"}, {"203.0.113.64/30", "allowed"}, {"2001:db8:a::/48", "allowed"},
	} {
		_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx(x.target), For: 3600, Force: true})
		if err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("a ban of %s by hand: %v, want it refused: %s", x.target, err, x.why)
		}
	}
	if got := l.targets(); !slices.Equal(got, banned) {
		t.Errorf("the kernel bans %v, want %v", got, banned)
	}
	c.stop()
}

// targets lists what the kernel bans, in order.
func (l *kernelLab) targets() (out []string) {
	l.Helper()
	entries, err := l.firewall.List(l.Context())
	check(l, err)
	for _, e := range entries {
		out = append(out, e.Target.String())
	}
	slices.Sort(out)
	return out
}
