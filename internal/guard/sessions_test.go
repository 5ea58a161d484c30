package guard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/netlab"
	"golang.org/x/sys/unix"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hall is where sessions are told of in a test.
type hall struct {
	testing.TB
	*Sessions
	set  *Set
	said *bytes.Buffer
	now  time.Time
	dead map[int]bool // processes that are not there
}

func newHall(t testing.TB) *hall {
	t.Helper()
	dir := t.TempDir()
	h := &hall{TB: t, set: New(nil), said: &bytes.Buffer{}, now: time.Now(), dead: map[int]bool{}}
	h.Sessions = NewSessions(h.set, Paths{Sessions: filepath.Join(dir, "sessions"), Utmp: filepath.Join(dir, "utmp")},
		slog.New(slog.NewTextHandler(h.said, nil)))
	h.alive = func(pid int) bool { return !h.dead[pid] }
	h.on = true
	return h
}

// opens has logind tell of a session, as it does: by a rename.
func (h *hall) opens(id int, from string) {
	h.Helper()
	if err := os.MkdirAll(h.paths.Sessions, 0o755); err != nil {
		h.Fatal(err)
	}
	path := filepath.Join(h.paths.Sessions, fmt.Sprint(id))
	write(h, path+".tmp", strings.NewReplacer("203.0.113.5", from, "4711", fmt.Sprint(id+10000)).Replace(sessionFile))
	if err := os.Rename(path+".tmp", path); err != nil {
		h.Fatal(err)
	}
}

func (h *hall) ends(id int) {
	h.Helper()
	if err := os.Remove(filepath.Join(h.paths.Sessions, fmt.Sprint(id))); err != nil {
		h.Fatal(err)
	}
}

// after lets time pass and looks.
func (h *hall) after(d time.Duration, want ...string) {
	h.Helper()
	h.now = h.now.Add(d)
	h.Look(h.now)
	if got := h.protected(); !slices.Equal(got, want) {
		h.Errorf("protected: %v, want %v", got, want)
	}
}

func (h *hall) protected() (got []string) {
	for _, e := range h.set.Entries() {
		if e.Reason == "SSH session" {
			got = append(got, e.Prefix.String())
		}
	}
	return got
}

func TestSessions(t *testing.T) {
	h := newHall(t)
	h.after(0) // there is nothing yet
	h.opens(1, "203.0.113.5")
	h.opens(2, "2001:db8:1::5")
	h.opens(3, "203.0.113.5")
	h.after(0, "203.0.113.5/32", "2001:db8:1::5/128")
	if h.set.Shared(netip.MustParsePrefix("2001:db8:1::/64")) {
		t.Error("whoever may log in can have a network counted by address")
	}
	before := h.set.Version()
	h.after(time.Hour, "203.0.113.5/32", "2001:db8:1::5/128")
	if h.set.Version() != before {
		t.Error("another version although nothing has changed")
	}
	h.ends(1)
	h.ends(2)
	h.after(linger-time.Second, "203.0.113.5/32", "2001:db8:1::5/128")
	h.after(time.Second, "203.0.113.5/32") // by its other session
	h.ends(3)
	h.after(linger-time.Second, "203.0.113.5/32")
	h.opens(4, "203.0.113.5") // it comes back
	h.after(time.Second, "203.0.113.5/32")
	h.dead[10004] = true // and logind doesn't notice that it is gone
	h.after(linger)
}

func TestSessionsOff(t *testing.T) {
	h := newHall(t)
	h.opens(1, "203.0.113.5")
	h.after(0, "203.0.113.5/32")
	h.Protect(false, h.now)
	h.after(0)
	h.Protect(true, h.now)
	if got := h.protected(); len(got) != 1 {
		t.Errorf("protected at once: %v", got)
	}
	h.ends(1)
	h.Protect(false, h.now)
	h.Protect(true, h.now)
	h.after(0) // what was before is forgotten
}

func TestSessionsOfUtmp(t *testing.T) {
	h := newHall(t)
	of := func(pid int32, addr string) []byte { return record{7, pid, "pts/0", "", addr}.bytes(layoutOf(0, "")) }
	write(t, h.paths.Utmp, string(slices.Concat(of(1, "203.0.113.5"), of(2, "2001:db8:1::5"), of(3, "203.0.113.5"))))
	h.dead[2], h.dead[3] = true, true // sshd was killed
	h.after(0, "203.0.113.5/32")
	h.opens(4, "203.0.113.6")
	h.after(0, "203.0.113.5/32", "203.0.113.6/32")
}

