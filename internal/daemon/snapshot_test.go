package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// Windows go on after a stop and a start; a snapshot that can't be used is no
// reason not to start, nor is one that can't be stored.
func TestWindowsOverRestarts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil  func(path string) error
		says   string
		banned int
	}{
		"kept":    {func(string) error { return nil }, "windows go on from a snapshot", 1},
		"damaged": {func(path string) error { return os.Truncate(path, 40) }, "windows begin at zero: what was counted before can't be read", 0},
		"newer": {func(path string) error {
			data, err := os.ReadFile(path)
			if err == nil {
				data[len("tailban windows\n")]++
				err = os.WriteFile(path, data, 0o600)
			}
			return err
		}, "windows begin at zero: what was counted before can't be read", 0},
		"removed": {os.Remove, "running", 0},
		"of another state": {func(path string) error { return os.Remove(filepath.Join(filepath.Dir(path), stateFile)) },
			"windows begin at zero: the snapshot of what was counted can't be used", 1}, // a first start, which looks back
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			r := s.run(s.config(logOnly))
			s.requests("203.0.113.201", 2)
			s.requests("203.0.113.202", 3) // the last line bans: all have been counted then
			r.waitBanned("203.0.113.202")
			r.stop()
			check(t, tt.spoil(filepath.Join(s.state, windowsFile)))
			r = s.run(s.config(logOnly))
			s.requests("203.0.113.201", 1)
			s.requests("203.0.113.203", 3)
			r.waitBanned("203.0.113.203")
			r.stop()
			if len(r.journal.said(tt.says)) != 1 {
				t.Errorf("%q was not said", tt.says)
			}
			r.journal.want(t, tt.banned, "banned", "client", "203.0.113.201")
			if _, err := state.LoadWindows(filepath.Join(s.state, windowsFile)); err != nil {
				t.Errorf("the next snapshot can't be read: %v", err)
			}
		})
	}
}

func TestSnapshotThatCantBeStored(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.MkdirAll(filepath.Join(s.state, windowsFile, "in the way"), 0o700))
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.201", 3)
	r.waitBanned("203.0.113.201")
	r.stop()
	r.journal.want(t, 1, "windows begin at zero: what was counted before can't be read")
	r.journal.want(t, 1, "windows can't be stored: after a crash they would be counted from an earlier moment on, or from none")
	if len(s.stored().Bans) != 1 {
		t.Error("the ban is not stored")
	}
}

// A snapshot that was taken and is not stored is no reason to leave out the one of
// an orderly stop.
func TestStopWhileASnapshotWaits(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	s := r.engine.snapshots
	s.flush = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	p := startPart(context.Background(), s.run)
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.requests(one)
	r.engine.snapshot(r.now)
	last := r.engine.last(r.now)
	p.stop(patience)
	if last == nil {
		t.Fatal("there is none")
	}
	if !s.saveLast(last) {
		t.Fatal("it can't be stored")
	}
	if r.engine.last(r.now) != nil {
		t.Error("there is another one, which says nothing new")
	}
}

// A disk that hangs holds the engine up for nothing: no other snapshot is taken
// until the one before is stored, and none without news.
func TestSnapshotsWaitForTheDisk(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	s := r.engine.snapshots
	hangs := make(chan struct{})
	s.flush = func(context.Context) error { <-hangs; return nil }
	r.engine.snapshot(r.now)
	if len(s.taken) != 0 {
		t.Error("one is taken before it can be stored")
	}
	p := startPart(context.Background(), s.run)
	defer p.stop(patience)
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.engine.snapshot(r.now)
	if len(s.ready) == 0 {
		t.Error("one is taken without news")
	}
	r.requests(one)
	r.engine.snapshot(r.now)
	r.requests(one)
	r.engine.snapshot(r.now.Add(time.Hour))
	wait(t, "the snapshot to be on its way", func() bool { return len(s.taken) == 0 })
	r.engine.snapshot(r.now.Add(time.Hour))
	if len(s.taken) != 0 {
		t.Error("another one is taken while the disk hangs")
	}
	close(hangs)
	wait(t, "the snapshot to be stored", func() bool {
		w, err := state.LoadWindows(s.path)
		return err == nil && w != nil && len(w.Times) == 1
	})
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.engine.snapshot(s.next.Add(-time.Nanosecond))
	if len(s.ready) == 0 {
		t.Error("one is taken before it is due")
	}
	r.engine.snapshot(s.next)
	wait(t, "the next snapshot to be stored", func() bool {
		w, err := state.LoadWindows(s.path)
		return err == nil && w != nil && len(w.Times) == 0 && len(w.Bans) == 1 // a decision has used them up
	})
}

// When half of what may be noted between two snapshots is used up, the next one is
// due early.
func TestSnapshotIsDueEarly(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	s := r.engine.snapshots
	take := func(after time.Duration) bool {
		s.ready <- struct{}{}
		r.engine.snapshot(r.now.Add(after))
		select {
		case <-s.taken:
			return true
		case <-s.ready:
			return false
		}
	}
	r.requests(one)
	if !take(0) {
		t.Fatal("the first is not due")
	}
	r.requests(other)
	if take(s.every - time.Second) {
		t.Error("the second is due early")
	}
	r.notes.weight = r.notes.max/2 + 1
	if take(-time.Nanosecond) {
		t.Error("it is taken at once, whatever the last one has cost")
	}
	if !take(s.every - time.Second) {
		t.Error("it is not due early, though much has happened")
	}
}
