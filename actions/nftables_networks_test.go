//go:build linux

package actions_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// holds fails unless the action holds exactly these targets.
func holds(t *testing.T, n actions.Action, want ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(listed(t, n)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the action holds %v, want %v", got, want)
	}
}

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func overlapping(t *testing.T, err error, want ...string) {
	t.Helper()
	var rejected *actions.RejectedError
	if !errors.As(err, &rejected) {
		t.Fatalf("Apply returned %v, want rejections", err)
	}
	var got []string
	for _, r := range rejected.Rejected {
		if !errors.Is(r.Err, actions.ErrOverlaps) {
			t.Errorf("%s was rejected with %v", r.Target, r.Err)
		}
		got = append(got, fmt.Sprintf("%s: %s", r.Target, r.Err))
	}
	for i := range want {
		want[i] = strings.Replace(want[i], " < ", ": overlaps another ban: ", 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("rejected are %q, want %q", got, want)
	}
}

func TestNetworksThatOverlap(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	apply(t, n, ban("198.51.0.0/16", time.Hour), ban("203.0.113.0/25", time.Hour), ban("2001:db8::/48", time.Hour))
	err := n.Apply(t.Context(), []actions.Entry{
		ban("198.51.100.0/24", time.Hour),   // inside of one
		ban("203.0.112.0/23", time.Hour),    // around one
		ban("203.0.113.128/25", time.Hour),  // beside one
		ban("192.0.0.0/16", time.Hour),      // free
		ban("192.0.2.0/24", time.Hour),      // inside of one in the batch
		ban("198.51.0.0/16", 2*time.Hour),   // the same once more
		ban("198.51.100.1/32", time.Hour),   // an address may be inside
		ban("2001:db8:0:1::/64", time.Hour), // so may be a /64
		ban("2001:db8::/63", time.Hour),
		ban("2001:db9::/48", time.Hour),
	}, nil)
	overlapping(t, err,
		"198.51.100.0/24 < 198.51.0.0/16", "203.0.112.0/23 < 203.0.113.0/25", "192.0.2.0/24 < 192.0.0.0/16",
		"2001:db8::/63 < 2001:db8::/48")
	if !errors.Is(err, actions.ErrPermanent) {
		t.Errorf("the error does not wrap ErrPermanent: %v", err)
	}
	holds(t, n, "198.51.0.0/16", "203.0.113.0/25", "203.0.113.128/25", "192.0.0.0/16", "198.51.100.1/32",
		"2001:db8::/48", "2001:db8:0:1::/64", "2001:db9::/48")
	if left := listed(t, n)["198.51.0.0/16"].Left; left < 90*time.Minute {
		t.Errorf("what was there has %v left, want it renewed", left)
	}
	if s := n.Stats(); s.Overlapping != 4 || s.Unsupported != 0 {
		t.Errorf("counted %+v, want 4 overlapping", s)
	}

	// What is removed by the same call is not in the way.
	check(t, n.Apply(t.Context(), []actions.Entry{ban("203.0.112.0/22", time.Hour)}, []netip.Prefix{pfx("203.0.113.0/25"), pfx("203.0.113.128/25")}))
	holds(t, n, "198.51.0.0/16", "203.0.112.0/22", "192.0.0.0/16", "198.51.100.1/32",
		"2001:db8::/48", "2001:db8:0:1::/64", "2001:db9::/48")
}

// Neighbours share the address where one ends and the other begins.
func TestNetworksSideBySide(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		n := prepared(t, newNS(t), actions.NftablesOptions{})
		if old {
			actions.ActAsOldKernel(n)
		}
		apply(t, n, ban("198.51.100.0/25", time.Hour), ban("198.51.100.128/25", time.Hour), ban("198.51.101.0/24", time.Hour))
		apply(t, n, ban("198.51.100.128/25", 3*time.Hour))
		got := listed(t, n)
		if l := got["198.51.100.128/25"].Left; len(got) != 3 || l < 2*time.Hour || got["198.51.100.0/25"].Left > time.Hour || got["198.51.101.0/24"].Left > time.Hour {
			t.Errorf("as an old kernel %t: the action holds %v, want the middle one renewed", old, got)
		}
		check(t, n.Apply(t.Context(), nil, []netip.Prefix{pfx("198.51.100.128/25"), pfx("198.51.100.0/24")}))
		holds(t, n, "198.51.100.0/25", "198.51.101.0/24")
	}
}

