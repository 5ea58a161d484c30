//go:build linux

package actions_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

const (
	// quiet is how long nothing must come through to be taken for dropped.
	quiet = 700 * time.Millisecond
	// patience is how long what must come through may take.
	patience = 60 * time.Second
)

// lab is a client and a server with several addresses, and the action at the
// server.
type lab struct {
	*testing.T
	client, server *netlab.NS
	action         *actions.Nftables
}

func newLab(t *testing.T, opt actions.NftablesOptions) *lab {
	t.Helper()
	l := newBareLab(t)
	l.action = prepared(t, l.server, opt)
	return l
}

// newBareLab is a lab without an action.
func newBareLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, client: newNS(t), server: newNS(t)}
	check(t, netlab.Link(l.client, pfx("10.1.0.2/24"), l.server, pfx("10.1.0.1/24")))
	check(t, l.client.AddAddr(netlab.LinkName(0), pfx("10.1.0.3/24")))
	check(t, l.server.AddAddr(netlab.LinkName(0), pfx("fd00:1::1/48")))
	for _, a := range []string{"fd00:1:0:2::2/48", "fd00:1:0:2:f000::3/48", "fd00:1:0:3::2/48"} {
		check(t, l.client.AddAddr(netlab.LinkName(0), pfx(a)))
	}
	return l
}

// echo serves what it is sent at a port of a namespace, TCP and UDP.
func (l *lab) echo(ns *netlab.NS, port string) {
	l.Helper()
	listener, err := ns.Listen("tcp", ":"+port)
	check(l.T, err)
	packets, err := ns.ListenPacket("udp", ":"+port)
	check(l.T, err)
	var wg sync.WaitGroup
	l.Cleanup(func() { listener.Close(); packets.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(l.Context(), func() { c.Close() })
				defer stop()
				io.Copy(c, c)
			})
		}
	})
	wg.Go(func() {
		buf := make([]byte, 100)
		for {
			k, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			packets.WriteTo(buf[:k], from)
		}
	})
}

// dial connects from an address of the client to a port of the server.
func (l *lab) dial(network, from, port string, limit time.Duration) (net.Conn, error) {
	to := "10.1.0.1"
	local := netip.MustParseAddr(from)
	if local.Is6() {
		to = "fd00:1::1"
	}
	ctx, cancel := context.WithTimeout(l.Context(), limit)
	defer cancel()
	return l.client.DialerFrom(local)(ctx, network, net.JoinHostPort(to, port))
}

// passes connects from an address of the client to a port of the server,
// sends a few bytes and reports whether they come back.
func (l *lab) passes(network, from, port string, limit time.Duration) bool {
	l.Helper()
	c, err := l.dial(network, from, port, limit)
	if err != nil {
		return false
	}
	defer c.Close()
	return l.roundTrip(c, limit)
}

func (l *lab) roundTrip(c net.Conn, limit time.Duration) bool {
	l.Helper()
	check(l.T, c.SetDeadline(time.Now().Add(limit)))
	if _, err := c.Write([]byte("hello")); err != nil {
		l.Fatal(err)
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err == nil
}

func (l *lab) mustPass(network, from, port string) {
	l.Helper()
	if !l.passes(network, from, port, patience) {
		l.Errorf("%s from %s to port %s does not pass", network, from, port)
	}
}

func (l *lab) mustDrop(network, from, port string) {
	l.Helper()
	if l.passes(network, from, port, quiet) {
		l.Errorf("%s from %s to port %s passes", network, from, port)
	}
}

func TestNftablesDropsOnItsPortsOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	for _, port := range []string{"80", "443", "22"} {
		l.echo(l.server, port)
		l.mustPass("tcp", "10.1.0.2", port)
		l.mustPass("udp", "10.1.0.2", port)
	}
	apply(t, l.action, ban("10.1.0.2/32", time.Hour))
	for _, network := range []string{"tcp", "udp"} {
		l.mustDrop(network, "10.1.0.2", "80")
		l.mustDrop(network, "10.1.0.2", "443")
		l.mustPass(network, "10.1.0.2", "22")
		l.mustPass(network, "10.1.0.3", "80")
	}
	check(t, l.action.Apply(t.Context(), nil, []netip.Prefix{pfx("10.1.0.2/32")}))
	l.mustPass("tcp", "10.1.0.2", "80")
}

