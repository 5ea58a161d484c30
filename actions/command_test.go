//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// runBeside runs f until the test ends.
func runBeside(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run: ", err)
		}
	})
}

// sh is the arguments that run a script.
func sh(t *testing.T, script string, args ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	check(t, os.WriteFile(file, []byte(script), 0o600))
	return append([]string{"/bin/sh", file}, args...)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	return string(text)
}

var success = []string{"/bin/true"}

// within waits for a condition.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func TestNewCommandErrors(t *testing.T) {
	t.Parallel()
	good := []string{"/bin/ban", "{prefix}"}
	for _, test := range []struct {
		name string
		opt  actions.CommandOptions
		want []string // parts of the lines, in order
	}{
		{"nothing", actions.CommandOptions{}, []string{"ban: required", "unban: required"}},
		{"unknown placeholder", actions.CommandOptions{Ban: []string{"/bin/ban", "{ip}"}, Unban: good},
			[]string{`ban: argument 1, "{ip}": unknown placeholder {ip}; there are here: {address}, {bits}, {family}, {prefix}, {seconds}, {until}, {until_time}`}},
		{"several at once", actions.CommandOptions{Ban: []string{"/bin/ban", "{user}", "{}"}, Unban: []string{"unban"}},
			[]string{`"{user}": unknown placeholder {user}`, `"{}": unknown placeholder {}`, `unban: argument 0, "unban": the program's path must be absolute`}},
		{"no time to unban", actions.CommandOptions{Ban: good, Unban: []string{"/bin/unban", "{seconds}"}},
			[]string{"unknown placeholder {seconds}; there are here: {address}, {bits}, {family}, {prefix}"}},
		{"no target to list", actions.CommandOptions{Ban: good, Unban: good, List: []string{"/bin/list", "{prefix}"}},
			[]string{"list: argument 1, \"{prefix}\": unknown placeholder {prefix}; there are here: {family}"}},
		{"log text", actions.CommandOptions{Ban: []string{"/bin/ban", "{line}"}, Unban: good}, []string{"unknown placeholder {line}"}},
		{"placeholder in the path", actions.CommandOptions{Ban: []string{"/bin/ban{family}"}, Unban: good}, []string{"can have no placeholders"}},
		{"empty path", actions.CommandOptions{Ban: []string{"", "x"}, Unban: good}, []string{"must be absolute"}},
		{"open brace", actions.CommandOptions{Ban: []string{"/bin/ban", "a{prefix"}, Unban: good}, []string{"a { without its }"}},
		{"closed brace", actions.CommandOptions{Ban: []string{"/bin/ban", "a}"}, Unban: good}, []string{"a } without its {"}},
		{"NUL", actions.CommandOptions{Ban: []string{"/bin/ban", "a\x00b"}, Unban: good}, []string{"NUL"}},
		{"placeholders in a batch", actions.CommandOptions{Ban: good, Unban: good, Batch: 2},
			[]string{"ban: argument 1, \"{prefix}\": unknown placeholder {prefix}; there are here: none, as the targets are on standard input", "unban: "}},
		{"bounds", actions.CommandOptions{Ban: good, Unban: good, Timeout: -1, Concurrency: 65, Batch: 1e6, ListTarget: "x"},
			[]string{"ban: ", "unban: ", "timeout -1ns: must be between 0 and 10m0s", "concurrency 65: must be from 1 to 64", "batch 1000000: must be 100000 at most", "list_target is set, but not list"}},
		{"seconds without a target", actions.CommandOptions{Ban: good, Unban: good, List: good[:1], ListSeconds: "x"}, []string{"list_seconds is set, but not list_target"}},
	} {
		_, err := actions.NewCommand(test.opt)
		if err == nil {
			t.Errorf("%s: no error", test.name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%s: %d lines, want %d: %v", test.name, len(lines), len(test.want), err)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: line %d is %q, want %q", test.name, i, lines[i], want)
			}
		}
	}
}

