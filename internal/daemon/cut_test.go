package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/netlab"
)

// visitors are in a namespace beside the lab's, with a web server in that.
type visitors struct {
	*kernelLab
	ns       *netlab.NS
	listener net.Listener
}

const visitor, otherVisitor = "198.51.100.2", "198.51.100.3"

func newVisitors(l *kernelLab) *visitors {
	l.Helper()
	v := &visitors{kernelLab: l}
	var err error
	v.ns, err = netlab.New()
	check(l, err)
	l.Cleanup(func() { v.ns.Close() })
	check(l, netlab.Link(v.ns, pfx(visitor+"/24"), l.ns, pfx("198.51.100.1/24")))
	check(l, v.ns.AddAddr(netlab.LinkName(0), pfx(otherVisitor+"/24")))
	v.listener, err = l.ns.Listen("tcp", ":80")
	check(l, err)
	l.Cleanup(func() { v.listener.Close() })
	return v
}

// visit opens a connection and returns the server's end of it.
func (v *visitors) visit(from string) net.Conn {
	v.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := v.ns.DialerFrom(pfx(from+"/32").Addr())(ctx, "tcp", "198.51.100.1:80")
	check(v, err)
	served, err := v.listener.Accept()
	check(v, err)
	v.Cleanup(func() { c.Close(); served.Close() })
	return served
}

// wasCut waits for the end of a connection on which nothing comes, and reports
// whether that was a cut.
func wasCut(t testing.TB, served net.Conn, limit time.Duration) bool {
	t.Helper()
	check(t, served.SetReadDeadline(time.Now().Add(limit)))
	_, err := served.Read(make([]byte, 1))
	if !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server reads %v", err)
	}
	return errors.Is(err, unix.ECONNABORTED)
}

func (v *visitors) cutStatus() *control.CutStatus {
	v.Helper()
	s, err := v.client().Status(context.Background())
	check(v, err)
	return s.Actions[0].Cut
}

// From a line in the log to the end of the connections that its client holds:
// only if the configuration says so.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	v := newVisitors(l)
	c := l.daemon(l.config(firewalled))
	held, other := v.visit(visitor), v.visit(otherVisitor)
	l.requests(visitor, 1)
	l.waitHeld(visitor)
	if wasCut(t, held, 500*time.Millisecond) || v.cutStatus() != nil {
		t.Error("connections are cut although nobody has said so")
	}

	// A ban that is in force already is none that begins.
	cutting := l.config(firewalled + "cut_connections = true\n")
	if got := l.reload(cutting); len(got.Changes) != 1 || got.Changes[0] != "actions.firewall: cut_connections false → true" {
		t.Errorf("changes: %q", got.Changes)
	}
	l.requests(otherVisitor, 1)
	if !wasCut(t, other, patience) {
		t.Error("the connection of the banned client is not cut")
	}
	if wasCut(t, held, time.Millisecond) {
		t.Error("a ban that was in force before has cut a connection")
	}
	wait(t, "a line in the log", func() bool {
		return len(c.journal.said("open connections of banned clients cut", "action", "firewall", "cut", 1, "failed", 0, "targets", 1)) == 1
	})
	if s := v.cutStatus(); s == nil || *s != (control.CutStatus{Connections: 1}) {
		t.Errorf("the status tells %+v, want 1 connection cut", s)
	}
	c.stop()

	d := l.daemon(cutting)
	if wasCut(t, held, 300*time.Millisecond) || *v.cutStatus() != (control.CutStatus{}) {
		t.Error("a ban that a restart finds in force has cut a connection")
	}
	d.stop()
}
