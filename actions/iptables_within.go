//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"
)

const (
	// endAgain is how far apart a program that should end is looked for, and
	// endPatience for how long that is waited for. Something that has left the
	// program behind, and is not to be found, may hold its output for longer.
	endAgain    = 50 * time.Millisecond
	endPatience = time.Second
)

var errStillRuns = errors.New("an earlier run was ended for its time, but something it has started still holds its output: no change is made until that ends")

// IptablesRuns counts, by program, the runs that go on and that nobody waits for.
// Whoever uses the program next has to know, be it another action: all of a process
// share one. The zero value is ready.
type IptablesRuns struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *IptablesRuns) add(path string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	if c.n[path] += n; c.n[path] == 0 {
		delete(c.n, path)
	}
}

func (c *IptablesRuns) of(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[path] > 0
}

// within makes changes by go-iptables.
func (tool *iptablesOf) within(ctx context.Context, change func(*iptables.IPTables) error) error {
	return tool.bounded(ctx, func() error { return change(tool.ipt) })
}

// bounded calls go-iptables, which waits for its program however long that takes.
// What takes too long is ended, with all that it has started. A call that doesn't
// return even so is left, and there is no other before it does: nobody knows what
// it may still change.
func (tool *iptablesOf) bounded(ctx context.Context, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if tool.left.of(tool.path) {
		return fmt.Errorf("running %s: %w", tool.path, errStillRuns)
	}
	limited, cancel := context.WithTimeout(ctx, tool.limit)
	defer cancel()
	began, done := make(chan *forker, 1), make(chan error, 1)
	go apart(func() {
		done <- inNetNS(tool.netNS, func() error {
			runtime.LockOSThread() // what it starts are children of this thread
			defer runtime.UnlockOSThread()
			began <- newForker()
			return call()
		})
	})
	var err error
	select {
	case err = <-done:
	case <-limited.Done():
		err = tool.end(began, done)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return fmt.Errorf("running %s: %w after %v", tool.path, errTooLong, tool.limit)
	}
	return err
}

// end ends what a call has started, until the call returns or that takes too long.
func (tool *iptablesOf) end(began <-chan *forker, done <-chan error) error {
	var f *forker
	select {
	case err := <-done:
		return err
	case f = <-began:
	}
	enough := time.NewTimer(endPatience)
	defer enough.Stop()
	tick := time.NewTicker(endAgain) // it may be about to be started
	for {
		f.endChildren()
		select {
		case err := <-done:
			tick.Stop()
			return err
		case <-tick.C:
			continue
		case <-enough.C:
		}
		break
	}
	tool.left.add(tool.path, 1)
	tick.Reset(endPatience)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-done:
				tool.left.add(tool.path, -1)
				return
			case <-tick.C:
				f.endChildren()
			}
		}
	}()
	return errTooLong
}

// apart calls f on a thread other than the first one, which is given the orphans
// where we are the first process: these are nobody's to end.
func apart(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}