// A program gets exactly what its documentation says, and nothing of ours.
func TestCommandWhatIsRun(t *testing.T) {
	t.Setenv("TAILBAN_SECRET", "must not get there")
	dir := t.TempDir()
	open, err := os.Create(filepath.Join(dir, "ours, open"))
	check(t, err)
	defer open.Close()
	script := `
out=$1; shift
{
	for arg; do echo "arg <$arg>"; done
	echo "cwd $(pwd)"
	tr '\0' '\n' < /proc/$$/environ | sed 's/^/env /'
	ls -l /proc/$$/fd | grep -o 'ours, open' 
	cat
} > "$out"`
	c := newCommand(t, actions.CommandOptions{
		Ban:   sh(t, script, dir+"/ban", "{prefix}", "-A {address}/{bits};v{family}", "{{{seconds}}}", "$(touch x) `y` *", "{until}", "{until_time}", ""),
		Unban: sh(t, script, dir+"/unban", "{prefix}"),
		Check: sh(t, script, dir+"/check", "{prefix}"),
	})
	before := time.Now()
	apply(t, c, ban("2001:db8:0:1::/64", 1999500*time.Millisecond))
	check(t, c.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.7/32")}))
	_, held, err := c.Action().(actions.Holder).Held(t.Context(), pfx("192.0.2.7/32"))
	if err != nil || !held {
		t.Errorf("check: %v, %v", held, err)
	}

	lines := strings.Split(strings.TrimSpace(read(t, dir+"/ban")), "\n")
	common := []string{"cwd /", "env PATH=/usr/sbin:/usr/bin:/sbin:/bin", "env LC_ALL=C"}
	until := before.Add(2000 * time.Second).Unix()
	var seen int64
	if _, err := fmt.Sscanf(lines[4], "arg <%d>", &seen); err != nil || seen < until-1 || seen > until+30 {
		t.Errorf("until is %q, want %d or little more", lines[4], until)
	}
	want := append([]string{
		"arg <2001:db8:0:1::/64>", "arg <-A 2001:db8:0:1::/64;v6>", "arg <{2000}>", "arg <$(touch x) `y` *>",
		fmt.Sprintf("arg <%d>", seen), "arg <" + time.Unix(seen, 0).UTC().Format(time.RFC3339) + ">", "arg <>",
	}, common...)
	want = append(want, fmt.Sprintf(`{"verb":"ban","target":"2001:db8:0:1::/64","address":"2001:db8:0:1::","bits":64,"family":6,"seconds":2000,"until":%d}`, seen))
	if !slices.Equal(lines, want) {
		t.Errorf("ban got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for _, verb := range []string{"unban", "check"} {
		got := read(t, dir+"/"+verb)
		if !strings.HasPrefix(got, "arg <192.0.2.7/32>\ncwd /\n") ||
			!strings.HasSuffix(got, "\n"+`{"verb":"`+verb+`","target":"192.0.2.7/32","address":"192.0.2.7","bits":32,"family":4}`+"\n") {
			t.Errorf("%s got\n%s", verb, got)
		}
	}
}

func TestCommandRejects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban:       fakeRun(t, dir, "ban", "{address}"),
		Unban:     fakeRun(t, dir, "unban", "{address}"),
		Protected: func(target netip.Prefix) (string, bool) { return "the gateway", target == pfx("192.0.2.1/32") },
	})
	batch := []actions.Entry{ban("198.51.100.1/32", time.Hour)}
	wrong := map[string]error{
		"192.0.2.1/32": actions.ErrProtected, "203.0.113.0/24": actions.ErrUnsupported, "2001:db8::/64": actions.ErrUnsupported,
		"0.0.0.0/0": actions.ErrUnsupported, "192.0.2.9/24": actions.ErrUnsupported, "::ffff:192.0.2.7/128": actions.ErrUnsupported,
	}
	for target := range wrong {
		batch = append(batch, ban(target, time.Hour))
	}
	err := c.Apply(t.Context(), batch, nil)
	var rejected *actions.RejectedError
	if !errors.As(err, &rejected) || len(rejected.Rejected) != len(wrong) {
		t.Fatalf("Apply returned %v, want %d rejections", err, len(wrong))
	}
	for _, r := range rejected.Rejected {
		if !errors.Is(r.Err, wrong[r.Target.String()]) {
			t.Errorf("%s was rejected with %v", r.Target, r.Err)
		}
		if hint := strings.Contains(r.Err.Error(), "use {prefix}"); hint != (r.Target == pfx("203.0.113.0/24") || r.Target == pfx("2001:db8::/64")) {
			t.Errorf("%s was rejected with %v", r.Target, r.Err)
		}
	}
	files, _ := filepath.Glob(dir + "/ban *")
	if len(files) != 1 || filepath.Base(files[0]) != "ban 198.51.100.1" {
		t.Errorf("the firewall holds %q", files)
	}
}

