package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
)

// folder is a firewall made of files, one for each ban. What its programs are
// given beyond that doesn't matter to them.
type folder struct {
	testing.TB
	dir, held string
}

func newFolder(t testing.TB) *folder {
	t.Helper()
	f := &folder{t, t.TempDir(), t.TempDir()}
	f.program("ban", `: > "$1/$2"`)
	f.program("unban", `rm -f "$1/$2"`)
	f.program("list", `ls "$1"`)
	return f
}

// program writes one of its programs.
func (f *folder) program(name, script string) {
	f.Helper()
	next := filepath.Join(f.dir, name+".new")
	check(f, os.WriteFile(next, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	check(f, os.Rename(next, filepath.Join(f.dir, name)))
}

// action is the action of this firewall, with more arguments for its programs.
func (f *folder) action(name string, more map[string]string, keys ...string) string {
	s := "\n[actions." + name + "]\ntype = \"command\"\nreconcile = \"1s\"\n"
	for _, verb := range []string{"ban", "unban", "list"} {
		args := fmt.Sprintf("%q, %q", filepath.Join(f.dir, verb), f.held)
		if verb != "list" {
			args += `, "{address}"`
		}
		if x := more[verb]; x != "" {
			args += fmt.Sprintf(", %q", x)
		}
		if verb != "list" || more["list"] != "" {
			s += verb + " = [" + args + "]\n"
		}
	}
	return s + strings.Join(keys, "\n") + "\n"
}

func (f *folder) holds(client string) bool {
	_, err := os.Stat(filepath.Join(f.held, client))
	return err == nil
}

// atFirst has the first request banned.
const atFirst = `
[jails.web]
limit = 0
window = "60s"
ban = "1h"
`

func (r *reloadable) reload(text string) {
	r.siteFiles.Helper()
	r.rewrite(r.siteFiles.config(text))
	_, err := r.client.Reload(context.Background())
	check(r.siteFiles, err)
}

// left waits until nothing is being cleared any more.
func (r *reloadable) cleared(n int) {
	r.siteFiles.Helper()
	wait(r.siteFiles, "what is not used any more to be cleared", func() bool {
		return len(r.journal.said("the bans of an action that is not used any more are taken out")) == n
	})
}

// The programs before take their bans out of a place in which the new ones have
// put the same ones: who is banned stays so, who isn't doesn't.
func TestReloadOfProgramsKeepsBans(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(f *folder) string{
		"another ban":             func(f *folder) string { return f.action("f", map[string]string{"ban": "--again"}) },
		"another ban and unban":   func(f *folder) string { return f.action("f", map[string]string{"ban": "--again", "unban": "--again"}) },
		"another name":            func(f *folder) string { return f.action("g", nil) },
		"another name and unban":  func(f *folder) string { return f.action("g", map[string]string{"unban": "--again"}) },
		"another unban with list": func(f *folder) string { return f.action("f", map[string]string{"unban": "--again", "list": "--all"}) },
		"another timeout":         func(f *folder) string { return f.action("f", nil, `timeout = "9s"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			s := newSite(t, t.TempDir())
			r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)))
			var clients []string
			for i := range 40 {
				clients = append(clients, fmt.Sprintf("198.51.100.%d", i+1))
			}
			for _, c := range clients {
				r.requests(c, 1)
			}
			wait(t, "the bans", func() bool {
				held, err := os.ReadDir(f.held)
				return err == nil && len(held) == len(clients)
			})
			r.reload(atFirst + after(f))
			r.cleared(1)
			for _, c := range clients {
				wait(t, c, func() bool { return f.holds(c) })
			}
			r.stop()
			if held, err := os.ReadDir(f.held); err != nil || len(held) != len(clients) {
				t.Errorf("%d bans are left, %v, want %d", len(held), err, len(clients))
			}
		})
	}
}

// A ban that the programs before can't take out keeps no other in: these go at the
// first try.
func TestReloadWithBansThatCannotBeTakenOut(t *testing.T) {
	t.Parallel()
	f, other := newFolder(t), newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)+other.action("other", nil)))
	for i := range 70 {
		r.requests(fmt.Sprintf("198.51.100.%d", i+1), 1)
	}
	held := func() int {
		names, err := os.ReadDir(f.held)
		check(t, err)
		return len(names)
	}
	wait(t, "the bans", func() bool { return held() == 70 })
	tries := filepath.Join(f.dir, "tries")
	f.program("unban", `echo "$2" >> `+tries+`; case "$2" in *.7|*.70) exit 1; esac; rm -f "$1/$2"`)
	r.reload(atFirst + other.action("other", nil))
	wait(t, "all others to be taken out", func() bool { return held() == 2 })
	r.stop()
	b, err := os.ReadFile(tries)
	check(t, err)
	seen := map[string]bool{}
	again := false // one was tried once more
	for line := range strings.Lines(string(b)) {
		if again = again || seen[line]; again && !seen[line] {
			t.Errorf("%q was first tried behind a second try of another:\n%s", line, b)
			break
		}
		seen[line] = true
	}
}

// An action that is gone takes its bans along, but as long as the programs before
// need for it nobody waits for them: no other reload, and not who stops the
// daemon. What is left then the next start takes out.
func TestReloadWithoutSlowPrograms(t *testing.T) {
	t.Parallel()
	f, other := newFolder(t), newFolder(t)
	s := newSite(t, t.TempDir())
	both := atFirst + f.action("slow", nil, "concurrency = 1") + other.action("other", nil)
	r := newReloadableAt(t, s, s.config(both))
	for i := range 5 {
		r.requests(fmt.Sprintf("198.51.100.%d", i+1), 1)
	}
	wait(t, "the bans", func() bool { return f.holds("198.51.100.5") && other.holds("198.51.100.5") })
	f.program("unban", `rm -f "$1/$2"; exec sleep 100`)
	began := time.Now()
	r.reload(atFirst + other.action("other", nil))
	if took := time.Since(began); took > leaveAtOnce+6*time.Second {
		t.Errorf("the reload waited %v for a program", took)
	}
	r.reload(strings.Replace(atFirst, "limit = 0", "limit = 1", 1) + other.action("other", nil))
	began = time.Now()
	r.stop()
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the end waited %v for a program", took)
	}
	r.journal.want(t, 1, "bans of an action that is not used any more can't be taken out; the next start tries again (or: tailban teardown)", "action", "slow", "left", 5)
	if !other.holds("198.51.100.5") {
		t.Error("the other action has let go of its ban")
	}
}

// What takes an action's place does not come to work: the bans stay where they
// are until it does.
func TestReloadToProgramsThatFail(t *testing.T) {
	t.Parallel()
	before, after := newFolder(t), newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+before.action("f", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return before.holds("198.51.100.1") })
	after.program("ban", "exit 1")
	r.rewrite(s.config(atFirst + after.action("f", nil)))
	got, err := r.client.Reload(context.Background())
	check(t, err)
	if len(got.Warnings) == 0 || !strings.Contains(strings.Join(got.Warnings, "\n"), "action f: its bans are still being taken out, or wait") {
		t.Errorf("warnings: %q", got.Warnings)
	}
	if !before.holds("198.51.100.1") {
		t.Fatal("the ban is gone, and nowhere else")
	}
	after.program("ban", `: > "$1/$2"`)
	wait(t, "the ban to move", func() bool { return after.holds("198.51.100.1") && !before.holds("198.51.100.1") })
	r.stop()
}

// What takes an action's place never works, and is replaced: what it should have had
// goes once the next one has the bans.
func TestReloadOfProgramsThatFail(t *testing.T) {
	t.Parallel()
	first, second, third := newFolder(t), newFolder(t), newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+first.action("f", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return first.holds("198.51.100.1") })
	second.program("ban", "exit 1")
	third.program("ban", "exit 1")
	r.reload(atFirst + second.action("f", nil))
	r.reload(atFirst + third.action("f", nil))
	if !first.holds("198.51.100.1") {
		t.Fatal("the ban is gone, and nowhere else")
	}
	third.program("ban", `: > "$1/$2"`)
	wait(t, "the ban to move", func() bool { return third.holds("198.51.100.1") && !first.holds("198.51.100.1") })
	wait(t, "the list of places without the others", func() bool { return fmt.Sprint(s.places()) == "[f]" })
	r.stop()
}

// What can be seen not to work is refused, and nothing has changed.
func TestReloadToProgramsThatAreMissing(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return f.holds("198.51.100.1") })
	r.rewrite(s.config(atFirst + strings.ReplaceAll(f.action("f", nil), "/ban\"", "/nothing\"")))
	_, err := r.client.Reload(context.Background())
	if err == nil || !strings.Contains(err.Error(), "action f would not work: ban: ") || !strings.Contains(err.Error(), "/nothing") {
		t.Errorf("the reload: %v", err)
	}
	r.requests("198.51.100.2", 1)
	wait(t, "another ban", func() bool { return f.holds("198.51.100.2") })
	if !f.holds("198.51.100.1") {
		t.Error("the ban is gone")
	}
	r.stop()
}

// Another reload replaces the new programs while those before take their bans out:
// what is taken out from then on the newest ones put in again, though they can't see
// that it is gone.
func TestSecondReloadOfProgramsWhileClearing(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	s := newSite(t, t.TempDir())
	text := func(unban string, keys ...string) string {
		return atFirst + f.action("f", map[string]string{"unban": unban}, keys...)
	}
	r := newReloadableAt(t, s, s.config(text("", "concurrency = 2")))
	const n = 20
	for i := range n {
		r.requests(fmt.Sprintf("198.51.100.%d", i+1), 1)
	}
	held := func() int {
		entries, err := os.ReadDir(f.held)
		check(t, err)
		return len(entries)
	}
	wait(t, "the bans", func() bool { return held() == n })
	began, gate := filepath.Join(f.dir, "began"), filepath.Join(f.dir, "gate")
	f.program("unban", fmt.Sprintf(`: > %q; while [ ! -e %q ]; do sleep 0.02; done; rm -f "$1/$2"`, began, gate))
	r.reload(text("--again"))
	wait(t, "the clearing", func() bool { _, err := os.Stat(began); return err == nil })
	r.reload(text("--again", `timeout = "9s"`))
	check(t, os.WriteFile(gate, nil, 0o600))
	r.cleared(2)
	wait(t, "all bans again", func() bool { return held() == n })
	r.stop()
}

// Who changes a configuration back and forth while nothing can be taken out leaves
// each place once.
func TestReloadsBackAndForthLeaveAPlaceOnce(t *testing.T) {
	t.Parallel()
	f, g, s := newFolder(t), newFolder(t), newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return f.holds("198.51.100.1") })
	for i := range 2 {
		check(t, os.Chmod(filepath.Join(f.dir, "unban"), 0o777)) // so it isn't run
		r.reload(atFirst + g.action("g", nil))
		wait(t, "a word on it", func() bool {
			return len(r.journal.said("bans of an action that is not used any more can't be taken out; the next start tries again (or: tailban teardown)")) == i+1
		})
		wait(t, "the list with each place once", func() bool { return fmt.Sprint(s.places()) == "[g f]" })
		check(t, os.Chmod(filepath.Join(f.dir, "unban"), 0o755))
		if i == 0 {
			r.reload(atFirst + f.action("f", nil))
			wait(t, "the ban to move", func() bool { return !g.holds("198.51.100.1") })
		}
	}
	r.stop()
	u, err := config.LoadPlaces(s.state)
	check(t, err)
	if len(u.Places) != 2 || len(u.Places[1].Targets) != 1 {
		t.Errorf("kept are %+v", u.Places)
	}
}
