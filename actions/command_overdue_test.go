//go:build linux

package actions_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/syncbuf"
)

// What can't be taken out at its end is tried again, which is said once, and told
// until it is over.
func TestCommandCannotEnd(t *testing.T) {
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
			listed(t, c)
		}
		if o := c.Overdue(); o.Count != 0 || len(c.OverdueAt(netip.MustParseAddr("192.0.2.1"))) != 0 {
			t.Errorf("%s: still overdue: %+v", how, o)
		}
	}
}
