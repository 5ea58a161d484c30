//go:build linux

package actions_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

func existsIn(t *testing.T, dir string) func(name string) bool {
	t.Helper()
	return func(name string) bool { _, err := os.Stat(dir + "/" + name); return err == nil }
}

// A ban that is made again while its end is being carried out stands.
func TestCommandAgainWhileEnding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban:   sh(t, `: > "$1/banned $2"`, dir, "{address}"),
		Unban: sh(t, `: > "$1/ending"; while [ ! -e "$1/go" ]; do sleep 0.01; done; rm -f "$1/banned $2"`, dir, "{address}"),
	})
	apply(t, c, ban("192.0.2.1/32", 10*time.Millisecond))
	exists := existsIn(t, dir)
	within(t, "its end is carried out", func() bool { return exists("ending") })
	done := make(chan error, 1)
	go func() {
		done <- c.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour), ban("192.0.2.2/32", time.Hour)}, nil)
	}()
	within(t, "another is banned meanwhile", func() bool { return exists("banned 192.0.2.2") })
	check(t, os.WriteFile(dir+"/go", nil, 0o600))
	check(t, <-done)
	if !exists("banned 192.0.2.1") || len(listed(t, c)) != 2 {
		t.Errorf("banned %v, lists %v", exists("banned 192.0.2.1"), listed(t, c))
	}
}

// A ban that comes to its end while it is being made longer is not ended.
func TestCommandEndWhileAgain(t *testing.T) {
	t.Parallel()
	for length := time.Second; ; length *= 3 {
		dir := t.TempDir()
		c := newCommand(t, actions.CommandOptions{
			Ban:   sh(t, `[ ! -e "$1/hang" ] || while [ ! -e "$1/go" ]; do : > "$1/hangs"; sleep 0.01; done`, dir),
			Unban: sh(t, `: > "$1/unbanned $2"`, dir, "{address}"),
		})
		exists := existsIn(t, dir)
		// Both end at the same instant, and so in one go.
		apply(t, c, ban("192.0.2.1/32", length), ban("192.0.2.2/32", length))
		check(t, os.WriteFile(dir+"/hang", nil, 0o600))
		done := make(chan error, 1)
		go func() { done <- c.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil) }()
		within(t, "it is being banned for longer", func() bool { return exists("hangs") })
		tooSlow := exists("unbanned 192.0.2.1")
		within(t, "the other ends", func() bool { return exists("unbanned 192.0.2.2") })
		check(t, os.WriteFile(dir+"/go", nil, 0o600))
		check(t, <-done)
		apply(t, c, ban("192.0.2.3/32", time.Millisecond)) // which is ended behind those
		within(t, "a later one ends", func() bool { return exists("unbanned 192.0.2.3") })
		if tooSlow && length < time.Minute {
			continue // this machine: it had ended before
		}
		if e, there := listed(t, c)["192.0.2.1/32"]; exists("unbanned 192.0.2.1") || !there || e.Left < 30*time.Minute {
			t.Errorf("unbanned %v, listed %v: %+v", exists("unbanned 192.0.2.1"), there, e)
		}
		return
	}
}

// What is taken out while a listing is made is not taken for there, although the
// listing shows it.
func TestCommandTakenOutWhileListing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: success,
		List: sh(t, `echo 192.0.2.1; echo 192.0.2.2; : > "$1/listed"; while [ ! -e "$1/go" ]; do sleep 0.01; done`, dir),
	})
	apply(t, c, ban("192.0.2.1/32", time.Hour), ban("192.0.2.2/32", time.Hour))
	exists := existsIn(t, dir)
	entries := make(chan []actions.Entry, 1)
	go func() {
		got, err := c.List(t.Context())
		check(t, err)
		entries <- got
	}()
	within(t, "it is listed", func() bool { return exists("listed") })
	check(t, c.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.1/32")}))
	check(t, os.WriteFile(dir+"/go", nil, 0o600))
	if got := <-entries; len(got) != 1 || got[0].Target != pfx("192.0.2.2/32") {
		t.Errorf("lists %v", got)
	}
	// What it shows from then on is there: somebody else has put it in.
	if got := listed(t, c); len(got) != 2 {
		t.Errorf("lists %v", got)
	}
}

// That a target is there says nothing of its time if the program keeps that, and
// nothing of a program that did not end by itself.
func TestCommandFailsForWhatIsHalfDone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		opt  actions.CommandOptions
		want string // of the error; "": none
	}{
		{"fails", actions.CommandOptions{Ban: sh(t, "exit 3")}, ""},
		{"fails, and is to keep the time", actions.CommandOptions{Ban: sh(t, "exit 3"), Expires: true}, "exit status 3"},
		{"takes too long", actions.CommandOptions{Ban: sh(t, "exec sleep 600"), Timeout: time.Second}, "took too long"},
		{"dies", actions.CommandOptions{Ban: sh(t, "kill -9 $$")}, "signal: killed"},
	} {
		test.opt.Unban, test.opt.Check = success, success // it is there
		c := newCommand(t, test.opt)
		err := c.Apply(t.Context(), hosts(1), nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("a program that %s: %s", test.name, fmt.Sprint(err))
		}
	}
}
