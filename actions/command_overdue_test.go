//go:build linux

package actions_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/syncbuf"
)

// What can't be taken out at its end is tried again, which is said once, and told
// until it is over.
func TestCommandCannotEnd(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(syncbuf.Buffer)
	told := make(chan actions.Overdue, 10)
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: sh(t, `echo "$2" >> "$1/tries"; test ! -e "$1/bad" || { echo busy; exit 4; }`, dir, "{address}"),
		Log: slog.New(slog.NewTextHandler(log, nil)), OnOverdue: func(o actions.Overdue) { told <- o },
	})
	check(t, os.WriteFile(dir+"/bad", nil, 0o600))
	if o := c.Overdue(); o.Count != 0 || o.Err != nil {
		t.Errorf("overdue before there is a ban: %+v", o)
	}
	apply(t, c, ban("192.0.2.1/32", 50*time.Millisecond), ban("192.0.2.2/32", time.Hour))
	within(t, "a second try", func() bool {
		tries, _ := os.ReadFile(dir + "/tries")
		return bytes.Count(tries, []byte("\n")) >= 2
	})
	const why = "unban 192.0.2.1/32: /bin/sh: exit status 4: busy"
	began := <-told
	if o := c.Overdue(); o.Count != 1 || fmt.Sprint(o.Err) != why || !o.Since.Equal(began.Since) || began.Count != 1 {
		t.Errorf("overdue: %+v, told %+v", o, began)
	}
	for address, want := range map[string]int{"192.0.2.1": 1, "192.0.2.2": 0, "192.0.2.3": 0} {
		if got := c.OverdueAt(netip.MustParseAddr(address)); len(got) != want || want > 0 && got[0].Target != pfx("192.0.2.1/32") {
			t.Errorf("overdue at %s: %v", address, got)
		}
	}
	// It is listed as what ends at any moment, so that it is not taken for drift.
	if e := listed(t, c)["192.0.2.1/32"]; e.Left <= 0 || e.Left > time.Second {
		t.Errorf("listed with %v left", e.Left)
	}
	check(t, os.Remove(dir+"/bad"))
	if o := <-told; o.Count != 0 || o.Err != nil || !o.Since.After(began.Since) {
		t.Errorf("told in the end: %+v", o)
	}
	if got := listed(t, c); len(got) != 1 || len(told) > 0 {
		t.Errorf("holds %v, told %d times more", got, len(told))
	}
	if n := strings.Count(log.String(), "bans that are over are still enforced"); n != 1 || !strings.Contains(log.String(), why) ||
		!strings.Contains(log.String(), "no ban is enforced beyond its end") {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// What is overdue and then gone from the listing, or banned again, is not overdue.
func TestCommandNoLongerOverdue(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"listed no more", "banned again"} {
		dir := t.TempDir()
		c := newCommand(t, actions.CommandOptions{
			Ban: sh(t, `: > "$1/$2"`, dir, "{address}"), Unban: []string{"/bin/false"}, List: sh(t, `ls "$1"`, dir),
		})
		apply(t, c, ban("192.0.2.1/32", 50*time.Millisecond))
		within(t, "it is overdue", func() bool { return c.Overdue().Count == 1 })
		if how == "banned again" {
			apply(t, c, ban("192.0.2.1/32", time.Hour))
		} else {
			check(t, os.Remove(dir+"/192.0.2.1"))
		}
		within(t, how+": no longer overdue", func() bool {
			listed(t, c) // another try to take it out may go on meanwhile
			return c.Overdue().Count == 0 && len(c.OverdueAt(netip.MustParseAddr("192.0.2.1"))) == 0
		})
	}
}

// What was overdue when another one was let go of is told to be over, when it has
// been tried.
func TestCommandWasOverdue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/192.0.2.1", nil, 0o600))
	told := make(chan actions.Overdue, 10)
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: sh(t, `test -e "$1.let-go" && rm "$1/$2"`, dir, "{address}"), List: sh(t, `ls "$1"`, dir),
		OnOverdue: func(o actions.Overdue) { told <- o }, WasOverdue: true,
	})
	listed(t, c) // as a full pass begins
	remove := []netip.Prefix{pfx("192.0.2.1/32")}
	if err := c.Apply(t.Context(), nil, remove); err == nil || len(told) > 0 {
		t.Errorf("still stuck: %v, told %d times", err, len(told))
	}
	check(t, os.WriteFile(dir+".let-go", nil, 0o600))
	check(t, c.Apply(t.Context(), nil, remove))
	if o := <-told; o.Count != 0 {
		t.Errorf("told %+v", o)
	}
	if listed(t, c); len(told) > 0 {
		t.Error("told again")
	}
}

