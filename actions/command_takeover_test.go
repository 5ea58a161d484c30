//go:build linux

package actions_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailban/tailban/actions"
)

// What an action could not take out is overdue until another one, of the same
// programs, that has taken over from it has taken it out: also for those that came in
// their place since.
func TestCommandTakesOver(t *testing.T) {
	t.Parallel()
	works := filepath.Join(t.TempDir(), "works")
	a, b := sh(t, "test -e "+works), []string{"/bin/true"}
	made := func(unban []string, before *actions.Command) *actions.Command {
		c, err := actions.NewCommand(actions.CommandOptions{Ban: []string{"/bin/true"}, Unban: unban, Before: before})
		check(t, err)
		return c
	}
	stuck := []netip.Prefix{pfx("192.0.2.1/32")}
	first := made(a, nil)
	first.Remember(stuck)
	if err := first.Apply(t.Context(), nil, stuck); err == nil {
		t.Fatal("it could be taken out")
	}
	again := made(a, made(b, first))
	last := made(b, again)
	again.Remember(stuck)
	again.TakeOver(first)
	if n := last.Overdue().Count; n != 1 {
		t.Errorf("%d bans are overdue before, want 1", n)
	}
	check(t, os.WriteFile(works, nil, 0o600))
	if n, err := actions.UnbanAll(t.Context(), again); n != 1 || err != nil {
		t.Errorf("%d bans taken out, %v", n, err)
	}
	if n := last.Overdue().Count; n != 0 {
		t.Errorf("%d bans are overdue after, want 0", n)
	}
}
