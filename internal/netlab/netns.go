//go:build linux

// Package netlab makes small networks out of Linux network namespaces, for
// tests against a real kernel and for demonstrations. Nothing outside of the
// namespaces it makes is touched, and no program is called.
//
// It needs CAP_SYS_ADMIN and CAP_NET_ADMIN, as root has them, or anybody in a
// user namespace of their own (unshare -rn).
package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NS is a network namespace. It lives until Close, and beyond that as long as
// a process or a socket in it does. Its methods may be called from several
// goroutines.
type NS struct {
	file  *os.File
	inUse sync.RWMutex // read-locked while something is done inside

	mu    sync.Mutex
	links int // made so far, for their names
}

// Available returns nil if namespaces can be made here, or else why not.
func Available() error {
	n, err := New()
	if err != nil {
		return err
	}
	return n.Close()
}

// New makes a namespace of its own with nothing in it but the loopback
// interface, which is up.
func New() (*NS, error) {
	file, err := unshare()
	if err != nil {
		return nil, err
	}
	n := &NS{file: file}
	if err := n.Do(func() error { return linkUp("lo") }); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// unshare opens a new namespace. The thread that made it is not used for
// anything else: a goroutine that ends while locked takes its thread along.
func unshare() (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	c := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			c <- result{err: fmt.Errorf("make a network namespace: %w", hint(err))}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			err = fmt.Errorf("open the new network namespace: %w", err)
		}
		c <- result{f, err}
	}()
	r := <-c
	return r.file, r.err
}

func hint(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w (run as root or under unshare -rn)", err)
	}
	return err
}

// FD returns a descriptor of the namespace, valid until Close.
func (n *NS) FD() int { return int(n.file.Fd()) }

// Close lets go of the namespace, once nothing is done in it any more.
func (n *NS) Close() error {
	n.inUse.Lock()
	defer n.inUse.Unlock()
	return n.file.Close()
}

// errExit is what Do returns if f left by runtime.Goexit, as t.FailNow does.
var errExit = errors.New("the function ended its goroutine instead of returning")

// Do runs f on an operating system thread inside the namespace and returns
// its error. Sockets that f opens and processes that it starts belong to the
// namespace for good; goroutines that it starts do not run in it. f runs on a
// goroutine of its own: it must not call t.FailNow and the like.
//
// Where the thread cannot be brought back, it is given up, never reused.
func (n *NS) Do(f func() error) error {
	n.inUse.RLock()
	defer n.inUse.RUnlock()
	c := make(chan error, 1)
	go func() {
		err := errExit
		defer func() { c <- err }()
		err = n.onThread(f)
	}()
	return <-c
}

// onThread locks the calling goroutine to a thread in the namespace around f.
func (n *NS) onThread(f func() error) error {
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open the current network namespace: %w", err)
	}
	defer back.Close()
	if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the network namespace: %w", hint(err))
	}
	defer func() {
		if unix.Setns(int(back.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// Start starts cmd inside the namespace; see [exec.Cmd.Start].
func (n *NS) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// linkUp sets an interface of the calling thread's namespace up.
func linkUp(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set interface %s up: %w", name, err)
	}
	return nil
}