// The first and the last networks there are have no neighbour on one side.
func TestNetworksAtTheEdges(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	all := []string{"0.0.0.0/8", "255.0.0.0/8", "::/16", "ffff::/16", "255.255.255.254/31"}
	var bans []actions.Entry
	var targets []netip.Prefix
	for _, s := range all[:4] {
		bans, targets = append(bans, ban(s, time.Hour)), append(targets, pfx(s))
	}
	apply(t, n, bans...)
	apply(t, n, bans...)
	holds(t, n, all[:4]...)
	overlapping(t, n.Apply(t.Context(), []actions.Entry{ban(all[4], time.Hour)}, nil), "255.255.255.254/31 < 255.0.0.0/8")
	check(t, n.Apply(t.Context(), []actions.Entry{ban(all[4], time.Hour)}, targets))
	holds(t, n, all[4])
}

// A network that has ended is not in the way of one around it, whether the
// kernel has cleared it away or not.
func TestNetworkAroundOneThatEnded(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	apply(t, n, ban("198.51.100.0/24", time.Millisecond), ban("198.51.102.0/24", time.Millisecond), ban("198.51.101.0/24", 2*time.Millisecond))
	until(t, "the short bans end", func() bool { return len(listed(t, n)) == 0 })
	apply(t, n, ban("198.51.0.0/16", time.Hour))
	holds(t, n, "198.51.0.0/16")
	apply(t, n, ban("198.51.0.0/16", 2*time.Hour))
	check(t, n.Apply(t.Context(), nil, []netip.Prefix{pfx("198.51.0.0/16")}))
	holds(t, n)
}

// Somebody else can put in what is no network. It cannot be handled, and must
// keep nothing else from it.
func TestIntervalThatIsNoNetwork(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("198.51.100.0/24", time.Hour))
	edit(t, ns, func(c *nftables.Conn) {
		check(t, c.SetAddElements(ourNet4, []nftables.SetElement{
			{Key: []byte{192, 0, 2, 3}}, {Key: []byte{192, 0, 2, 9}, IntervalEnd: true},
			{Key: []byte{192, 0, 2, 77}}, {Key: []byte{192, 0, 2, 78}, IntervalEnd: true}, // a /32 is elsewhere
		}))
	})
	holds(t, n, "198.51.100.0/24")
	overlapping(t, n.Apply(t.Context(), []actions.Entry{ban("192.0.2.0/24", time.Hour), ban("192.0.3.0/24", time.Hour)}, nil),
		"192.0.2.0/24 < 192.0.2.3-192.0.2.8")
	holds(t, n, "198.51.100.0/24", "192.0.3.0/24")
}

func TestTooManyNetworks(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	var batch []actions.Entry
	for i := range 1100 {
		batch = append(batch, ban(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), time.Hour))
	}
	err := n.Apply(t.Context(), append(batch, ban("192.0.2.1/32", time.Hour), ban("2001:db8::/48", time.Hour)), nil)
	if !errors.Is(err, unix.ENFILE) || errors.Is(err, actions.ErrPermanent) {
		t.Fatalf("Apply returned %v, want ENFILE that can be retried", err)
	}
	for _, part := range []string{"net4", "full", "1024", "wider networks"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	check(t, n.Prepare(t.Context()))
	apply(t, n, batch[:1024]...) // renewing what is there needs no room
	if got := len(listed(t, n)); got != 1024+2 {
		t.Errorf("the action holds %d bans, want the set filled and the two others", got)
	}
	var all []netip.Prefix
	for _, e := range batch {
		all = append(all, e.Target)
	}
	check(t, n.Apply(t.Context(), nil, all))
	holds(t, n, "192.0.2.1/32", "2001:db8::/48")
}