// A removal that always fails, for one target alone or for all, is given up and
// told as overdue. It holds up no ban, and is tried again.
func TestCommandStuckRemoval(t *testing.T) {
	t.Parallel()
	for _, stuck := range []string{"203.0.113.5", "*"} {
		dir := t.TempDir()
		for _, name := range []string{"203.0.113.5", "203.0.113.6"} {
			check(t, os.WriteFile(dir+"/"+name, nil, 0o600))
		}
		c := newCommand(t, actions.CommandOptions{
			Ban:   sh(t, `: > "$1/$2"`, dir, "{address}"),
			Unban: sh(t, `[ -e "$1.let-go" ] || case $2 in `+stuck+`) exit 4 ;; esac; rm "$1/$2"`, dir, "{address}"),
			List:  sh(t, `ls "$1"`, dir),
		})
		// An interval and a pause after failures so long that no ban of below is
		// due to them.
		r := actions.NewReconciler(actions.Options{Name: "x", Action: c.Action(), MinBackoff: time.Millisecond, MaxBackoff: time.Hour, Interval: time.Hour})
		runBeside(t, r.Run)
		within(t, "it is given up", func() bool { s := r.Stats(); return s.Passes > 0 && !s.Failing && c.Overdue().Count > 0 })
		want := 1
		if stuck == "*" {
			want = 2
		}
		if o := c.Overdue(); o.Count != want || !strings.HasPrefix(o.Err.Error(), "unban 203.0.113.5/32: /bin/sh: exit status 4") {
			t.Errorf("%s: overdue: %+v", stuck, o)
		}
		r.Set(pfx("198.51.100.1/32"), time.Now().Add(time.Hour))
		within(t, "a new ban", func() bool { _, err := os.Stat(dir + "/198.51.100.1"); return err == nil })
		if s := r.Stats(); s.Failing || s.DriftRemoved > 0 || s.Misheld > 0 {
			t.Errorf("%s: stats are %+v", stuck, s)
		}
		check(t, os.WriteFile(dir+".let-go", nil, 0o600))
		r.Cap(time.Now().Add(time.Minute)) // has all compared
		within(t, "another full pass takes it out", func() bool { return c.Overdue().Count == 0 && firewallIs(dir, "198.51.100.1") })
	}
}

func firewallIs(dir string, names ...string) bool {
	files, err := os.ReadDir(dir)
	return err == nil && slices.EqualFunc(files, names, func(f os.DirEntry, name string) bool { return f.Name() == name })
}

// Few of many removals are tried if none works, all of them are told as overdue,
// and what nobody knew of is among them.
func TestCommandNoRemovalWorks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{Ban: success, Unban: sh(t, `echo >> "$1/runs"; exit 255`, dir)})
	var remove []netip.Prefix
	for _, e := range hosts(100) {
		remove = append(remove, e.Target)
	}
	for try := 1; try <= 5; try++ {
		err := c.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, remove)
		var rejected *actions.RejectedError
		switch gaveUp := errors.As(err, &rejected); {
		case err == nil || gaveUp != (try >= 3):
			t.Errorf("try %d: %v", try, err)
		case gaveUp && (len(rejected.Kept) != len(remove) || len(rejected.Rejected) > 0 || !errors.Is(err, actions.ErrRefused) ||
			!strings.HasPrefix(err.Error(), "unban 10.1.0.") || !strings.Contains(err.Error(), "and 97 more")):
			t.Errorf("try %d: %d kept, %d rejected: %v", try, len(rejected.Kept), len(rejected.Rejected), err)
		}
	}
	if n := len(read(t, dir+"/runs")); n > 5*20 {
		t.Errorf("%d runs in 5 passes", n)
	}
	if o := c.Overdue(); o.Count != 100 || strings.Contains(o.Err.Error(), "not tried") {
		t.Errorf("overdue: %+v", o)
	}
	if got := len(listed(t, c)); got != 101 {
		t.Errorf("lists %d, want all that may be there", got)
	}
}

// A program that fails for what isn't there, as can be seen, is not one that works
// for nothing: what it then really fails for is an error first.
func TestCommandRemovalsOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: sh(t, "exit 2"), Check: sh(t, `test -e "$1/$2"`, dir, "{address}"),
	})
	remove := []netip.Prefix{pfx("192.0.2.1/32")}
	for range 4 {
		check(t, c.Apply(t.Context(), nil, remove))
	}
	check(t, os.WriteFile(dir+"/192.0.2.1", nil, 0o600))
	for try := 1; try <= 3; try++ {
		err := c.Apply(t.Context(), nil, remove)
		if err == nil || errors.Is(err, actions.ErrRefused) != (try == 3) {
			t.Errorf("try %d: %v", try, err)
		}
	}
}
