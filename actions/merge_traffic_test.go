//go:build linux

package actions_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// mergeLab is a lab whose action has a reconciler and a Merger before it.
type mergeLab struct {
	*lab
	reconciler *actions.Reconciler
	merger     *actions.Merger
}

func newMergeLab(t *testing.T, least int, opt actions.NftablesOptions) *mergeLab {
	t.Helper()
	l := &mergeLab{lab: newLab(t, opt)}
	for n := range 40 {
		check(t, l.client.AddAddr(netlab.LinkName(0), pfx(fmt.Sprintf("10.1.2.%d/32", n+1))))
	}
	for n := range 4 {
		check(t, l.client.AddAddr(netlab.LinkName(0), pfx(fmt.Sprintf("fd00:1:0:%x::2/48", 16+n))))
	}
	check(t, l.server.DefaultRoute(netip.MustParseAddr("10.1.0.2")))
	l.reconciler = actions.NewReconciler(actions.Options{Name: "test", Action: l.action, Interval: time.Second})
	l.merger = actions.NewMerger(actions.MergeOptions{Name: "test", Least: least, Enforcer: l.reconciler, Bounded: l.action})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- l.reconciler.Run(ctx) }()
	go func() { done <- l.reconciler.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			check(t, <-done)
		}
	})
	return l
}

func (l *mergeLab) ban(targets ...string) {
	for _, t := range targets {
		l.merger.Set(pfx(t), time.Now().Add(time.Hour))
	}
}

// until waits until the kernel holds exactly that.
func (l *mergeLab) until(want ...string) {
	l.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		entries, err := l.action.List(l.Context())
		check(l.T, err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Target.String())
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("held are\n%v\nwant\n%v\n%+v", got, want, l.reconciler.Stats())
		}
		<-tick.C
	}
}

// A neighbour passes until enough are banned beside it, and again as soon as one
// of them is let go.
func TestMergedNetworkDrops(t *testing.T) {
	l := newMergeLab(t, 3, actions.NftablesOptions{})
	l.echo(l.server, "80")
	l.ban("10.1.2.1/32", "10.1.2.2/32", "fd00:1:0:10::/64", "fd00:1:0:11::/64")
	l.until("10.1.2.1/32", "10.1.2.2/32", "fd00:1:0:10::/64", "fd00:1:0:11::/64")
	l.mustPass("tcp", "10.1.2.9", "80")
	l.mustPass("tcp", "fd00:1:0:13::2", "80")

	l.ban("10.1.2.3/32", "fd00:1:0:12::/64")
	l.until("10.1.2.0/24", "10.1.2.2/32", "10.1.2.3/32", "fd00:1::/48", "fd00:1:0:11::/64", "fd00:1:0:12::/64")
	for _, a := range []string{"10.1.2.1", "10.1.2.2", "10.1.2.3", "10.1.2.9", "fd00:1:0:10::2", "fd00:1:0:12::2", "fd00:1:0:13::2"} {
		l.mustDrop("udp", a, "80")
	}
	l.mustPass("tcp", "10.1.0.2", "80")
	for _, e := range []string{"10.1.2.0/24", "fd00:1::/48"} {
		if got := listed(t, l.action)[e]; got.Merged != 3 || got.Packets == 0 {
			t.Errorf("the kernel shows %+v", got)
		}
		if got, held, err := l.action.Held(t.Context(), pfx(e)); err != nil || !held || got.Merged != 3 {
			t.Errorf("it says of one %+v, %v, %v", got, held, err)
		}
	}
	if got := listed(t, l.action)["10.1.2.2/32"]; got.Merged != 0 {
		t.Errorf("a member is shown as %+v", got)
	}

	l.merger.Delete(pfx("10.1.2.2/32"))
	l.merger.Delete(pfx("fd00:1:0:10::/64"))
	l.until("10.1.2.1/32", "10.1.2.3/32", "fd00:1:0:11::/64", "fd00:1:0:12::/64")
	for _, a := range []string{"10.1.2.2", "10.1.2.9", "fd00:1:0:10::2", "fd00:1:0:13::2"} {
		l.mustPass("tcp", a, "80")
	}
	for _, a := range []string{"10.1.2.1", "10.1.2.3", "fd00:1:0:12::2"} {
		l.mustDrop("tcp", a, "80")
	}
}