func TestNftablesAllPorts(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{AllPorts: true})
	l.echo(l.server, "22")
	l.mustPass("tcp", "10.1.0.2", "22")
	apply(t, l.action, ban("10.1.0.2/32", time.Hour))
	l.mustDrop("tcp", "10.1.0.2", "22")
	l.mustPass("tcp", "10.1.0.3", "22")
}

func TestNftablesIPv6(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "80")
	for _, a := range []string{"fd00:1:0:2::2", "fd00:1:0:2:f000::3", "fd00:1:0:3::2"} {
		l.mustPass("tcp", a, "80")
	}
	apply(t, l.action, ban("fd00:1:0:2::2/128", time.Hour))
	l.mustDrop("tcp", "fd00:1:0:2::2", "80")
	l.mustPass("tcp", "fd00:1:0:2:f000::3", "80")

	apply(t, l.action, ban("fd00:1:0:2::/64", time.Hour))
	l.mustDrop("tcp", "fd00:1:0:2:f000::3", "80")
	l.mustDrop("udp", "fd00:1:0:2:f000::3", "80")
	l.mustPass("tcp", "fd00:1:0:3::2", "80")
}

func TestNftablesCutsEstablished(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "80")
	c, err := l.client.Dialer()(t.Context(), "tcp", "10.1.0.1:80")
	check(t, err)
	defer c.Close()
	if !l.roundTrip(c, patience) {
		t.Fatal("the connection does not work to begin with")
	}
	apply(t, l.action, ban("10.1.0.2/32", time.Hour))
	if l.roundTrip(c, quiet) {
		t.Error("an established connection survives the ban")
	}
}

// What we ask of a banned host must still be answered.
func TestNftablesRepliesToUsPass(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "80")
	l.echo(l.client, "80")
	apply(t, l.action, ban("10.1.0.2/32", time.Hour))
	l.mustDrop("tcp", "10.1.0.2", "80")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := l.server.Dialer()(ctx, "tcp", "10.1.0.2:80")
	check(t, err)
	defer c.Close()
	if !l.roundTrip(c, patience) {
		t.Error("replies of a banned host to us are dropped")
	}
}

func TestNftablesAllowedPassesAlthoughBanned(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Allow: []netip.Prefix{pfx("10.1.0.2/31"), pfx("10.1.0.2/32"), pfx("fd00:1:0:2::/64")}})
	l.echo(l.server, "80")
	apply(t, l.action, ban("10.1.0.2/32", time.Hour), ban("fd00:1:0:2::/64", time.Hour), ban("fd00:1:0:3::/64", time.Hour))
	l.mustPass("tcp", "10.1.0.2", "80")
	l.mustPass("tcp", "fd00:1:0:2::2", "80")
	l.mustDrop("tcp", "fd00:1:0:3::2", "80")

	check(t, l.action.SetAllow(t.Context(), []netip.Prefix{pfx("fd00:1:0:3::2/128")}))
	l.mustDrop("tcp", "10.1.0.2", "80")
	l.mustDrop("tcp", "fd00:1:0:2::2", "80")
	l.mustPass("tcp", "fd00:1:0:3::2", "80")
	check(t, l.action.Prepare(t.Context()))
	if s := l.action.Stats(); s.Repairs != 0 {
		t.Error("Prepare takes our own change for damage")
	}
}