// What is no session's is passed over, and what can't be read is said once.
func TestSessionsAmongOthers(t *testing.T) {
	h := newHall(t)
	h.opens(1, "203.0.113.5")
	in := func(name string) string { return filepath.Join(h.paths.Sessions, name) }
	if err := unix.Mkfifo(in("1.ref"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, in(".#2abc"), sessionFile)
	write(t, in("3"), strings.Repeat("#\n", maxSessionSize/2)+sessionFile)
	write(t, in("4"), "")
	write(t, in("5"), "\x00\xff=\n\n=\nREMOTE")
	if err := os.Mkdir(in("6"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "session")
	write(t, outside, strings.Replace(sessionFile, "203.0.113.5", "198.51.100.1", 1))
	if err := os.Symlink(outside, in("7")); err != nil {
		t.Fatal(err)
	}
	h.after(0, "203.0.113.5/32")
	if h.said.Len() > 0 {
		t.Errorf("said %s", h.said)
	}
	if err := unix.Mkfifo(h.paths.Utmp, 0o600); err != nil {
		t.Fatal(err)
	}
	h.after(0, "203.0.113.5/32")
	h.after(0, "203.0.113.5/32")
	if got := strings.Count(h.said.String(), "cannot see all SSH sessions"); got != 1 {
		t.Errorf("said %d times:\n%s", got, h.said)
	}
}

// Whoever logs in from many places takes nobody's place away who is logged in.
func TestTooManySessions(t *testing.T) {
	h := newHall(t)
	addrs := func(second byte, n int) map[netip.Addr]struct{} {
		m := map[netip.Addr]struct{}{}
		for i := range n {
			m[netip.AddrFrom4([4]byte{10, second, byte(i >> 8), byte(i)})] = struct{}{}
		}
		return m
	}
	protects := func(second byte) (n int) {
		for a := range h.seen {
			if a.As4()[1] == second {
				n++
			}
		}
		return n
	}
	first := addrs(2, 10)
	h.keep(first, h.now)
	h.keep(addrs(1, maxSessions), h.now.Add(time.Second)) // those before have ended
	if protects(2) != 0 || protects(1) != maxSessions {
		t.Errorf("of those that ended %d, of those that are open %d", protects(2), protects(1))
	}
	both := addrs(1, maxSessions)
	for a := range first {
		both[a] = struct{}{}
	}
	for range 2 {
		h.keep(both, h.now.Add(2*time.Second))
	}
	if protects(2) != 0 || protects(1) != maxSessions {
		t.Errorf("of newcomers %d, of those before %d", protects(2), protects(1))
	}
	if got := strings.Count(h.said.String(), "too many addresses"); got != 1 {
		t.Errorf("said %d times:\n%s", got, h.said)
	}
	h.keep(first, h.now.Add(3*time.Second))
	if protects(2) != len(first) || len(h.seen) != maxSessions {
		t.Errorf("of newcomers %d, of all %d", protects(2), len(h.seen))
	}
}

func TestAlive(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	if !alive(os.Getpid()) || !alive(1) || alive(cmd.Process.Pid) {
		t.Errorf("self %t, 1 %t, one that ended %t", alive(os.Getpid()), alive(1), alive(cmd.Process.Pid))
	}
}

// Sessions are seen as they come, also where the folder and the file appear
// later; a connection to the port of SSH is none.
func TestRunFollowsSessions(t *testing.T) {
	if err := netlab.Available(); err != nil {
		t.Skipf("needs network namespaces: %v", err)
	}
	server, client := newNS(t), newNS(t)
	if err := netlab.Link(server, netip.MustParsePrefix("203.0.113.1/24"), client, netip.MustParsePrefix("203.0.113.5/24")); err != nil {
		t.Fatal(err)
	}
	sshd, err := server.Listen("tcp", "203.0.113.1:22")
	if err != nil {
		t.Fatal(err)
	}
	defer sshd.Close()
	c, err := client.Dialer()(t.Context(), "tcp", "203.0.113.1:22")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stranger, err := sshd.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()

	h := newHall(t)
	h.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.Run(ctx)
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	protects := func(want ...string) {
		t.Helper()
		end := time.After(20 * time.Second)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for !slices.Equal(h.protected(), want) {
			select {
			case <-end:
				t.Fatalf("protected: %v, want %v", h.protected(), want)
			case <-tick.C:
			}
		}
	}
	h.opens(1, "203.0.113.6")
	stop := run()
	protects("203.0.113.6/32") // and not who is merely connected
	h.opens(2, "203.0.113.5")
	protects("203.0.113.5/32", "203.0.113.6/32")
	stop()

	of := func(addr string) []byte { return record{7, 1, "pts/0", "", addr}.bytes(layoutOf(0, "")) }
	write(t, h.paths.Utmp, string(of("203.0.113.7")))
	stop = run()
	protects("203.0.113.5/32", "203.0.113.6/32", "203.0.113.7/32")
	write(t, h.paths.Utmp, string(slices.Concat(of("203.0.113.7"), of("203.0.113.8"))))
	protects("203.0.113.5/32", "203.0.113.6/32", "203.0.113.7/32", "203.0.113.8/32")
	stop()
}

func newNS(t *testing.T) *netlab.NS {
	t.Helper()
	ns, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// What appears later is watched from then on.
func TestNotifyOfWhatComesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	n := newNotify(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer n.close()
	wakes := func(what string, do func() error) {
		t.Helper()
		select {
		case <-n.changed: // by what was before
		default:
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-n.changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("not woken by %s", what)
		}
	}
	file := filepath.Join(dir, "1")
	create := func() error { return os.WriteFile(file, nil, 0o644) }
	n.follow(dir, "")
	for range 2 {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		n.follow(dir, "")
		wakes("a file", create)
		wakes("the folder's end", func() error { return os.RemoveAll(dir) })
		// The watch is forgotten with its last event.
		end := time.Now().Add(20 * time.Second)
		for len(n.w.WatchList()) > 0 {
			if time.Now().After(end) {
				t.Fatal("the folder's end is not noticed")
			}
			select {
			case <-n.changed:
			case <-time.After(time.Millisecond):
			}
		}
	}
}
