//go:build linux

package actions

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNetNS runs f on a thread inside a network namespace, so that programs that
// f starts and files below /proc that it opens are of that one. netNS is a
// descriptor of it; 0: our own.
func inNetNS(netNS int, f func() error) error {
	if netNS == 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- enterNetNS(netNS, f) }()
	return <-done
}

// enterNetNS gives the thread up if it cannot be brought back: a goroutine that
// ends while locked takes its thread along.
func enterNetNS(netNS int, f func() error) error {
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open the current network namespace: %w", err)
	}
	defer back.Close()
	if err := unix.Setns(netNS, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	defer func() {
		if unix.Setns(int(back.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}
