//go:build linux

package actions_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/tailban/tailban/actions"
)

func isHeld(t *testing.T, n *actions.Nftables, target string) (actions.Entry, bool) {
	t.Helper()
	e, yes, err := n.Held(t.Context(), pfx(target))
	check(t, err)
	if yes && e.Target != pfx(target) {
		t.Errorf("asked for %s, told of %s", target, e.Target)
	}
	return e, yes
}

func TestHeld(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	bans := []string{
		"192.0.2.1/32", "2001:db8:0:1::/64", "2001:db8::1/128",
		"198.51.100.0/25", "198.51.100.128/25", "255.0.0.0/8", "2001:db8:4::/62", "2001:db8:4:4::/62",
	}
	for i, b := range bans {
		apply(t, n, ban(b, time.Duration(i+1)*time.Hour))
	}
	for i, b := range bans {
		e, yes := isHeld(t, n, b)
		if want := time.Duration(i+1) * time.Hour; !yes || e.Left > want || e.Left < want-time.Minute {
			t.Errorf("%s: %+v, %t; want it with %v left", b, e, yes, want)
		}
	}
	for _, other := range []string{
		"192.0.2.2/32", "192.0.2.0/31", "198.51.100.0/24", "198.51.100.0/26", "198.51.100.64/26", "198.51.100.1/32", "255.0.0.0/9", "254.0.0.0/8",
		"2001:db8:4::/61", "2001:db8:4::/63", "2001:db8:4::/64", "2001:db8:0:1::1/128", "198.51.101.0/24", "198.51.0.0/16",
		"0.0.0.0/0", "192.0.2.1/24",
	} {
		if e, yes := isHeld(t, n, other); yes {
			t.Errorf("%s: %+v is held", other, e)
		}
	}
	if _, _, err := n.Held(t.Context(), netip.Prefix{}); err != nil {
		t.Errorf("the zero prefix: %v", err)
	}
	apply(t, n, ban("192.0.2.9/32", time.Millisecond), ban("203.0.113.0/24", time.Millisecond))
	until(t, "the short bans end", func() bool {
		_, host := isHeld(t, n, "192.0.2.9/32")
		_, network := isHeld(t, n, "203.0.113.0/24")
		return !host && !network
	})
}

func TestHeldForGood(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	edit(t, ns, func(c *nftables.Conn) {
		check(t, c.SetAddElements(ourBan4, []nftables.SetElement{{Key: []byte{192, 0, 2, 3}}}))
	})
	if e, yes := isHeld(t, n, "192.0.2.3/32"); !yes || e.Left != 0 {
		t.Errorf("an element without timeout is held as %+v, %t", e, yes)
	}
}

func TestHeldWithoutATable(t *testing.T) {
	t.Parallel()
	n := newNftables(t, newNS(t), actions.NftablesOptions{})
	for _, target := range []string{"192.0.2.1/32", "192.0.2.0/24"} {
		_, yes, err := n.Held(t.Context(), pfx(target))
		if err == nil || yes || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "table inet tailban is gone") {
			t.Errorf("Held = %t, %v; want an error that says the table is gone", yes, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := n.Held(ctx, pfx("192.0.2.1/32")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestHeldCountsPackets(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "80")
	apply(t, l.action, ban("10.1.0.2/32", time.Hour), ban("fd00:1:0:2::/63", time.Hour))
	l.mustDrop("udp", "10.1.0.2", "80")
	l.mustDrop("udp", "fd00:1:0:2::2", "80")
	for _, target := range []string{"10.1.0.2/32", "fd00:1:0:2::/63"} {
		if e, _ := isHeld(t, l.action, target); e.Packets != 1 {
			t.Errorf("%s: %d packets counted for the one that was dropped", target, e.Packets)
		}
	}
}

// Somebody may look while the reconciler works, by this value or by another
// one of the same options; neither is in the other's way.
func TestLookingDisturbsNothing(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour), ban("198.51.100.0/24", time.Hour))
	want := dump(t, ns, "tailban")
	other := newNftables(t, ns, actions.NftablesOptions{})

	ctx, stop := context.WithCancel(t.Context())
	var lookers sync.WaitGroup
	look := func(f func() error) {
		looked := make(chan struct{})
		lookers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := f(); err != nil {
					t.Error(err)
				}
				if i == 0 {
					close(looked)
				}
			}
		})
		<-looked
	}
	look(func() error { // the reconciler
		return errors.Join(
			n.Prepare(t.Context()),
			n.Apply(t.Context(), []actions.Entry{ban("192.0.2.7/32", time.Hour), ban("203.0.113.0/24", time.Hour)}, nil),
			n.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.7/32"), pfx("203.0.113.0/24")}))
	})
	for range 50 {
		for _, target := range []string{"192.0.2.1/32", "198.51.100.0/24"} {
			if _, yes := isHeld(t, n, target); !yes {
				t.Fatalf("%s is not held", target)
			}
		}
		got := listed(t, other)
		if _, ok := got["192.0.2.1/32"]; !ok {
			t.Fatalf("the other lists %v", got)
		}
	}
	stop()
	lookers.Wait()
	if s := n.Stats(); s.Repairs != 0 || !actions.Connected(n) {
		t.Errorf("counted %+v, connected %t", s, actions.Connected(n))
	}
	if got := dump(t, ns, "tailban"); got != want {
		t.Errorf("the table became\n%s\nwas\n%s", got, want)
	}
}

// Looking must not wait for a method that hangs or takes long.
func TestHeldWaitsForNobody(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	asked := make(chan struct{})
	answer := make(chan struct{})
	n := prepared(t, ns, actions.NftablesOptions{Protected: func(netip.Prefix) (string, bool) {
		close(asked)
		<-answer
		return "", false
	}})
	done := make(chan error)
	go func() { done <- n.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil) }()
	<-asked
	if _, yes := isHeld(t, n, "192.0.2.1/32"); yes {
		t.Error("held before it is")
	}
	close(answer)
	check(t, <-done)
	if _, yes := isHeld(t, n, "192.0.2.1/32"); !yes {
		t.Error("not held although it is")
	}
}

// After Close nothing is left open, also if somebody looks once more.
func TestHeldAfterClose(t *testing.T) { // not beside others, as it counts open files
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	check(t, n.Close())
	before := countFiles(t)
	if _, yes := isHeld(t, n, "192.0.2.1/32"); !yes {
		t.Error("not held after Close")
	}
	if after := countFiles(t); after != before {
		t.Errorf("%d files are open, were %d", after, before)
	}
}

func TestHeldWithManyOpenFiles(t *testing.T) {
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	fillDescriptors(t)
	for range 3 {
		if _, yes := isHeld(t, n, "192.0.2.1/32"); !yes {
			t.Error("not held")
		}
	}
}
