//go:build linux

package actions

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// fakeLooks is a Cutter that runs under a fake clock and looks at no sockets.
type fakeLooks struct {
	*Cutter
	log     bytes.Buffer
	targets []int // how many, by look
	lasts   time.Duration
	result  cutResult
	err     error
}

// cutting runs f with it in a synctest bubble.
func cutting(t *testing.T, f func(t *testing.T, l *fakeLooks)) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLooks{}
		l.Cutter = NewCutter(CutOptions{Log: slog.New(slog.NewTextHandler(&l.log, nil))})
		l.look = func(_ context.Context, targets cutTargets) (cutResult, error) {
			l.targets = append(l.targets, len(targets))
			time.Sleep(l.lasts) // fake
			return l.result, l.err
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		f(t, l)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// after lets some time go by.
func (l *fakeLooks) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func numbered(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
}

// A storm of bans is a few looks, the first of them at once.
func TestCutterCoalesces(t *testing.T) {
	cutting(t, func(t *testing.T, l *fakeLooks) {
		for i := range 100_000 {
			l.Changed([]netip.Prefix{numbered(i)}, nil)
			if i == 0 {
				synctest.Wait()
				if s := l.Stats(); s.Looks != 1 {
					t.Errorf("%d looks after the first ban, want 1", s.Looks)
				}
			}
			if i%1000 == 0 {
				l.after(30 * time.Millisecond) // 3 s in all
			}
		}
		l.after(time.Minute)
		sum := 0
		for _, n := range l.targets {
			sum += n
		}
		if len(l.targets) > 5 || sum != 100_000 {
			t.Errorf("looks for %v targets, want 100,000 in 5 looks at most", l.targets)
		}
		if s := l.Stats(); s.Looks != uint64(len(l.targets)) || s.Dropped != 0 {
			t.Errorf("counted %+v", s)
		}
	})
}

// Looks that take long take a small share of the time.
func TestCutterLongLooks(t *testing.T) {
	cutting(t, func(t *testing.T, l *fakeLooks) {
		l.lasts = time.Second
		for i := range 600 {
			l.Changed([]netip.Prefix{numbered(i)}, nil)
			l.after(100 * time.Millisecond)
		}
		if n := len(l.targets); n < 4 || n > 7 {
			t.Errorf("%d looks of a second in a minute", n)
		}
	})
}

func TestCutterQueue(t *testing.T) {
	cutting(t, func(t *testing.T, l *fakeLooks) {
		l.Changed([]netip.Prefix{numbered(0)}, nil)
		synctest.Wait()
		l.Changed([]netip.Prefix{numbered(1), numbered(2)}, nil)
		l.Changed(nil, []netip.Prefix{numbered(1), numbered(3)}) // unbanned meanwhile
		var many []netip.Prefix
		for i := range maxCutQueued {
			many = append(many, numbered(10+i))
		}
		l.Changed(many, nil)
		l.after(time.Minute)
		if len(l.targets) != 2 || l.targets[1] != maxCutQueued {
			t.Errorf("looks for %v targets, want two, the second for a full queue", l.targets)
		}
		if s := l.Stats(); s.Dropped != 1 {
			t.Errorf("counted %+v, want one target dropped", s)
		}
		l.Changed([]netip.Prefix{numbered(1)}, nil)
		l.Changed(nil, []netip.Prefix{numbered(1)})
		l.after(time.Minute)
		if len(l.targets) != 2 {
			t.Error("a look for nobody")
		}
	})
}

// What can't be done is said once, with a hint, and tried again with the next
// ban.
func TestCutterFails(t *testing.T) {
	cutting(t, func(t *testing.T, l *fakeLooks) {
		l.err = explainCut(unix.EPERM)
		for i := range 3 {
			l.Changed([]netip.Prefix{numbered(i)}, nil)
			l.after(time.Minute)
		}
		l.err, l.result = nil, cutResult{cut: 2, failed: 1, failure: errors.New("no way")}
		l.Changed([]netip.Prefix{numbered(4)}, nil)
		l.after(time.Minute)
		for text, want := range map[string]int{
			"are not cut": 1, "CAP_NET_ADMIN is needed": 1, "are cut again": 1, `cut=2 failed=1 targets=1 err="no way"`: 1,
		} {
			if got := strings.Count(l.log.String(), text); got != want {
				t.Errorf("%q was said %d times, want %d:\n%s", text, got, want, &l.log)
			}
		}
		if s := l.Stats(); s != (CutStats{Cut: 2, Failed: 1, Dropped: 3, Looks: 4}) {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestExplainCut(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM: "CAP_NET_ADMIN", unix.EOPNOTSUPP: "CONFIG_INET_DIAG_DESTROY",
		unix.ENOENT: "modprobe tcp_diag", unix.EAFNOSUPPORT: "RestrictAddressFamilies",
	} {
		if got := explainCut(err); !errors.Is(got, err) || !strings.Contains(got.Error(), want) {
			t.Errorf("%v is explained as %q, want %q in it", err, got, want)
		}
	}
}

func TestCutTargets(t *testing.T) {
	targets := cutTargets{}
	for _, s := range []string{"192.0.2.7/32", "198.51.100.0/24", "2001:db8::/64", "2001:db8:1::7/128", "::/16"} {
		targets[netip.MustParsePrefix(s)] = struct{}{}
	}
	l := targets.lengths()
	for addr, want := range map[string]bool{
		"192.0.2.7": true, "192.0.2.8": false, "198.51.100.255": true, "198.51.101.0": false,
		"2001:db8::ffff": true, "2001:db8:0:1::": false, "2001:db8:1::7": true, "2001:db8:1::8": false,
		"0.0.0.0": false, // IPv6 networks hold no IPv4 addresses
	} {
		if got := targets.hold(l, netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is held: %t, want %t", addr, got, want)
		}
	}
}

func TestParseSocketShort(t *testing.T) {
	for n := range diagMsgSize {
		if _, ok := parseSocket(make([]byte, n)); ok {
			t.Fatalf("%d bytes are taken for a socket", n)
		}
	}
	if _, ok := parseSocket(make([]byte, diagMsgSize)); ok {
		t.Error("a socket of no family")
	}
}

// A connection that is gone when it is to be ended must not cost the listening
// socket, which the kernel finds in its place.
func TestEndSparesListener(t *testing.T) {
	ns := namespace(t)
	var listener net.Listener
	err := ns.Do(func() (err error) {
		var c net.ListenConfig
		c.SetMultipathTCP(false) // whose listening sockets the kernel would spare
		listener, err = c.Listen(t.Context(), "tcp", "127.0.0.1:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connect := func() (opened, accepted net.Conn) {
		opened, err := ns.Dialer()(t.Context(), "tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		if accepted, err = listener.Accept(); err != nil {
			t.Fatal(err)
		}
		return opened, accepted
	}
	d, err := openSockDiag(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.destroys(); err != nil {
		t.Skip("needs a kernel that can end sockets: ", err)
	}
	opened, accepted := connect()
	var found []tcpSocket
	err = d.list(unix.AF_INET, openStates, func(s *tcpSocket) {
		if s.local == 80 {
			found = append(found, *s)
		}
	})
	if err != nil || len(found) != 1 || !found[0].open || found[0].remote != netip.MustParseAddr("127.0.0.1") {
		t.Fatalf("listed %+v, %v, want the accepted socket", found, err)
	}
	_ = accepted.(*net.TCPConn).SetLinger(0) // gone at once, both
	accepted.Close()
	opened.Close()
	if err := d.end(&found[0]); !errors.Is(err, errGone) {
		t.Errorf("end returned %v, want that it is gone", err)
	}
	opened, accepted = connect()
	opened.Close()
	accepted.Close()
}
