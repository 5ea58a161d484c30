//go:build linux

package actions_test

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/syncbuf"
)

// What somebody else takes out is put in again, also by an action that can only
// be asked for single targets.
func TestCommandCheckReconciles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `: > "$1/$2"`, dir, "{address}"), Unban: sh(t, `rm "$1/$2"`, dir, "{address}"),
		Check: sh(t, `test -e "$1/$2"`, dir, "{address}"),
	})
	r := actions.NewReconciler(actions.Options{Name: "test", Action: c.Action(), Interval: 100 * time.Millisecond})
	for _, e := range hosts(10) {
		r.Set(e.Target, time.Now().Add(e.Left))
	}
	runBeside(t, r.Run)
	there := func(name string) bool { _, err := os.Stat(dir + "/" + name); return err == nil }
	within(t, "the bans", func() bool { return there("10.1.0.9") && r.Stats().Pending == 0 && r.Stats().Passes > 0 })
	check(t, os.Remove(dir+"/10.1.0.3"))
	within(t, "it to be put in again", func() bool { return there("10.1.0.3") && r.Stats().DriftAdded == 1 })
	passes := r.Stats().Passes
	within(t, "some more full passes", func() bool { return r.Stats().Passes > passes+3 })
	if s := r.Stats(); s.Failing || s.DriftAdded != 1 || s.DriftRemoved+s.DriftCorrected > 0 {
		t.Errorf("stats are %+v", s)
	}
}

// Many targets are asked for in turn, some at a time.
func TestCommandChecksInTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: success, Batch: 1000, Check: sh(t, `echo "$2" >> "$1/asked"`, dir, "{address}"),
	})
	apply(t, c, hosts(310)...)
	asked := func(want int) (all []string) {
		t.Helper()
		within(t, "the checks", func() bool {
			text, _ := os.ReadFile(dir + "/asked")
			all = strings.Fields(string(text))
			return len(all) >= want
		})
		if len(all) > want {
			t.Fatalf("%d were asked for, want %d", len(all), want)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	listed(t, c)
	if n := len(asked(300)); n != 300 {
		t.Errorf("%d of 310 were asked for after one full pass", n)
	}
	listed(t, c)
	if n := len(asked(600)); n != 310 {
		t.Errorf("%d of 310 were asked for after two full passes", n)
	}
}

// What is banned anew while it is asked for, or can't be told, is not taken for
// gone.
func TestCommandCheckAndBanAtOnce(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(syncbuf.Buffer)
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: success, Log: slog.New(slog.NewTextHandler(log, nil)),
		Check: sh(t, `echo >> "$1/asked"; while [ ! -e "$1/go" ]; do sleep 0.01; done; read status < "$1/go"; exit $status`, dir),
	})
	asked := func() int { text, _ := os.ReadFile(dir + "/asked"); return len(text) }
	apply(t, c, ban("192.0.2.1/32", time.Hour))
	listed(t, c)
	within(t, "it is asked for", func() bool { return asked() == 1 })
	apply(t, c, ban("192.0.2.1/32", 2*time.Hour))
	answer := func(status string) {
		check(t, os.WriteFile(dir+"/new", []byte(status+"\n"), 0o600))
		check(t, os.Rename(dir+"/new", dir+"/go"))
	}
	answer("1")
	within(t, "the next round, by which it is gone as nothing has changed", func() bool { return len(listed(t, c)) == 0 })
	if n := asked(); n != 2 {
		t.Errorf("it was asked for %d times, want 2", n)
	}
	answer("2")
	apply(t, c, ban("192.0.2.1/32", time.Hour))
	listed(t, c)
	within(t, "it is said that it can't be told", func() bool {
		return strings.Contains(log.String(), "can't look whether bans are still there") && strings.Contains(log.String(), "check 192.0.2.1/32: /bin/sh: exit status 2")
	})
	if got := listed(t, c); len(got) != 1 {
		t.Errorf("lists %v", got)
	}
}