// Counters count what was dropped, not what passed on other ports.
func TestNftablesCountsPackets(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "22")
	l.echo(l.server, "80")
	apply(t, l.action, ban("10.1.0.2/32", time.Hour), ban("10.1.0.3/32", time.Hour))
	l.mustDrop("udp", "10.1.0.2", "80")
	l.mustPass("udp", "10.1.0.3", "22")
	got := listed(t, l.action)
	if p := got["10.1.0.2/32"].Packets; p != 1 {
		t.Errorf("%d packets counted for the one that was dropped", p)
	}
	if p := got["10.1.0.3/32"].Packets; p != 0 {
		t.Errorf("%d packets counted for what passed", p)
	}
}

// A ban that is renewed keeps its counter, except where the kernel is too old
// for that and the element must be deleted in between.
func TestNftablesRenewalAndCounters(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		l := newLab(t, actions.NftablesOptions{})
		if old {
			actions.ActAsOldKernel(l.action)
		} else if !actions.Renews(l.action) {
			continue // here is such a kernel
		}
		l.echo(l.server, "80")
		apply(t, l.action, ban("10.1.0.2/32", time.Hour))
		l.mustDrop("udp", "10.1.0.2", "80")
		apply(t, l.action, ban("10.1.0.2/32", 2*time.Hour))
		want := uint64(1)
		if old {
			want = 0
		}
		if p := listed(t, l.action)["10.1.0.2/32"].Packets; p != want {
			t.Errorf("as an old kernel %t: %d packets after the renewal, want %d", old, p, want)
		}
	}
}

// A ban ends in the kernel, with the action closed.
func TestNftablesEndsWithoutUs(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	l.echo(l.server, "80")
	apply(t, l.action, ban("10.1.0.2/32", 3*time.Second), ban("10.1.0.3/32", time.Hour))
	check(t, l.action.Close())
	l.mustDrop("tcp", "10.1.0.2", "80")
	l.mustPass("tcp", "10.1.0.2", "80") // SYNs are repeated until the ban is over
	l.mustDrop("tcp", "10.1.0.3", "80")
}

// An address that changes its ban is never let in between, whichever way the
// kernel needs its timeout changed.
func TestNftablesRenewalLeavesNoGap(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	actions.ActAsOldKernel(l.action)
	apply(t, l.action, ban("10.1.0.2/32", time.Hour))
	l.noGap(2000, func(int) { apply(t, l.action, ban("10.1.0.2/32", time.Hour)) })
}

// Nor is a network while others around it come and go.
func TestNftablesNetworksLeaveNoGap(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	others := make([]actions.Entry, 40)
	targets := make([]netip.Prefix, len(others))
	for i := range others {
		others[i] = ban(fmt.Sprintf("10.%d.0.0/24", i*3), time.Hour)
		targets[i] = others[i].Target
	}
	apply(t, l.action, append(others, ban("10.1.0.2/31", time.Hour))...)
	l.noGap(500, func(i int) {
		k := i % len(others)
		check(t, l.action.Apply(t.Context(), others[k:k+1], targets[(k+1)%len(targets):][:1]))
	})
}

// noGap sends packets from a banned address while its ban is changed, and
// fails if one comes through.
func (l *lab) noGap(changes int, change func(i int)) {
	l.Helper()
	l.echo(l.server, "80")
	d := l.client.DialerFrom(netip.MustParseAddr("10.1.0.2"))
	c, err := d(l.Context(), "udp", "10.1.0.1:80")
	check(l.T, err)
	defer c.Close()
	got := make(chan bool)
	go func() {
		_, err := c.Read(make([]byte, 10))
		got <- err == nil
	}()
	changed := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case <-changed:
				return
			default:
				if _, err := c.Write([]byte("x")); err != nil {
					l.Error(err)
					return
				}
			}
		}
	}()
	for i := range changes {
		change(i)
	}
	close(changed)
	<-sent
	check(l.T, c.SetReadDeadline(time.Now()))
	if <-got {
		l.Error("a packet came through while the ban was changed")
	}
}
