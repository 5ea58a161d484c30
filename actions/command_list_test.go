//go:build linux

package actions_test

import (
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

// listing is a Command that lists what a file holds.
func listing(t *testing.T, text string, opt actions.CommandOptions) *actions.Command {
	t.Helper()
	file := t.TempDir() + "/listing"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	opt.Ban, opt.Unban, opt.List = success, success, []string{"/bin/cat", file}
	return newCommand(t, opt)
}

func TestCommandList(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in        string
		target, seconds string // keys
		want            string // "" if err
		err             string
	}{
		{name: "nothing"},
		{name: "lines", in: "192.0.2.1\n\n  203.0.113.0/24\t60 \r\n2001:db8::/64 0.5\n2001:db8::1 3600",
			want: "192.0.2.1/32 0s, 2001:db8::/64 500ms, 2001:db8::1/128 1h0m0s, 203.0.113.0/24 1m0s"},
		{name: "twice", in: "192.0.2.1\n192.0.2.1/32 60\n::ffff:192.0.2.1 30\n", want: "192.0.2.1/32 1m0s"},
		{name: "has ended", in: "192.0.2.1 0", want: "192.0.2.1/32 1ns"},
		{name: "a heading", in: "Address Timeout\n192.0.2.1 60\n", err: `list: line 1, "Address Timeout": no address and no network`},
		{name: "three columns", in: "192.0.2.1\n192.0.2.1 60 web\n", err: `list: line 2, "192.0.2.1 60 web": a line is a target`},
		{name: "no seconds", in: "192.0.2.1 1h", err: `"1h" is no number of seconds`},
		{name: "negative", in: "192.0.2.1 -1", err: `"-1" is no number of seconds`},
		{name: "not a number", in: "192.0.2.1 NaN", err: `"NaN" is no number of seconds`},
		{name: "too many", in: "192.0.2.1 1e300", err: `"1e300" is no number of seconds`},
		{name: "bits beyond", in: "192.0.2.1/24", err: "bits beyond its length"},
		{name: "zone", in: "fe80::1%eth0", err: "no address"},
		{name: "terminal", in: "\x1b[31m" + strings.Repeat("x", 200), err: `"\x1b[31mxxx`},
		{name: "array", target: "dst", in: `[{"dst":"192.0.2.1","flags":[]},{"dst":"2001:db8::/64"}]`, want: "192.0.2.1/32 0s, 2001:db8::/64 0s"},
		{name: "empty array", target: "dst", in: "[]"},
		{name: "no output for JSON", target: "dst", in: "\n"},
		{name: "objects", target: "a", seconds: "t", in: "{\"a\":\"192.0.2.1\",\"t\":60}\n{\"a\":\"192.0.2.2\",\"t\":\"30\"} {\"a\":\"192.0.2.3\",\"t\":null}",
			want: "192.0.2.1/32 1m0s, 192.0.2.2/32 30s, 192.0.2.3/32 0s"},
		{name: "default route", target: "dst", in: `[{"dst":"default"}]`, err: `object 1: "default": no address and no network`},
		{name: "no key", target: "dst", in: `[{"src":"192.0.2.1"}]`, err: `object 1: no text at the key "dst"`},
		{name: "null", target: "dst", in: `[null]`, err: "no text at the key"},
		{name: "no objects", target: "dst", in: `["192.0.2.1"]`, err: "no objects"},
		{name: "a number", target: "dst", in: `1`, err: "no objects"},
		{name: "cut off", target: "dst", in: `[{"dst":"192.0.2.1"}`, err: "no JSON"},
	} {
		entries, err := listing(t, test.in, actions.CommandOptions{ListTarget: test.target, ListSeconds: test.seconds}).List(t.Context())
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 400 {
				t.Errorf("%s: error %q, want %q", test.name, err, test.err)
			}
			continue
		}
		var got []string
		for _, e := range entries {
			if e.Left > time.Second/2 {
				e.Left = e.Left.Round(time.Second) // some of it is over
			} else if e.Left > time.Second/4 {
				e.Left = time.Second / 2
			}
			got = append(got, fmt.Sprint(e.Target, " ", e.Left))
		}
		slices.Sort(got)
		if s := strings.Join(got, ", "); err != nil || s != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, s, err, test.want)
		}
	}
}

