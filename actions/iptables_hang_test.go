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
	h.action = preparedIptables(t, h.ns, actions.IptablesOptions{Path: filepath.Join(h.dir, "iptables")})
	return h
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
