package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

// places are those that the state folder tells of, each as its action's name.
func (s *siteFiles) places() (names []string) {
	s.Helper()
	u, err := config.LoadPlaces(s.state)
	check(s, err)
	for _, p := range u.Places {
		names = append(names, p.Action.Name)
	}
	return names
}

// While the daemon is stopped another action takes the place of one. When it has
// the bans, what the one before had in the kernel goes.
func TestOtherActionAfterAStop(t *testing.T) {
	t.Parallel()
	l := newIptablesLab(t)
	left := func() string { return l.shell("iptables-nft -S; ip6tables-nft -S; ipset save") }
	c := l.daemon(l.config(iptabled))
	l.requests("192.0.2.1", 1)
	wait(t, "the ban", func() bool { return strings.Contains(left(), "add tailban4 192.0.2.1 ") })
	c.stop()

	c = l.daemon(l.config(firewalled))
	l.waitHeld("192.0.2.1")
	wait(t, "chains and sets to go", func() bool { return !strings.Contains(strings.ToLower(left()), "tailban") })
	c.waitSaid("what an action that is not used any more had is removed", "of", "chain TAILBAN with sets tailban")
	c.stop()

	// Back, with another chain for the same sets later.
	c = l.daemon(l.config(iptabled))
	wait(t, "the table to go", func() bool { return !l.exists("tailban") && strings.Contains(left(), "add tailban4 192.0.2.1 ") })
	c.stop()
	c = l.daemon(l.config(iptabled + "chain = \"OTHER\"\n"))
	wait(t, "the chain to go", func() bool { return !strings.Contains(left(), "TAILBAN") })
	if s := left(); !strings.Contains(s, "add tailban4 192.0.2.1 ") || !strings.Contains(s, "-A INPUT -j OTHER") {
		t.Errorf("what is shared has gone as well:\n%s", s)
	}
	c.stop()
	if got := l.places(); len(got) != 1 {
		t.Errorf("kept are the places of %q", got)
	}
}

// As long as the new action doesn't work the one before stays. What can't be
// removed is said, and tried at the next start.
func TestOtherActionAfterAStopThatFails(t *testing.T) {
	t.Parallel()
	l := newIptablesLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	c.stop()
	l.nft("add table ip filter")
	l.nft("add chain ip filter INPUT { type filter hook input priority 0; }")
	l.nft("add rule ip filter INPUT ip saddr { 192.0.2.77, 192.0.2.78 } ct state vmap { new : drop }")
	c = l.child(l.config(iptabled), false)
	c.waitSaid("bans are not enforced, trying again until they are")
	c.waitSaid("running")
	if l.left("192.0.2.1") == 0 {
		t.Fatal("the ban is gone, and nowhere else")
	}
	c.stop()
	c.waitSaid("the bans of an action that is not used any more stay where they are, as what takes its place has not come to work; the next start looks after them")
	l.nft("delete table ip filter")
	l.daemon(l.config(iptabled))
	wait(t, "the table to go", func() bool { return !l.exists("tailban") })
}

// What another daemon has by now is its own, and who observes lets be what may
// enforce again.
func TestOtherActionAfterAStopLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	c.stop()

	c = l.child("mode = \"observe\"\n"+l.config(firewalled), false)
	c.waitSaid("all only observe, but bans from before stay in force until they end (tailban teardown removes them)", "of", "table inet tailban")
	other := newSite(t, filepath.Join(l.dir, "state"))
	second := &kernelLab{other, l.ns, l.firewall}
	d := second.daemon(second.config(firewalled))
	c.stop()
	edge := firewalled + "table = \"edge\"\n"
	c = l.daemon(l.config(edge))
	if !l.exists("tailban") || !l.exists("edge") {
		t.Error("the table of another daemon is gone")
	}
	c.stop()
	d.stop()
	c = l.daemon(l.config(edge))
	c.stop()
	if !l.exists("tailban") {
		t.Error("the table of another daemon, which has stopped, is gone")
	}
}

// Programs take out what they have banned under another configuration: what they
// list, or what the state knows.
func TestOtherProgramsAfterAStop(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"", "--all"} {
		f, other := newFolder(t), newFolder(t)
		s := newSite(t, t.TempDir())
		r := newReloadableAt(t, s, s.config(atFirst+f.action("f", map[string]string{"list": list})))
		r.requests("198.51.100.1", 1)
		wait(t, "the ban", func() bool { return f.holds("198.51.100.1") })
		r.stop()
		r = newReloadableAt(t, s, s.config(strings.Replace(atFirst, "limit", "actions = [\"o\"]\nlimit", 1)+other.action("o", nil)))
		r.cleared(1)
		if f.holds("198.51.100.1") {
			t.Errorf("list %q: the ban is still there", list)
		}
		r.stop()
		if got := fmt.Sprint(s.places()); got != "[o]" {
			t.Errorf("list %q: kept are the places of %s", list, got)
		}
	}
}

