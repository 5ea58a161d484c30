//go:build linux

package actions_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
)

// answer is what a client is told that sends a few bytes from an address to
// a port of the server: the error of connecting or reading.
func (l *lab) answer(network, from, port string) error {
	l.Helper()
	c, err := l.dial(network, from, port, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	return l.talk(c, patience)
}

// talk sends and reads a few bytes, as many as an ICMP error must hold to be
// told to whom it is for.
func (l *lab) talk(c net.Conn, limit time.Duration) error {
	l.Helper()
	check(l.T, c.SetDeadline(time.Now().Add(limit)))
	if _, err := c.Write([]byte("hello, world")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 100))
	return err
}

func (l *lab) mustBe(want error, network, from, port string) {
	l.Helper()
	if err := l.answer(network, from, port); !errors.Is(err, want) {
		l.Errorf("%s from %s to port %s is answered with %v, want %v", network, from, port, err, want)
	}
}

const (
	client4 = "10.1.0.2"
	client6 = "fd00:1:0:2::2"
)

// One that is banned is told at once, in TCP and UDP, by IPv4 and IPv6, by
// every kind of set; on our ports only, and nobody else.
func TestNftablesRejects(t *testing.T) {
	t.Parallel()
	for _, b := range []string{client4 + "/32", "10.1.0.2/31", client6 + "/128", "fd00:1:0:2::/64", "fd00:1:0:2::/63"} {
		t.Run(b, func(t *testing.T) {
			l := newLab(t, actions.NftablesOptions{Reject: true})
			from, other := client4, "10.1.0.9"
			check(t, l.client.AddAddr("lab0", pfx(other+"/24")))
			if pfx(b).Addr().Is6() {
				from, other = client6, "fd00:1:0:9::2"
				check(t, l.client.AddAddr("lab0", pfx(other+"/48")))
			}
			for _, port := range []string{"80", "443", "22"} {
				l.echo(l.server, port)
				l.mustPass("tcp", from, port)
				l.mustPass("udp", from, port)
			}
			apply(t, l.action, ban(b, time.Hour))
			for _, network := range []string{"tcp", "udp"} {
				l.mustBe(unix.ECONNREFUSED, network, from, "80")
				l.mustBe(unix.ECONNREFUSED, network, from, "443")
				l.mustPass(network, from, "22")
				l.mustPass(network, other, "80")
			}
			check(t, l.action.Apply(t.Context(), nil, []netip.Prefix{pfx(b)}))
			l.mustPass("tcp", from, "80")
		})
	}
}

// A packet is counted once, although two rules look for its address.
func TestNftablesCountsWhatItRejects(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Reject: true})
	apply(t, l.action, ban(client4+"/32", time.Hour))
	for i, network := range []string{"tcp", "udp"} {
		l.mustBe(unix.ECONNREFUSED, network, client4, "80")
		if p := listed(t, l.action)[client4+"/32"].Packets; p != uint64(i+1) {
			t.Errorf("after %s %d packets are counted, want %d", network, p, i+1)
		}
	}
}

func TestNftablesRejectsAllPorts(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Reject: true, AllPorts: true})
	l.echo(l.server, "22")
	l.mustPass("tcp", client6, "22") // neighbours are found by packets that a ban of all covers, too
	apply(t, l.action, ban(client4+"/32", time.Hour), ban(client6+"/128", time.Hour))
	for _, from := range []string{client4, client6} {
		l.mustBe(unix.ECONNREFUSED, "tcp", from, "22")
		l.mustBe(unix.ECONNREFUSED, "udp", from, "22")
	}
	l.mustPass("tcp", "10.1.0.3", "22")

	var c net.Conn
	// SCTP, that is. The kernel doesn't answer protocols that it knows nothing
	// of, as it looks for a checksum first.
	check(t, l.client.Do(func() (err error) {
		c, err = net.Dial("ip4:132", "10.1.0.1")
		return err
	}))
	defer c.Close()
	if err := l.talk(c, patience); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("another protocol is answered with %v, want %v", err, unix.ECONNREFUSED)
	}
}

// What a client sees of a connection that is open when it is banned: a reset
// as soon as it sends, or else nothing.
func TestNftablesEndsEstablished(t *testing.T) {
	t.Parallel()
	for _, client := range []struct{ from, to, target string }{
		{client4, "10.1.0.1:80", client4 + "/32"},
		{client6, "[fd00:1::1]:80", client6 + "/128"},
	} {
		for _, reject := range []bool{true, false} {
			l := newLab(t, actions.NftablesOptions{Reject: reject})
			l.echo(l.server, "80")
			c, err := l.client.DialerFrom(netip.MustParseAddr(client.from))(t.Context(), "tcp", client.to)
			check(t, err)
			defer c.Close()
			check(t, l.talk(c, patience))
			apply(t, l.action, ban(client.target, time.Hour))
			limit, want := patience, error(unix.ECONNRESET)
			if !reject {
				limit, want = quiet, os.ErrDeadlineExceeded
			}
			if err := l.talk(c, limit); !errors.Is(err, want) {
				t.Errorf("from %s, rejecting %t: the client sees %v, want %v", client.from, reject, err, want)
			}
		}
	}
}

// One that only receives is reset by what it acknowledges.
func TestNftablesResetsWhoReceives(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Reject: true})
	listener, err := l.server.Listen("tcp", ":80")
	check(t, err)
	defer listener.Close()
	c, err := l.client.DialerFrom(netip.MustParseAddr(client4))(t.Context(), "tcp", "10.1.0.1:80")
	check(t, err)
	defer c.Close()
	served, err := listener.Accept()
	check(t, err)
	defer served.Close()
	apply(t, l.action, ban(client4+"/32", time.Hour))
	_, err = served.Write([]byte("hello, world"))
	check(t, err)
	check(t, c.SetDeadline(time.Now().Add(patience)))
	if _, err = io.Copy(io.Discard, c); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client sees %v, want %v", err, unix.ECONNRESET)
	}
}

// What we ask of a banned host must still be answered.
func TestNftablesRejectsNoReplies(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{Reject: true})
	l.echo(l.client, "80")
	apply(t, l.action, ban(client4+"/32", time.Hour))
	c, err := l.server.Dialer()(t.Context(), "tcp", client4+":80")
	check(t, err)
	defer c.Close()
	check(t, l.talk(c, patience))
}

// While the verdict changes, nothing comes through, and the bans stay.
func TestNftablesVerdictChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t, actions.NftablesOptions{})
	apply(t, l.action, ban(client4+"/32", time.Hour))
	server, err := l.server.ListenPacket("udp", ":80")
	check(t, err)
	defer server.Close()
	through := make(chan bool)
	go func() {
		_, _, err := server.ReadFrom(make([]byte, 10))
		through <- err == nil
	}()
	c, err := l.client.DialerFrom(netip.MustParseAddr(client4))(t.Context(), "udp", "10.1.0.1:80")
	check(t, err)
	defer c.Close()
	changed, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case <-changed:
				return
			default:
				_, _ = c.Write([]byte("x")) // refused now and then
			}
		}
	}()
	for i := range 60 {
		n := newNftables(t, l.server, actions.NftablesOptions{Reject: i%2 == 0})
		check(t, n.Prepare(t.Context()))
		check(t, n.Close())
	}
	close(changed)
	<-sent
	check(t, server.SetReadDeadline(time.Now()))
	if <-through {
		t.Error("a packet came through while the verdict was changed")
	}
	if e := listed(t, l.action)[client4+"/32"]; e.Left < 50*time.Minute || e.Packets == 0 {
		t.Errorf("after the changes the ban is %+v", e)
	}
}