// What has become protected after it was banned must not stay banned.
func TestCommandProtectedLater(t *testing.T) {
	t.Parallel()
	protected := false
	for _, kind := range commandKinds {
		protected = false
		dir := t.TempDir()
		opt := kind.make(t, dir)
		opt.Protected = func(netip.Prefix) (string, bool) { return "yours", protected }
		c := newCommand(t, opt)
		apply(t, c, ban("192.0.2.1/32", time.Hour))
		protected = true
		if err := c.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil); !errors.Is(err, actions.ErrProtected) {
			t.Errorf("%s: Apply returned %v", kind.name, err)
		}
		if files, _ := filepath.Glob(dir + "/ban *"); len(files) != 0 {
			t.Errorf("%s: the firewall holds %q", kind.name, files)
		}
	}
}

func TestCommandPrepare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
		check(t, os.Chmod(filepath.Join(dir, name), mode))
		return filepath.Join(dir, name)
	}
	for program, want := range map[string]string{
		file("good", 0o755):      "",
		dir + "/missing":         "check: stat " + dir + "/missing: no such file or directory",
		file("data", 0o644):      "check: " + dir + "/data is not executable (chmod 755 " + dir + "/data)",
		file("anybody's", 0o757): "check: it would be run with the rights of tailban, but " + dir + "/anybody's may be changed by every user (chmod o-w " + dir + "/anybody's)",
		file("group's", 0o775):   dir + "/group's may be changed by group ",
		dir:                      "is no file that can be run",
	} {
		c, err := actions.NewCommand(actions.CommandOptions{Ban: success, Unban: success, Check: []string{program}})
		check(t, err)
		err = c.Prepare(t.Context())
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", program, err)
		case want != "" && (!errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}

func TestCommandWarnings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expires, list bool
		want          string
	}{
		{true, true, ""},
		{true, false, "stays until its time"},
		{false, true, "bans here outlive a dead daemon: they are taken out when it runs again"},
		{false, false, "stay until somebody takes them out by hand"},
	} {
		opt := actions.CommandOptions{Ban: success, Unban: success, Expires: test.expires}
		if test.list {
			opt.List = success
		}
		c, err := actions.NewCommand(opt)
		check(t, err)
		got := strings.Join(c.Warnings(), "\n")
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("expires %v, list %v: %q", test.expires, test.list, got)
		}
	}
}

func TestCommandHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := commandKinds[1].make(t, dir)
	a := newCommand(t, opt).Action()
	apply(t, a, ban("192.0.2.1/32", time.Hour))
	h := a.(actions.Holder)
	e, held, err := h.Held(t.Context(), pfx("192.0.2.1/32"))
	if err != nil || !held || e.Left > time.Hour || e.Left < time.Hour-time.Minute {
		t.Errorf("Held returned %+v, %v, %v", e, held, err)
	}
	// It is the program that is asked.
	check(t, os.Remove(dir+"/ban 192.0.2.1_32"))
	if _, held, err := h.Held(t.Context(), pfx("192.0.2.1/32")); err != nil || held {
		t.Errorf("Held returned %v, %v after somebody has taken it out", held, err)
	}
	broken := newCommand(t, actions.CommandOptions{Ban: success, Unban: success, Check: sh(t, "echo lost; exit 2")}).Action()
	if _, _, err := broken.(actions.Holder).Held(t.Context(), pfx("192.0.2.1/32")); err == nil || !strings.Contains(err.Error(), "exit status 2: lost") {
		t.Errorf("Held returned %v", err)
	}
	if _, yes := newCommand(t, actions.CommandOptions{Ban: success, Unban: success}).Action().(actions.Holder); yes {
		t.Error("without check it is a Holder")
	}
}