// What slow programs could not take out before a stop they take out after it,
// also if nobody could list it.
func TestSlowProgramsAfterAStop(t *testing.T) {
	t.Parallel()
	f, other := newFolder(t), newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("slow", nil)+other.action("other", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return f.holds("198.51.100.1") && other.holds("198.51.100.1") })
	f.program("unban", "exec sleep 100")
	r.reload(atFirst + other.action("other", nil))
	r.stop()
	if got := fmt.Sprint(s.places()); got != "[other slow]" {
		t.Errorf("kept are the places of %s", got)
	}
	f.program("unban", `rm "$1/$2"`)
	r = newReloadableAt(t, s, s.config(atFirst+other.action("other", nil)))
	r.cleared(1)
	if f.holds("198.51.100.1") || !other.holds("198.51.100.1") {
		t.Error("the ban is still there, or the other one is not")
	}
	r.stop()
}

// No program is run because somebody else has named it.
func TestProgramsNamedBySomebodyElse(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return f.holds("198.51.100.1") })
	r.stop()
	check(t, os.Chmod(filepath.Join(s.state, "places.json"), 0o666))
	r = newReloadableAt(t, s, s.config(logOnly))
	r.stop()
	r.journal.want(t, 1, "bans of an action that is not used any more may be left, and are not looked after", "action", "f")
	if !f.holds("198.51.100.1") {
		t.Error("it was run")
	}
	// What others have named is not named by us from then on, and is not lost.
	if got := fmt.Sprint(s.places()); got != "[]" {
		t.Errorf("kept are the places of %s", got)
	}
	if b, err := os.ReadFile(filepath.Join(s.state, "places.json.aside")); err != nil || !strings.Contains(string(b), f.held) {
		t.Errorf("set aside is %q, %v", b, err)
	}
}

// A list that can't be read, or is for a newer program, is not lost, and whatever is
// there in its place keeps nothing from being kept.
func TestStartSetsAsidePlacesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"newer":   func(path string) error { return os.WriteFile(path, []byte(`{"Version":2}`), 0o600) },
		"damaged": func(path string) error { return os.WriteFile(path, []byte(`{`), 0o600) },
		"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			path := filepath.Join(s.state, "places.json")
			check(t, errors.Join(os.MkdirAll(s.state, 0o700), put(path)))
			before, err := os.Lstat(path)
			check(t, err)
			r := newReloadableAt(t, s, s.config(logOnly))
			r.stop()
			r.journal.want(t, 1, "the list of what an earlier daemon had is set aside, as not all of it is used", "path", path+".aside")
			if after, err := os.Lstat(path + ".aside"); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is not there: %v", err)
			}
			if got := fmt.Sprint(s.places()); got != "[]" {
				t.Errorf("kept are the places of %s", got)
			}
		})
	}
}

// What the list can't tell rightly keeps no daemon from running, and costs nothing
// that is in use.
func TestStartWithPlacesThatAreWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.MkdirAll(s.state, 0o700))
	check(t, config.SavePlaces(s.state, []config.UsedPlace{
		{Action: config.Action{Name: "x", Type: config.TypeCommand, Command: &config.Command{Ban: []string{"/bin/true", "{port}"}, Unban: []string{"/bin/true"}, Batch: 1}}},
		{Action: config.Action{Name: "y", Type: config.TypeNftables}},
	}))
	r := newReloadableAt(t, s, s.config(logOnly))
	r.stop()
	r.journal.want(t, 2, "what an earlier daemon had somewhere is left alone, as no configuration can have it")
}

// Programs of before that others may change by now are not run, and it is tried at
// the next start; those that are gone are forgotten.
func TestProgramsBeforeThatCannotRun(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", map[string]string{"list": "--all"})))
	r.requests("198.51.100.1", 1)
	wait(t, "the ban", func() bool { return f.holds("198.51.100.1") })
	r.stop()
	check(t, os.Chmod(filepath.Join(f.dir, "unban"), 0o777))
	r = newReloadableAt(t, s, s.config(logOnly))
	wait(t, "a word on it", func() bool {
		return len(r.journal.said("bans of an action that is not used any more can't be taken out; the next start tries again (or: tailban teardown)")) == 1
	})
	r.stop()
	if got := fmt.Sprint(s.places()); got != "[f]" || !f.holds("198.51.100.1") {
		t.Errorf("kept are the places of %s, the ban: %v", got, f.holds("198.51.100.1"))
	}
	check(t, os.Remove(filepath.Join(f.dir, "unban")))
	r = newReloadableAt(t, s, s.config(logOnly))
	wait(t, "a word on it", func() bool {
		return len(r.journal.said("bans of an action that is not used any more can't be taken out, as its programs are gone: it is forgotten")) == 1
	})
	wait(t, "the list without it", func() bool { return len(s.places()) == 0 })
	r.stop()
}
