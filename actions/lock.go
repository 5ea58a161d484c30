//go:build linux

package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/sleep"
)

// ErrTableBusy is wrapped by the error of LockTable and LockIptables if another
// daemon holds what they lock.
var ErrTableBusy = errors.New("another tailban daemon is running")

// TableLock keeps other daemons of ours from a table, or a chain and sets, until
// Close or the end of the process, however it ends.
type TableLock struct {
	listeners []net.Listener // none: not held, see Warning
	warning   string
}

const (
	lockTries = 20 // a holder may be between bind and listen, or be closing it
	lockPause = 50 * time.Millisecond
)

// LockTable locks a table of family inet in the network namespace of the
// calling thread. The lock is an abstract Unix socket: their names belong to
// a network namespace exactly as tables do, and leave no file behind.
//
// Anybody may take such a name. Only a holder counts that is root, our own
// user, or has the capability that it takes to change a table; if somebody
// else sits on it, LockTable goes on without and the lock's Warning says so.
// Neither can such a user keep us from starting, nor one who is root in a user
// namespace of his own.
func LockTable(table string) (*TableLock, error) {
	return lock("inet/"+table, "table inet "+table, "configure another table")
}

// LockIptables is LockTable for the chain and the sets that the options name.
func LockIptables(opt IptablesOptions) (*TableLock, error) {
	return LockIptablesPart(opt, IptablesChain|IptablesSets)
}

// LockIptablesPart is LockIptables for a part.
func LockIptablesPart(opt IptablesOptions, part IptablesPart) (_ *TableLock, err error) {
	opt = opt.withDefaults()
	chain, sets := &TableLock{}, &TableLock{}
	if part&IptablesChain != 0 {
		if chain, err = lock("iptables/"+opt.Chain, "iptables chain "+opt.Chain, "configure another chain"); err != nil {
			return nil, err
		}
	}
	if part&IptablesSets != 0 {
		if sets, err = lock("ipset/"+opt.Prefix, "the IP sets of "+opt.Prefix, "configure another prefix"); err != nil {
			return nil, errors.Join(err, chain.Close())
		}
	}
	return &TableLock{
		listeners: append(chain.listeners, sets.listeners...),
		warning:   strings.Join(slices.DeleteFunc([]string{chain.warning, sets.warning}, func(s string) bool { return s == "" }), "; "),
	}, nil
}

// lock takes the socket of a name for what it stands for.
func lock(name, what, hint string) (*TableLock, error) {
	name = "@tailban/" + name
	for try := 1; ; try++ {
		l, err := net.Listen("unix", name)
		if err == nil {
			return &TableLock{listeners: []net.Listener{l}}, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("lock %s: %w", what, err)
		}
		cred, err := holder(name)
		switch {
		case err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid() || canChangeTables(int(cred.Pid), cred.Uid)):
			return nil, fmt.Errorf("lock %s: %w as process %d (stop it, or %s)", what, ErrTableBusy, cred.Pid, hint)
		case err == nil:
			return &TableLock{warning: fmt.Sprintf("process %d of user %d sits on the socket %s, which is ours to lock %s: going on without the lock",
				cred.Pid, cred.Uid, name, what)}, nil
		case try == lockTries:
			return &TableLock{warning: fmt.Sprintf("somebody sits on the socket %s, which is ours to lock %s, and does not answer (%v): going on without the lock",
				name, what, err)}, nil
		}
		sleep.For(context.Background(), lockPause)
	}
}

// canChangeTables reports whether a process of a user has CAP_NET_ADMIN where
// it counts, as far as we may look at it: where we may not, it has not.
//
// In a user namespace of his own anybody has all capabilities, over what is in
// there alone. The namespace is looked at last: into ours from such a one there
// is no way back. It is told by its map of users, which anybody may read, other
// than its name, and nobody without privileges gives his own one like ours.
func canChangeTables(pid int, uid uint32) bool {
	proc, err := os.OpenRoot(fmt.Sprintf("/proc/%d", pid)) // this process, even if its number is used again
	if err != nil {
		return false
	}
	defer proc.Close()
	status, err := proc.ReadFile("status")
	if err != nil || !hasNetAdmin(string(status), uid) {
		return false
	}
	theirs, err := proc.ReadFile("uid_map")
	if err != nil {
		return false
	}
	ours, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && bytes.Equal(theirs, ours)
}

// hasNetAdmin reads /proc/PID/status. A process that took the name as one user
// and runs as another now has begun a setuid program since (sudo, which waits
// for a password), whose capabilities are not its user's.
func hasNetAdmin(status string, uid uint32) bool {
	same, capable := false, false
	for line := range strings.Lines(status) {
		name, text, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(text); name {
		case "Uid": // real, effective, saved, and that for files
			user := strconv.FormatUint(uint64(uid), 10)
			same = len(fields) == 4 && !slices.ContainsFunc(fields, func(f string) bool { return f != user })
		case "CapEff":
			caps, err := strconv.ParseUint(strings.Join(fields, ""), 16, 64)
			capable = err == nil && caps&(1<<unix.CAP_NET_ADMIN) != 0
		}
	}
	return same && capable
}

// holder asks who listens at an abstract socket. The kernel answers, not the
// holder.
func holder(name string) (*unix.Ucred, error) {
	c, err := net.Dial("unix", name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return nil, fmt.Errorf("read the peer's credentials: %w", err)
	}
	return cred, nil
}

// Warning says why the lock is not held, or nothing if it is.
func (l *TableLock) Warning() string { return l.warning }

// Close unlocks it. A program that is being started has all that is open until it
// runs, and with it our socket: shut down, it no longer answers as a holder's does,
// and lock tries until it is gone.
func (l *TableLock) Close() error {
	var errs []error
	for _, x := range l.listeners {
		raw, err := x.(*net.UnixListener).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		}
		errs = append(errs, err, x.Close())
	}
	l.listeners = nil
	return errors.Join(errs...)
}
