//go:build linux

package actions_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childEnv selects what the test binary does instead of testing, when it has
// started itself as a process with other rights.
const childEnv = "TAILBAN_TEST_CHILD"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fakeFirewall {
		unix.Exit(runFakeFirewall(os.Args[2:])) // os.Exit takes a second with the race detector
	}
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(runChild(name))
	}
	goleak.VerifyTestMain(m)
}
