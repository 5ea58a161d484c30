//go:build linux

package actions_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

func lockIn(ns *netlab.NS, table string) (*actions.TableLock, error) {
	var l *actions.TableLock
	err := ns.Do(func() (err error) {
		l, err = actions.LockTable(table)
		return err
	})
	return l, err
}

func mustLock(t *testing.T, ns *netlab.NS, table string) *actions.TableLock {
	t.Helper()
	l, err := lockIn(ns, table)
	check(t, err)
	if l.Warning() != "" {
		t.Fatal("not held: ", l.Warning())
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLockTable(t *testing.T) {
	t.Parallel()
	a, b := newNS(t), newNS(t)
	first := mustLock(t, a, "tailban")
	_, err := lockIn(a, "tailban")
	if !errors.Is(err, actions.ErrTableBusy) {
		t.Fatalf("a second lock returned %v, want ErrTableBusy", err)
	}
	for _, part := range []string{"inet tailban", fmt.Sprint("process ", os.Getpid())} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	mustLock(t, a, "another")
	mustLock(t, b, "tailban") // tables are per network namespace, and so are locks
	check(t, first.Close())
	mustLock(t, a, "tailban")
}

// Root's daemon keeps out one of another user.
func TestLockHeldByRoot(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	mustLock(t, ns, "tailban")
	if out := runAs(t, ns, "lock", false); !strings.Contains(out, actions.ErrTableBusy.Error()) {
		t.Errorf("another user's process says %q, want that the table is busy", out)
	}
}

// Any user may take the name; that must not keep the daemon from starting. Nor
// must one who is root in a user namespace of his own.
func TestLockSquattedByAnotherUser(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"squat", "squatAsRoot"} {
		t.Run(name, func(t *testing.T) {
			ns := newNS(t)
			cmd := child(t, name, false)
			in, err := cmd.StdinPipe()
			check(t, err)
			out, err := cmd.StdoutPipe()
			check(t, err)
			start(t, ns, cmd)
			t.Cleanup(func() { in.Close(); cmd.Wait() })
			line, err := bufio.NewReader(out).ReadString('\n')
			if strings.HasPrefix(line, noUserNamespace) {
				t.Skip(line)
			}
			if err != nil || line != "locked\n" {
				t.Fatalf("the squatter says %q, %v", line, err)
			}
			l, err := lockIn(ns, "tailban")
			check(t, err)
			defer l.Close()
			for _, part := range []string{"process ", "user 65534", "without the lock"} {
				if !strings.Contains(l.Warning(), part) {
					t.Errorf("the warning does not say %q: %s", part, l.Warning())
				}
			}
			if pid := fmt.Sprint("process ", cmd.Process.Pid); name == "squat" && !strings.Contains(l.Warning(), pid) {
				t.Errorf("the warning does not say %q: %s", pid, l.Warning())
			}
		})
	}
}

// A daemon of another user counts that may change the table.
func TestLockHeldByAnotherUser(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	cmd := child(t, "squat", true)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	start(t, ns, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	if _, err := lockIn(ns, "tailban"); !errors.Is(err, actions.ErrTableBusy) {
		t.Errorf("a second lock returned %v, want ErrTableBusy", err)
	}
}

// A name that is bound and does not listen is nobody's lock.
func TestLockSocketThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	check(t, ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		return unix.Bind(fd, &unix.SockaddrUnix{Name: "@tailban/inet/tailban"})
	}))
	l, err := lockIn(ns, "tailban")
	check(t, err)
	defer l.Close()
	if !strings.Contains(l.Warning(), "does not answer") {
		t.Errorf("the warning is %q", l.Warning())
	}
}

func TestLockErrors(t *testing.T) {
	t.Parallel()
	_, err := lockIn(newNS(t), strings.Repeat("x", 200))
	if err == nil || errors.Is(err, actions.ErrTableBusy) || !strings.Contains(err.Error(), "lock table") {
		t.Errorf("a name that is too long for a socket returned %v", err)
	}
	var op *net.OpError
	if !errors.As(err, &op) {
		t.Errorf("the cause is lost: %v", err)
	}
}