// The table of a version that knew no networks becomes one of ours and keeps
// its bans.
func TestTableWithoutNetworks(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour), ban("2001:db8::/64", time.Hour), ban("2001:db8:1::1/128", time.Hour))
	want := dump(t, ns, "tailban")
	edit(t, ns, func(c *nftables.Conn) {
		for _, r := range ourRules(t, c)[5:] {
			check(t, c.DelRule(r))
		}
		c.DelSet(ourNet4)
		c.DelSet(&nftables.Set{Table: ourTable, Name: "net6"})
	})
	n = prepared(t, ns, actions.NftablesOptions{})
	got := dump(t, ns, "tailban")
	for _, line := range strings.Split(want, "\n") {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
	apply(t, n, ban("198.51.100.0/24", time.Hour))
	holds(t, n, "192.0.2.1/32", "2001:db8::/64", "2001:db8:1::1/128", "198.51.100.0/24")
}

func TestNetworksDrop(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Allow: []netip.Prefix{pfx("10.1.2.2/32"), pfx("fd00:1:0:4::/64")}})
	for _, a := range []string{"10.1.1.7/32", "10.1.2.1/32", "10.1.2.2/32", "10.1.2.254/32", "10.1.3.0/32"} {
		check(t, l.client.AddAddr(netlab.LinkName(0), pfx(a)))
	}
	for _, a := range []string{"fd00:1:0:4::2/48", "fd00:1:0:5::2/48", "fd00:1:0:8::2/48"} {
		check(t, l.client.AddAddr(netlab.LinkName(0), pfx(a)))
	}
	check(t, l.server.DefaultRoute(netip.MustParseAddr("10.1.0.2")))
	l.echo(l.server, "80")
	l.echo(l.server, "22")
	for _, a := range []string{"10.1.1.7", "10.1.2.1", "10.1.2.2", "10.1.2.254", "10.1.3.0", "fd00:1:0:4::2", "fd00:1:0:5::2", "fd00:1:0:8::2"} {
		l.mustPass("tcp", a, "80")
	}

	apply(t, l.action, ban("10.1.2.0/24", time.Hour), ban("fd00:1:0:4::/62", time.Hour))
	for _, a := range []string{"10.1.2.1", "10.1.2.254", "fd00:1:0:5::2"} {
		l.mustDrop("tcp", a, "80")
		l.mustDrop("udp", a, "80")
		l.mustPass("tcp", a, "22")
	}
	for _, a := range []string{"10.1.1.7", "10.1.3.0", "fd00:1:0:8::2"} {
		l.mustPass("tcp", a, "80") // outside
	}
	for _, a := range []string{"10.1.2.2", "fd00:1:0:4::2"} {
		l.mustPass("tcp", a, "80") // allowed
	}
	before := listed(t, l.action)["10.1.2.0/24"].Packets
	l.mustDrop("udp", "10.1.2.1", "80")
	if p := listed(t, l.action)["10.1.2.0/24"].Packets; p != before+1 {
		t.Errorf("%d packets counted, want %d", p, before+1)
	}
	// Neither a change of another network nor a renewal forgets that.
	apply(t, l.action, ban("10.9.0.0/16", time.Hour))
	apply(t, l.action, ban("10.1.2.0/24", 2*time.Hour))
	if p := listed(t, l.action)["10.1.2.0/24"].Packets; p != before+1 {
		t.Errorf("%d packets counted after changes, want %d", p, before+1)
	}
	l.mustDrop("tcp", "10.1.2.1", "80")

	check(t, l.action.Apply(t.Context(), []actions.Entry{ban("10.1.1.0/24", 2*time.Second)}, []netip.Prefix{pfx("10.1.2.0/24"), pfx("fd00:1:0:4::/62")}))
	l.mustPass("tcp", "10.1.2.1", "80")
	l.mustPass("tcp", "fd00:1:0:5::2", "80")
	check(t, l.action.Close())
	l.mustDrop("tcp", "10.1.1.7", "80")
	l.mustPass("tcp", "10.1.1.7", "80") // it ends in the kernel
}
