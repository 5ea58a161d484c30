//go:build linux

package actions_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// cutLab is a lab whose server cuts connections, with the parts that the
// daemon puts together.
type cutLab struct {
	*lab
	cutter     *actions.Cutter
	reconciler *actions.Reconciler
	log        *syncbuf.Buffer
}

func newCutLab(t *testing.T, opt actions.NftablesOptions) *cutLab {
	t.Helper()
	log := &syncbuf.Buffer{}
	l := &cutLab{lab: newLab(t, opt), log: log}
	l.cutter = actions.NewCutter(actions.CutOptions{
		Ports: opt.Ports, AllPorts: opt.AllPorts, Protected: opt.Protected,
		NetNS: l.server.FD(), Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	l.reconciler = actions.NewReconciler(actions.Options{Name: "test", Action: l.action, OnChange: l.cutter.Changed})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- l.cutter.Run(ctx) }()
	go func() { done <- l.reconciler.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("Run returned %v, want nil as it was cancelled", err)
			}
		}
		if t.Failed() {
			t.Logf("it said:\n%s", log)
		}
	})
	l.wait("the first full pass", func() bool { return l.reconciler.Stats().Passes > 0 })
	return l
}

func (l *cutLab) wait(what string, ok func() bool) {
	l.Helper()
	end := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			l.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func (l *cutLab) ban(targets ...string) {
	for _, s := range targets {
		l.reconciler.Set(pfx(s), time.Now().Add(time.Hour))
	}
}

// cutThere waits until so many looks are over, and checks how many connections
// they have cut.
func (l *cutLab) cutThere(looks, cut uint64) {
	l.Helper()
	l.wait("a look at the sockets", func() bool { return l.cutter.Stats().Looks >= looks })
	if s := l.cutter.Stats(); s != (actions.CutStats{Cut: cut, Looks: looks}) {
		l.Errorf("counted %+v, want %d connections cut in %d looks", s, cut, looks)
	}
}

// connection is one with both its ends here. The end of whoever accepted it
// waits for data, as a server does.
type connection struct {
	opened, accepted net.Conn
	ended            chan error // why the wait of the accepted end is over
}

func (l *cutLab) listen(ns *netlab.NS, network, addr string) net.Listener {
	l.Helper()
	listener, err := ns.Listen(network, addr)
	check(l.T, err)
	l.Cleanup(func() { listener.Close() })
	return listener
}

// connect opens a connection to a listener.
func (l *cutLab) connect(ns *netlab.NS, from, to string, listener net.Listener) *connection {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(l.T, err)
	c := &connection{ended: make(chan error, 1)}
	c.opened, err = ns.DialerFrom(netip.MustParseAddr(from))(ctx, "tcp", net.JoinHostPort(to, port))
	check(l.T, err)
	c.accepted, err = listener.Accept()
	check(l.T, err)
	go func() {
		_, err := c.accepted.Read(make([]byte, 1))
		c.ended <- err
	}()
	l.Cleanup(func() { c.opened.Close(); c.accepted.Close() })
	return c
}

// mustEnd checks that the server's wait is ended at once.
func (l *cutLab) mustEnd(c *connection) {
	l.Helper()
	select {
	case err := <-c.ended:
		if !errors.Is(err, unix.ECONNABORTED) {
			l.Errorf("the connection from %s ended with %v, want ECONNABORTED", c.accepted.RemoteAddr(), err)
		}
	case <-time.After(patience):
		l.Errorf("the connection from %s is not cut", c.accepted.RemoteAddr())
	}
}

// mustWait checks that the server still waits, with a connection of which
// nothing may come through.
func (l *cutLab) mustWait(c *connection) {
	l.Helper()
	select {
	case err := <-c.ended:
		l.Errorf("the connection from %s has ended: %v", c.accepted.RemoteAddr(), err)
	default:
	}
}

// mustWork checks that a connection works.
func (l *cutLab) mustWork(c *connection) {
	l.Helper()
	_, err := c.opened.Write([]byte("x"))
	check(l.T, err)
	select {
	case err := <-c.ended:
		if err != nil {
			l.Errorf("the connection from %s has ended: %v", c.accepted.RemoteAddr(), err)
		}
	case <-time.After(patience):
		l.Errorf("nothing comes through the connection from %s", c.accepted.RemoteAddr())
	}
}

func TestCut(t *testing.T) {
	const v4, v6 = "10.1.0.1", "fd00:1::1"
	tests := []struct{ name, network, listen, to, banned, target, other string }{
		{"IPv4", "tcp4", "0.0.0.0", v4, "10.1.0.2", "10.1.0.2/32", "10.1.0.3"},
		{"IPv6", "tcp6", "[" + v6 + "]", v6, "fd00:1:0:2::2", "fd00:1:0:2::/64", "fd00:1:0:3::2"},
		{"one IPv6 address", "tcp6", "[::]", v6, "fd00:1:0:2::2", "fd00:1:0:2::2/128", "fd00:1:0:2:f000::3"},
		{"IPv4 at a dual-stack socket", "tcp", "[::]", v4, "10.1.0.2", "10.1.0.2/32", "10.1.0.3"},
		{"IPv6 at a dual-stack socket", "tcp", "[::]", v6, "fd00:1:0:2::2", "fd00:1:0:2::/64", "fd00:1:0:3::2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newCutLab(t, actions.NftablesOptions{})
			web := l.listen(l.server, tt.network, tt.listen+":80")
			tls := l.listen(l.server, tt.network, tt.listen+":443")
			ssh := l.listen(l.server, tt.network, tt.listen+":22")
			theirs := l.listen(l.client, "tcp", ":80")
			held := []*connection{
				l.connect(l.client, tt.banned, tt.to, web), l.connect(l.client, tt.banned, tt.to, web), l.connect(l.client, tt.banned, tt.to, tls),
			}
			stay := []*connection{
				l.connect(l.client, tt.other, tt.to, web),     // of another client
				l.connect(l.client, tt.banned, tt.to, ssh),    // at a port that no ban covers
				l.connect(l.server, tt.to, tt.banned, theirs), // ours, to the banned one
			}
			l.ban(tt.target)
			for _, c := range held {
				l.mustEnd(c)
			}
			l.cutThere(1, 3)
			for _, c := range stay {
				l.mustWork(c)
			}
			l.connect(l.client, tt.other, tt.to, web) // it listens still
			l.wait("a line in the log", func() bool { return strings.Contains(l.log.String(), "cut=3 failed=0 targets=1") })
		})
	}
}