func TestCommandListFails(t *testing.T) {
	t.Parallel()
	c := newCommand(t, actions.CommandOptions{Ban: success, Unban: success, List: sh(t, "echo 192.0.2.1; echo lost >&2; exit 1")})
	if got, err := c.List(t.Context()); err == nil || got != nil || !strings.Contains(err.Error(), "list: /bin/sh: exit status 1: lost") {
		t.Errorf("List returned %v, %v", got, err)
	}
}

// What list shows and can't be a ban is left alone, which is said once, and keeps
// no other from being enforced.
func TestCommandListsStrangeTargets(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(syncbuf.Buffer)
	check(t, os.WriteFile(dir+"/192.0.2.1", nil, 0o600))
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `: > "$1/$2"`, dir, "{address}"), Unban: sh(t, `echo "$2" >> "$1.unbanned"; rm "$1/$2"`, dir, "{address}"),
		List: sh(t, `cat "$1.strange"; ls "$1"`, dir), Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	const strange = "203.0.113.0/24\n0.0.0.0/0\n::/0\n2001:db8::/64\n"
	check(t, os.WriteFile(dir+".strange", []byte(strange), 0o600))
	r := actions.NewReconciler(actions.Options{Name: "test", Action: c.Action(), MinBackoff: time.Millisecond})
	r.Set(pfx("198.51.100.1/32"), time.Now().Add(time.Hour))
	runBeside(t, r.Run)
	within(t, "a full pass", func() bool { return r.Stats().Passes > 0 })
	if s := r.Stats(); s.Failing || !firewallIs(dir, "198.51.100.1") || read(t, dir+".unbanned") != "192.0.2.1\n" {
		t.Errorf("took out %q: %+v", read(t, dir+".unbanned"), s)
	}
	said := func(want int) {
		t.Helper()
		if n := strings.Count(log.String(), "list shows what can be no ban of this action"); n != want || !strings.Contains(log.String(), "count=4 example=0.0.0.0/0") {
			t.Errorf("said %d times, want %d:\n%s", n, want, log)
		}
	}
	said(1)
	if got := listed(t, c); len(got) != 1 {
		t.Errorf("lists %v", got)
	}
	said(1)
	for _, text := range []string{"", strange} { // gone, and there again
		check(t, os.WriteFile(dir+".strange", []byte(text), 0o600))
		listed(t, c)
	}
	said(2)
}

// What ends while nothing of ours runs is taken out by the next that does, if
// there is a listing.
func TestCommandRestart(t *testing.T) {
	t.Parallel()
	for _, kind := range commandKinds {
		dir := t.TempDir()
		opt := kind.make(t, dir)
		apply(t, newCommand(t, opt), hosts(10)...)
		next := newCommand(t, opt)
		held := 0
		if len(opt.List) > 0 {
			held = 10
		}
		if got := listed(t, next); len(got) != held {
			t.Errorf("%s: lists %d after a restart, want %d", kind.name, len(got), held)
		}
		r := actions.NewReconciler(actions.Options{Name: "test", Action: next.Action(), MinBackoff: time.Millisecond})
		for _, e := range hosts(3) {
			r.Set(e.Target, time.Now().Add(e.Left))
		}
		runBeside(t, r.Run)
		within(t, kind.name+": a full pass", func() bool { s := r.Stats(); return s.Passes > 0 && s.Pending == 0 && !s.Failing })
		if got := listed(t, next); len(got) != 3 {
			t.Errorf("%s: lists %d, want 3", kind.name, len(got))
		}
		want := 10 // nobody knows of those that should not be there
		if held > 0 {
			want = 3
		}
		if n := firewallFiles(dir); n != want {
			t.Errorf("%s: the firewall holds %d, want %d", kind.name, n, want)
		}
	}
}

