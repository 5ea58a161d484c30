//go:build linux

package actions

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"
)

// endAgain is how far apart a program that should end is looked for.
const endAgain = 50 * time.Millisecond

// within makes changes by go-iptables, which waits for its program however long
// that takes. What takes too long is ended, with all that it has started.
func (tool *iptablesOf) within(ctx context.Context, change func(*iptables.IPTables) error) error {
	limited, cancel := context.WithTimeout(ctx, tool.limit)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-done:
			return
		case <-limited.Done():
		}
		tick := time.NewTicker(endAgain) // it may be about to be started
		defer tick.Stop()
		for {
			endChildren(tool.path)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	err := change(tool.ipt)
	close(done)
	<-watched
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

// endChildren ends the processes that we have started of a program, and theirs.
func endChildren(path string) {
	for _, pid := range childrenOf("self") {
		if !slices.Contains(firstArgs(pid), path) {
			continue
		}
		for _, p := range append(descendants(pid), pid) {
			_ = unix.Kill(p, unix.SIGKILL) // it may have ended by itself
		}
	}
}

// firstArgs are the first two arguments of a process: a script's second one is the
// script.
func firstArgs(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil // it is gone
	}
	args := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	return args[:min(2, len(args))]
}

// childrenOf lists the children of a process: of all its threads.
func childrenOf(pid string) (pids []int) {
	files, _ := filepath.Glob("/proc/" + pid + "/task/*/children") // the pattern is a good one
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread is gone
		}
		for _, f := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

func descendants(pid int) (pids []int) {
	for _, c := range childrenOf(strconv.Itoa(pid)) {
		pids = append(append(pids, descendants(c)...), c)
	}
	return pids
}