// A network holds several, and maybe one who is protected.
func TestCutNetwork(t *testing.T) {
	protect := func(target netip.Prefix) (string, bool) { return "yours", target == pfx("10.1.0.3/32") }
	l := newCutLab(t, actions.NftablesOptions{Protected: protect})
	web := l.listen(l.server, "tcp", ":80")
	banned := l.connect(l.client, "10.1.0.2", "10.1.0.1", web)
	protected := l.connect(l.client, "10.1.0.3", "10.1.0.1", web)
	l.ban("10.1.0.0/29")
	l.mustEnd(banned)
	l.cutThere(1, 1)
	l.mustWait(protected)
}

// Also if bans cover all ports, only what was accepted is cut.
func TestCutAllPorts(t *testing.T) {
	l := newCutLab(t, actions.NftablesOptions{AllPorts: true})
	ssh := l.listen(l.server, "tcp", ":22")
	theirs := l.listen(l.client, "tcp", ":80")
	held := l.connect(l.client, "10.1.0.2", "10.1.0.1", ssh)
	ours := l.connect(l.server, "10.1.0.1", "10.1.0.2", theirs)
	l.ban("10.1.0.2/32")
	l.mustEnd(held)
	l.cutThere(1, 1)
	l.mustWait(ours)
	check(t, ours.opened.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := ours.opened.Read(make([]byte, 1)); errors.Is(err, unix.ECONNABORTED) {
		t.Error("our own connection was cut")
	}
}

// Where a connection stands when the ban comes.
func TestCutStates(t *testing.T) {
	const client, server = "10.1.0.2", "10.1.0.1"
	half := func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }
	tests := []struct {
		name string
		do   func(l *cutLab, web net.Listener)
		cut  uint64
	}{
		{"the client has said all", func(l *cutLab, web net.Listener) {
			c := l.connect(l.client, client, server, web)
			check(l.T, half(c.opened))
			<-c.ended
		}, 1},
		{"the server lingers", func(l *cutLab, web net.Listener) {
			c := l.connect(l.client, client, server, web)
			check(l.T, half(c.accepted))
			_, _ = c.opened.Read(make([]byte, 1)) // its end has come
		}, 1},
		{"the server is done with it", func(l *cutLab, web net.Listener) {
			c := l.connect(l.client, client, server, web)
			check(l.T, c.accepted.Close())
			_, _ = c.opened.Read(make([]byte, 1))
		}, 0},
		{"not accepted yet", func(l *cutLab, web net.Listener) {
			c, err := l.client.DialerFrom(netip.MustParseAddr(client))(l.Context(), "tcp", web.Addr().String())
			check(l.T, err)
			l.Cleanup(func() { c.Close() })
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newCutLab(t, actions.NftablesOptions{})
			tt.do(l, l.listen(l.server, "tcp", server+":80"))
			l.ban(client + "/32")
			l.cutThere(1, tt.cut)
		})
	}
}

// Many bans are one look.
func TestCutBatch(t *testing.T) {
	l := newCutLab(t, actions.NftablesOptions{})
	web := l.listen(l.server, "tcp", ":80")
	held := l.connect(l.client, "10.1.0.2", "10.1.0.1", web)
	var begun []netip.Prefix
	for i := range 20_000 {
		a := netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)})
		begun = append(begun, netip.PrefixFrom(a, 32))
	}
	l.cutter.Changed(append(begun, pfx("10.1.0.2/32"), pfx("fd00:1:0:2::/64"), pfx("10.9.0.0/16")), nil)
	l.mustEnd(held)
	l.cutThere(1, 1)
}
