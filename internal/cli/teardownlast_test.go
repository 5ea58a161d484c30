package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/state"
)

// lastSite is a configuration without actions, and a state folder that tells of
// places before it.
type lastSite struct {
	testing.TB
	config, state, ran string
}

func newLastSite(t *testing.T) *lastSite {
	t.Helper()
	dir := t.TempDir()
	s := &lastSite{t, filepath.Join(dir, "jails.toml"), filepath.Join(dir, "state"), filepath.Join(dir, "ran")}
	s.write(s.config, fmt.Sprintf("runtime_dir = %q\nstate_dir = %q\n", filepath.Join(dir, "run"), s.state)+`
[logs.a]
files = "/a"
[jails.web]
limit = 50
window = "60s"
ban = "1h"
[actions.edge]
type = "command"
ban = ["/bin/true"]
unban = ["/bin/true"]
list = ["/bin/true"]
`)
	if err := os.Mkdir(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *lastSite) write(path, text string) {
	s.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// programs are those of an action that is not in the configuration; to unban is
// noted.
func (s *lastSite) programs() *config.Command {
	return &config.Command{Ban: []string{"/bin/true"}, Unban: []string{"/usr/bin/touch", s.ran}, List: []string{"/bin/echo", "192.0.2.1"},
		Batch: 1, Timeout: config.DefaultTimeout, Concurrency: 1}
}

func (s *lastSite) keep(places ...config.UsedPlace) {
	s.Helper()
	if err := config.SavePlaces(s.state, places); err != nil {
		s.Fatal(err)
	}
}

func (s *lastSite) teardown() result {
	return run(context.Background(), filepath.Join(filepath.Dir(s.state), "run"), "", "teardown", "-c", s.config)
}

func (s *lastSite) hasRun() bool {
	_, err := os.Stat(s.ran)
	return err == nil
}

// Root runs no program because the daemon's user has named it: not in a file of
// that user's, and not in one of root's that this user has put in its place.
func TestTeardownRunsNothingThatTheDaemonsUserNames(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have a folder of another user")
	}
	place := func(s *lastSite) config.UsedPlace {
		return config.UsedPlace{
			Action:  config.Action{Name: "router", Type: config.TypeCommand, Command: s.programs()},
			Targets: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")},
		}
	}
	s := newLastSite(t)
	s.keep(place(s))
	if r := s.teardown(); r.code != exitOK || !s.hasRun() {
		t.Fatalf("root's own: exit code %d, run: %v, said %q", r.code, s.hasRun(), r.both)
	}
	s = newLastSite(t)
	s.keep(place(s))
	if err := os.Chown(s.state, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	r := s.teardown()
	if s.hasRun() || r.code != exitOK {
		t.Errorf("a folder of another user: exit code %d, run: %v", r.code, s.hasRun())
	}
	for _, want := range []string{"bans of action router", "192.0.2.1/32", "its programs are not run", "touch"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q is not said: %q", want, r.err)
		}
	}
	s = newLastSite(t)
	s.keep(place(s))
	file, other := filepath.Join(s.state, "places.json"), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.Rename(file, other), os.Symlink(other, file)); err != nil {
		t.Fatal(err)
	}
	if r := s.teardown(); s.hasRun() || !strings.Contains(r.err, "is a symbolic link") {
		t.Errorf("a link: run: %v, said %q", s.hasRun(), r.err)
	}
}

// What a daemon that runs may use by another configuration is left alone.
func TestTeardownOfAnotherConfigurationInUse(t *testing.T) {
	s := newLastSite(t)
	s.keep(config.UsedPlace{Action: config.Action{Name: "router", Type: config.TypeCommand, Command: s.programs()}})
	held, _, err := state.Open(filepath.Join(s.state, "tailban.db"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := s.teardown()
	if s.hasRun() || !strings.Contains(r.err, "warning: bans of action router stay: the daemon with its state in "+s.state+" runs") {
		t.Errorf("run: %v, said %q", s.hasRun(), r.err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if r := s.teardown(); !s.hasRun() || r.err != "" || !strings.Contains(r.out, "1 ban of action router taken out") {
		t.Errorf("when it has ended: run: %v, said %q", s.hasRun(), r.both)
	}
	s.want(0)
}

// Bans that programs of the configuration could not take out before are taken out,
// though nothing lists them.
func TestTeardownOfWhatIsKnownOfTheSamePlace(t *testing.T) {
	s := newLastSite(t)
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	same := s.programs()
	same.List = nil
	s.write(s.config, strings.Replace(string(text), `unban = ["/bin/true"]
list = ["/bin/true"]`, fmt.Sprintf("unban = [%q, %q]", same.Unban[0], same.Unban[1]), 1))
	s.keep(config.UsedPlace{
		Action:  config.Action{Name: "edge", Type: config.TypeCommand, Command: same},
		Targets: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")},
	})
	if r := s.teardown(); r.code != exitOK || !s.hasRun() || !strings.Contains(r.out, "1 ban of action edge taken out") {
		t.Errorf("exit code %d, run: %v, said %q", r.code, s.hasRun(), r.both)
	}
	s.want(0)
}

// want compares how many places are still kept.
func (s *lastSite) want(n int) {
	s.Helper()
	if u, err := config.LoadPlaces(s.state); err != nil || len(u.Places) != n {
		s.Errorf("kept are %d places, want %d, %v", len(u.Places), n, err)
	}
}

// Programs that are gone can take nothing out, now or later; those that somebody
// else may change are not run.
func TestTeardownOfProgramsThatCannotRun(t *testing.T) {
	s := newLastSite(t)
	c := s.programs()
	c.Unban[0] = filepath.Join(s.state, "unban")
	s.keep(config.UsedPlace{Action: config.Action{Name: "router", Type: config.TypeCommand, Command: c}})
	s.write(c.Unban[0], "#!/bin/sh\ntouch $1\n")
	if err := os.Chmod(c.Unban[0], 0o777); err != nil {
		t.Fatal(err)
	}
	if r := s.teardown(); s.hasRun() || r.code == exitOK || !strings.Contains(r.err, "may be changed by every user") {
		t.Errorf("one that all may change: exit code %d, run: %v, said %q", r.code, s.hasRun(), r.err)
	}
	s.want(1)
	if err := os.Remove(c.Unban[0]); err != nil {
		t.Fatal(err)
	}
	if r := s.teardown(); r.code != exitOK || !strings.Contains(r.err, "its programs are gone") {
		t.Errorf("one that is gone: exit code %d, said %q", r.code, r.err)
	}
	s.want(0)
}