// A network is merged and split again and again: not one packet of a member comes
// through.
func TestMergeLetsNobodyThrough(t *testing.T) {
	l := newMergeLab(t, 4, actions.NftablesOptions{})
	var members []string
	for n := range 12 {
		members = append(members, fmt.Sprintf("10.1.2.%d/32", n+1))
	}
	merged := []string{"10.1.2.0/24", "10.1.2.10/32", "10.1.2.11/32", "10.1.2.12/32"}
	l.ban(members...)
	l.until(merged...)

	server, err := l.server.ListenPacket("udp", ":80")
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 10)
		for {
			_, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			if a := from.(*net.UDPAddr).AddrPort().Addr().Unmap(); a != netip.MustParseAddr("10.1.0.3") {
				t.Errorf("a packet of %s has come through", a)
			} else {
				server.WriteTo(buf, from)
			}
		}
	})
	sent := 0
	var sockets []net.Conn
	for _, m := range members {
		c, err := l.client.DialerFrom(pfx(m).Addr())(t.Context(), "udp", "10.1.0.1:80")
		check(t, err)
		sockets = append(sockets, c)
	}
	wg.Go(func() {
		pace := time.NewTicker(100 * time.Microsecond)
		defer pace.Stop()
		for ; ctx.Err() == nil; <-pace.C {
			for _, c := range sockets {
				if _, err := c.Write([]byte("through?")); err == nil {
					sent++
				}
			}
		}
	})
	for range 100 {
		l.ban("10.1.2.128/28") // by hand
		l.until(append(slices.Clone(members), "10.1.2.128/28")...)
		l.merger.Delete(pfx("10.1.2.128/28"))
		l.merger.Recheck()
		l.until(merged...)
	}
	l.mustPass("udp", "10.1.0.3", "80") // the server does listen
	stop()
	for _, c := range sockets {
		defer c.Close()
	}
	server.Close()
	wg.Wait()
	if sent < 1000 {
		t.Errorf("only %d packets were sent", sent)
	}
	t.Logf("%d packets, 100 merges and splits", sent)
	if s := l.reconciler.Stats(); s.DriftAdded+s.DriftRemoved+s.DriftCorrected+s.Misheld > 0 {
		t.Errorf("drift: %+v", s)
	}
}

// Where the kernel has no room for another network, members stay banned one by
// one; a network by hand goes first.
func TestMergeCapacityOfTheKernel(t *testing.T) {
	l := newMergeLab(t, 2, actions.NftablesOptions{})
	for n := range 1100 {
		l.ban(fmt.Sprintf("10.%d.%d.1/32", 100+n/256, n%256), fmt.Sprintf("10.%d.%d.2/32", 100+n/256, n%256))
	}
	count := func() (networks, addresses int) {
		entries, err := l.action.List(t.Context())
		check(t, err)
		for _, e := range entries {
			if e.Target.Bits() < 32 {
				networks++
			} else {
				addresses++
			}
		}
		return networks, addresses
	}
	wait := func(networks, addresses int) {
		t.Helper()
		deadline := time.Now().Add(patience)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			n, a := count()
			if n == networks && a == addresses {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d networks and %d addresses are held, want %d and %d: %+v", n, a, networks, addresses, l.reconciler.Stats())
			}
			<-tick.C
		}
	}
	wait(1024, 1024+2*76)
	l.ban("172.16.0.0/12")
	wait(1024, 1023+2*77)
	until(t, "the network by hand to be held", func() bool {
		_, held, err := l.action.Held(t.Context(), pfx("172.16.0.0/12"))
		return err == nil && held
	})
	if s := l.reconciler.Stats(); s.LeftOut > 0 || s.Evicted > 0 || s.Failing {
		t.Errorf("stats: %+v", s)
	}
}

// Somebody protected keeps the kernel from hitting the network, whatever the
// Merger knows.
func TestMergeRefusedByTheAction(t *testing.T) {
	own := pfx("10.1.2.200/32")
	var on atomic.Bool
	l := newMergeLab(t, 2, actions.NftablesOptions{Protected: func(target netip.Prefix) (string, bool) {
		return "own address", on.Load() && target.Overlaps(own)
	}})
	l.ban("10.1.2.1/32", "10.1.2.2/32", "10.1.2.3/32")
	l.until("10.1.2.0/24", "10.1.2.3/32")
	on.Store(true)
	l.ban("10.1.2.4/32") // which extends it
	l.until("10.1.2.1/32", "10.1.2.2/32", "10.1.2.3/32", "10.1.2.4/32")
}
