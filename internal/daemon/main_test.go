package daemon

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tailban/tailban/internal/parallel"
)

// childEnv names the configuration of the daemon that the test binary runs
// instead of tests, when it has started itself.
const childEnv = "TAILBAN_TEST_DAEMON"

// snapshotsEnv says how far apart its snapshots are, if not as far as always.
const snapshotsEnv = "TAILBAN_TEST_SNAPSHOTS"

// The tracker of nxadm/tail, and the inotify reader below it, live as long as
// the process.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(runChild(path))
	}
	if err := parallel.Tests(3); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nxadm/tail/watch.(*InotifyTracker).run"),
		goleak.IgnoreAnyFunction("github.com/fsnotify/fsnotify.(*Watcher).readEvents"),
	)
}
