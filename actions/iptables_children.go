//go:build linux

package actions

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// forker is a thread that starts programs, and has those that it had started
// before. Children are listed by thread: what other goroutines run is not touched.
type forker struct {
	list   string // the file with its children
	before []int
}

// newForker is the calling thread, which must be locked.
func newForker() *forker {
	f := &forker{list: "/proc/self/task/" + strconv.Itoa(unix.Gettid()) + "/children"}
	f.before = pidsIn(f.list)
	return f
}

// endChildren ends what the thread has started, and all that these have.
func (f *forker) endChildren() {
	for _, pid := range pidsIn(f.list) {
		if slices.Contains(f.before, pid) {
			continue
		}
		family := stopped(pid)
		for _, p := range family {
			_ = unix.Kill(p, unix.SIGKILL) // it may have ended by itself
		}
	}
}

// stopped stops a process and its descendants, and lists them: what stands still
// starts nothing that could be overlooked.
func stopped(pid int) (family []int) {
	for n := -1; len(family) != n; {
		n = len(family)
		for _, p := range append(descendants(pid), pid) {
			if !slices.Contains(family, p) {
				_ = unix.Kill(p, unix.SIGSTOP)
				family = append(family, p)
			}
		}
	}
	return family
}

func descendants(pid int) (pids []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // the pattern is a good one
	for _, name := range files {
		for _, c := range pidsIn(name) {
			pids = append(append(pids, descendants(c)...), c)
		}
	}
	return pids
}

func pidsIn(name string) (pids []int) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil // the thread is gone
	}
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}