// A ban that was there at the start with its time is ended then, although this
// process has not made it.
func TestCommandEndsWhatItFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: success, Unban: sh(t, `echo "$2" > "$1/new"; mv "$1/new" "$1/unbanned"`, dir, "{address}"),
		List: []string{"/bin/echo", "192.0.2.1 0.2"},
	})
	if got := listed(t, c); len(got) != 1 {
		t.Errorf("lists %v", got)
	}
	within(t, "it is taken out", func() bool { _, err := os.Stat(dir + "/unbanned"); return err == nil })
}

// A program that should end bans and does not is found out.
func TestCommandDoesNotExpire(t *testing.T) {
	t.Parallel()
	m := actions.NewCommandMemory()
	now := time.Now()
	target := pfx("192.0.2.1/32")
	m.Banned(target, now.Add(time.Minute))
	listed := map[netip.Prefix]time.Duration{target: 0}
	for _, test := range []struct{ after, want time.Duration }{
		{30 * time.Second, 30 * time.Second}, // as it was set
		{61 * time.Second, time.Nanosecond},  // ends at any moment
		{75 * time.Second, 0},                // has no end
	} {
		got := m.Learn(listed, now.Add(test.after))
		if len(got) != 1 || got[0].Left != test.want {
			t.Errorf("after %v: %v, want %v left", test.after, got, test.want)
		}
	}
}

// With a reconciler, one target that the program refuses is said and does not
// make the action fail; what the others do is not held up.
func TestCommandReconciled(t *testing.T) {
	t.Parallel()
	for _, kind := range commandKinds {
		dir := t.TempDir()
		check(t, os.WriteFile(dir+"/bad", []byte("10.1.0.5/32"), 0o600))
		c := newCommand(t, kind.make(t, dir))
		r := actions.NewReconciler(actions.Options{Name: "test", Action: c.Action(), MinBackoff: time.Millisecond, Interval: 100 * time.Millisecond})
		for _, e := range hosts(50) {
			r.Set(e.Target, time.Now().Add(e.Left))
		}
		runBeside(t, r.Run)
		within(t, kind.name+": the others are banned", func() bool {
			s := r.Stats()
			return !s.Failing && s.Rejected == 1 && firewallFiles(dir) == 49
		})
		for _, e := range hosts(25) {
			r.Delete(e.Target)
		}
		r.Set(pfx("192.0.2.1/32"), time.Now().Add(time.Hour))
		within(t, kind.name+": changes", func() bool { return firewallFiles(dir) == 26 })
		if s := r.Stats(); s.DriftRemoved+s.DriftCorrected+s.Misheld > 0 {
			t.Errorf("%s: stats are %+v", kind.name, s)
		}
	}
}

func FuzzCommandListing(f *testing.F) {
	f.Add("192.0.2.1 60\n2001:db8::/64", "")
	f.Add(`[{"dst":"192.0.2.1","t":5},{"dst":"2001:db8::/64"}]`, "dst")
	f.Fuzz(func(t *testing.T, text, key string) {
		for target, left := range actions.ParseCommandListing([]byte(text), key) {
			if !target.IsValid() || target != target.Masked() || target.Addr().Is4In6() || target.Addr().Zone() != "" || left < 0 {
				t.Errorf("%q is read as %v, %v left", text, target, left)
			}
		}
	})
}

// Whatever a template says, it stays one argument, and what it is given is in
// it as it is.
func FuzzCommandTemplate(f *testing.F) {
	f.Add("-A {prefix}")
	f.Add("{{{address}}}")
	f.Fuzz(func(t *testing.T, arg string) {
		argv, err := actions.ExpandCommand([]string{"/bin/x", arg}, pfx("2001:db8::/64"))
		if err != nil {
			return
		}
		if len(argv) != 2 {
			t.Fatalf("%q became %q", arg, argv)
		}
		want := strings.NewReplacer("{{", "{", "}}", "}", "{address}", "2001:db8::", "{bits}", "64", "{prefix}", "2001:db8::/64", "{family}", "6").Replace(arg)
		if argv[1] != want {
			t.Errorf("%q became %q, want %q", arg, argv[1], want)
		}
	})
}
