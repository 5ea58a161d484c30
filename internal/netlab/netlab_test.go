//go:build linux

package netlab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/tailban/tailban/internal/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newNS(t *testing.T) *netlab.NS {
	t.Helper()
	if err := netlab.Available(); err != nil {
		t.Skip("network namespaces cannot be made here: ", err)
	}
	n, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func links(t *testing.T, n *netlab.NS) string {
	t.Helper()
	var names []string
	err := n.Do(func() error {
		ls, err := netlink.LinkList()
		for _, l := range ls {
			names = append(names, l.Attrs().Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func netnsName(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNewIsEmptyAndItsOwn(t *testing.T) {
	a, b := newNS(t), newNS(t)
	if got := links(t, a); got != "lo" {
		t.Errorf("interfaces of a new namespace: %s, want lo alone", got)
	}
	if err := netlab.Link(a, netip.MustParsePrefix("10.0.0.1/24"), b, netip.MustParsePrefix("10.0.0.2/24")); err != nil {
		t.Fatal(err)
	}
	if got := links(t, newNS(t)); got != "lo" {
		t.Errorf("interfaces of another namespace: %s, want lo alone", got)
	}
}

// Threads that have been inside must not carry that into other goroutines.
func TestDoComesBack(t *testing.T) {
	n := newNS(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := netnsName(t)
	for range 50 {
		var inside string
		err := n.Do(func() (err error) {
			inside, err = os.Readlink("/proc/thread-self/ns/net")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if inside == before {
			t.Fatalf("Do ran its function outside, in %s", inside)
		}
		c := make(chan string)
		go func() {
			name, _ := os.Readlink("/proc/thread-self/ns/net")
			c <- name
		}()
		if after := <-c; after != before {
			t.Fatalf("a goroutine elsewhere runs in %s, want %s", after, before)
		}
	}
}

func TestDoErrors(t *testing.T) {
	n := newNS(t)
	want := errors.New("mine")
	if err := n.Do(func() error { return want }); err != want {
		t.Errorf("Do returned %v, want the function's error", err)
	}
	err := n.Do(func() error { runtime.Goexit(); return nil })
	if err == nil || !strings.Contains(err.Error(), "ended its goroutine") {
		t.Errorf("Do with a function that exits returned %v", err)
	}
}

func TestStart(t *testing.T) {
	n := newNS(t)
	exe, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("no cat here: ", err)
	}
	out := new(strings.Builder)
	cmd := exec.Command(exe, "/proc/net/dev")
	cmd.Stdout = out
	if err := n.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), ":"); got != 1 {
		t.Errorf("the process sees %d interfaces, want the loopback alone:\n%s", got, out)
	}
}

func TestSockets(t *testing.T) {
	a, b := newNS(t), newNS(t)
	p := netip.MustParsePrefix
	steps := []error{
		netlab.Link(a, p("10.0.0.1/24"), b, p("10.0.0.2/24")),
		netlab.Link(a, p("fd00:1::1/64"), b, p("fd00:1::2/64")),
		a.AddAddr(netlab.LinkName(0), p("10.0.0.7/32")),
		b.AddAddr("lo", p("192.0.2.1/32")),
		b.AddAddr("lo", p("fd00:9::1/128")),
		a.DefaultRoute(netip.MustParseAddr("10.0.0.2")),
		a.DefaultRoute(netip.MustParseAddr("fd00:1::2")),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ from, listen, want string }{
		{"", "10.0.0.2:80", "10.0.0.1"},
		{"10.0.0.7", "10.0.0.2:80", "10.0.0.7"},
		{"", "192.0.2.1:80", "10.0.0.1"},
		{"", "[fd00:1::2]:80", "fd00:1::1"},
		{"", "[fd00:9::1]:80", "fd00:1::1"},
	}
	for _, tt := range tests {
		t.Run(tt.from+" to "+tt.listen, func(t *testing.T) {
			var from netip.Addr
			if tt.from != "" {
				from = netip.MustParseAddr(tt.from)
			}
			if got := peerOf(t, a, from, b, tt.listen); got != tt.want {
				t.Errorf("the server sees %s, want %s", got, tt.want)
			}
		})
	}
}

// peerOf connects and returns the client's address as the server sees it.
func peerOf(t *testing.T, client *netlab.NS, from netip.Addr, server *netlab.NS, addr string) string {
	t.Helper()
	l, err := server.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		io.WriteString(c, host)
	}()
	defer func() { l.Close(); <-done }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := client.DialerFrom(from)(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestDialerRefusesNames(t *testing.T) {
	n := newNS(t)
	if _, err := n.Dialer()(t.Context(), "tcp", "localhost:80"); err == nil || !strings.Contains(err.Error(), "numeric") {
		t.Errorf("dialing a name returned %v", err)
	}
}

func TestErrorsNameTheObject(t *testing.T) {
	n := newNS(t)
	err := n.AddAddr("nosuch0", netip.MustParsePrefix("10.0.0.1/24"))
	if err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("an address for an interface that is not there: %v", err)
	}
	err = n.DefaultRoute(netip.MustParseAddr("10.9.9.9"))
	if err == nil || !strings.Contains(err.Error(), "10.9.9.9") {
		t.Errorf("a route through a neighbour that is not there: %v", err)
	}
}
