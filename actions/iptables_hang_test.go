//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// hangable is iptables by programs that hang as long as a file is there, with what
// they have started.
type hangable struct {
	*testing.T
	ns     *netlab.NS
	action *actions.Iptables
	dir    string
	runs   actions.IptablesRuns
}

func newHangable(t *testing.T) *hangable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Skip("needs iptables: ", err)
	}
	h := &hangable{T: t, ns: newNS(t), dir: t.TempDir()}
	for _, name := range []string{"iptables", "ip6tables"} {
		program(t, h.dir, name, fmt.Sprintf(`if [ -e %[1]s/hang ]; then sleep 1000 & echo $! > %[1]s/pid.new; mv %[1]s/pid.new %[1]s/pid; wait; fi
exec %[2]s-nft "$@"`, h.dir, name))
	}
	h.action = preparedIptables(t, h.ns, actions.IptablesOptions{Path: filepath.Join(h.dir, "iptables"), Runs: &h.runs})
	return h
}

// other is another action by the same programs.
func (h *hangable) other() *actions.Iptables {
	a := actions.NewIptables(actions.IptablesOptions{
		Chain: "OTHER", Prefix: "other", Path: filepath.Join(h.dir, "iptables"), Runs: &h.runs, NetNS: h.ns.FD(),
	})
	h.Cleanup(func() { check(h.T, a.Close()) })
	return a
}

func (h *hangable) hang() { check(h.T, os.WriteFile(h.dir+"/hang", nil, 0o600)) }

// hangs waits until a program does, and returns the number of what it has started.
func (h *hangable) hangs() (pid int) {
	h.Helper()
	until(h.T, "a program to hang", func() bool {
		b, err := os.ReadFile(h.dir + "/pid")
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	})
	return pid
}

func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// Whoever asks how it is doesn't wait for a program that hangs. Who gives up has it
// end, with all that it has started.
func TestIptablesHangs(t *testing.T) {
	t.Parallel()
	h := newHangable(t)
	h.hang()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.action.Prepare(ctx) }()
	pid := h.hangs()
	h.action.Repairs()
	h.action.Contested()
	select {
	case err := <-done:
		t.Fatal("it did not hang: ", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Prepare returned %v", err)
	}
	until(t, "what the program has started to end", func() bool { return !runs(pid) })
	check(t, os.Remove(h.dir+"/hang"))
	check(t, h.action.Prepare(t.Context()))
}

// A program that hangs by itself is ended after a while, and said. Bans get into
// the sets all the same, which the rules look into as long as these are there.
func TestIptablesHangsForLong(t *testing.T) {
	t.Parallel()
	h := newHangable(t)
	actions.LosePatience(h.action, 2*time.Second)
	r := actions.NewReconciler(actions.Options{Name: "iptables", Action: h.action, Interval: 20 * time.Millisecond, MinBackoff: time.Minute})
	runBeside(t, r.Run)
	until(t, "it to work", func() bool { return r.Stats().Passes > 0 })
	h.hang()
	pid := h.hangs()
	r.Set(pfx("192.0.2.1/32"), time.Now().Add(time.Hour))
	looker := newIptables(t, h.ns, actions.IptablesOptions{})
	has := func(target string) func() bool {
		return func() bool { _, yes, err := looker.Held(t.Context(), pfx(target)); return err == nil && yes }
	}
	until(t, "the ban", has("192.0.2.1/32"))
	until(t, "it to be said", func() bool { return r.Stats().Failing })
	if s := r.Stats(); !strings.Contains(s.Err.Error(), "took too long and was ended after 2s") || !strings.Contains(s.Err.Error(), "does it hang?") {
		t.Errorf("it says %v", s.Err)
	}
	until(t, "what the program has started to end", func() bool { return !runs(pid) })
	r.Set(pfx("192.0.2.2/32"), time.Now().Add(time.Hour)) // while it rests
	until(t, "a ban meanwhile", has("192.0.2.2/32"))
}

// Whoever is ended, others that run the same program at that time are not.
func TestIptablesEndsNoRunOfOthers(t *testing.T) {
	t.Parallel()
	h := newHangable(t)
	for _, name := range []string{"iptables", "ip6tables"} {
		program(t, h.dir, name, fmt.Sprintf(`case "$*" in
*-N*HUNG*) touch %[1]s/hangs; sleep 1000;;
*-S*) if [ -e %[1]s/slow ]; then touch %[1]s/lists; while [ -e %[1]s/slow ]; do sleep 0.05; done; fi;;
esac
exec %[2]s-nft "$@"`, h.dir, name))
	}
	exists := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(h.dir, name)); return err == nil }
	}
	path, others := filepath.Join(h.dir, "iptables"), newNS(t)
	hung := newIptables(t, others, actions.IptablesOptions{Path: path, Chain: "HUNG", Prefix: "hung"})
	actions.LosePatience(hung, 2*time.Second)
	ended, fine := make(chan error, 1), make(chan error, 1)
	go func() { ended <- hung.Prepare(t.Context()) }()
	until(t, "one to hang", exists("hangs"))
	check(t, os.WriteFile(h.dir+"/slow", nil, 0o600))
	go func() { fine <- h.action.Prepare(t.Context()) }()
	until(t, "another to list", exists("lists"))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("what hangs: %v", err)
	}
	check(t, os.Remove(h.dir+"/slow"))
	check(t, <-fine)
}

// A program that ends but leaves something that holds its output is not waited for,
// and nothing is changed as long as that is there.
func TestIptablesLeavesSomethingBehind(t *testing.T) {
	t.Parallel()
	h := newHangable(t)
	actions.LosePatience(h.action, 2*time.Second)
	for _, name := range []string{"iptables", "ip6tables"} {
		program(t, h.dir, name, fmt.Sprintf(`case "$*" in *-I*) if [ ! -e %[1]s/pid ]; then sleep 1000 & echo $! > %[1]s/pid.new; mv %[1]s/pid.new %[1]s/pid; fi;; esac
exec %[2]s-nft "$@"`, h.dir, name))
	}
	do(t, h.ns, "iptables-nft -F INPUT")
	began := time.Now()
	err := h.action.Prepare(t.Context())
	pid := h.hangs()
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	if err == nil || !strings.Contains(err.Error(), "took too long") || !runs(pid) {
		t.Fatalf("Prepare returned %v, and what was left behind runs: %v", err, runs(pid))
	}
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("it took %v", d)
	}
	do(t, h.ns, "iptables-nft -F INPUT")
	if err := h.action.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "still holds its output") {
		t.Errorf("Prepare after that: %v", err)
	}
	other := h.other()
	if err := other.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "still holds its output") {
		t.Errorf("Prepare of another action: %v", err)
	}
	check(t, unix.Kill(pid, unix.SIGKILL))
	until(t, "it to work again", func() bool { return h.action.Prepare(t.Context()) == nil })
}
