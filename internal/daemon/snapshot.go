package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

const (
	// windowsFile is the name of the file in the state folder with what had
	// been counted at some moment.
	windowsFile = "windows.snap"

	// snapshotEvery is how far apart snapshots are at least, and snapshotCost
	// how many times the time that the engine was held up for one.
	snapshotEvery = time.Minute
	snapshotCost  = 50

	// snapshotPatience is how long the last snapshot may take.
	snapshotPatience = 10 * time.Second
)

// snapshots takes one of the windows now and then, between two batches of
// lines, and has it stored by a goroutine of its own: a disk that is slow or
// hangs holds nothing up, and no other one is taken meanwhile.
type snapshots struct {
	path  string
	log   *slog.Logger
	every time.Duration
	flush func(context.Context) error // returns when all that was handed to the writer is durable
	ready chan struct{}               // holds a token if another one can be taken
	taken chan *snapshot

	next    time.Time // not before
	soonest time.Time // not before, however much has happened
	changes uint64    // that were handed over

	// Of the last one that is stored: up to which change it reaches, and its
	// number; 0: there is none.
	reaches atomic.Uint64
	stored  atomic.Uint64

	failing bool // the last one could not be stored
}

// snapshot is what had been counted, and of which lines.
type snapshot struct {
	at        time.Time
	mark      uint64 // of its note
	reaches   uint64 // up to which change
	positions []state.Position
	allowed   []netip.Prefix
	counted   *detector.Snapshot
	traffic   []state.LogTraffic
}

func newSnapshots(d *daemon) *snapshots {
	return &snapshots{
		path: filepath.Join(d.Config.StateDir, windowsFile), log: d.Log, every: d.snapshotEvery,
		ready: make(chan struct{}, 1), taken: make(chan *snapshot, 1),
	}
}

// snapshot takes one if it is due and can be stored. The first is due soon:
// until there is one, a crash has windows begin at zero.
func (e *engine) snapshot(now time.Time) {
	s := e.snapshots
	due := s.next
	if e.notes.weight > e.notes.max/2 {
		due = s.soonest
	}
	if s.upToDate() || e.again != nil || now.Before(due) {
		return
	}
	select {
	case <-s.ready:
	default:
		return // the one before is not stored yet
	}
	begun := time.Now()
	s.taken <- e.count(now)
	s.soonest = now.Add(snapshotCost * time.Since(begun))
	s.next = now.Add(max(s.every, s.soonest.Sub(now)))
}

// hasten has the next one taken as soon as may be: lines that have been counted
// by now would become something else if they were read again.
func (s *snapshots) hasten() { s.next = s.soonest }

// upToDate reports whether nothing has changed since the last one that is stored.
func (s *snapshots) upToDate() bool { return s.changes == s.reaches.Load() }

// count takes a snapshot. All that belongs to it has been handed over then.
func (e *engine) count(now time.Time) *snapshot {
	s := &snapshot{at: now, mark: e.mark(), allowed: e.allowed.list, counted: e.detect.Snapshot(), traffic: e.traffic()}
	e.handOver()
	s.reaches = e.snapshots.changes
	for _, p := range e.positions {
		s.positions = append(s.positions, p)
	}
	return s
}

// last takes the one of a clean stop; nil if that would say nothing new, or
// if what was counted before the start has not been taken up yet.
func (e *engine) last(now time.Time) *snapshot {
	if e.again != nil || e.snapshots.upToDate() {
		return nil
	}
	return e.count(now)
}

// run stores snapshots until ctx is done.
func (s *snapshots) run(ctx context.Context) {
	s.ready <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-s.taken:
			// The state must never be behind the windows: its lines would be
			// read, and counted, again.
			if s.flush(ctx) != nil {
				return
			}
			if time.Since(x.at) <= 2*max(s.every, snapshotEvery) {
				s.save(x)
			}
			s.ready <- struct{}{}
		}
	}
}

// save stores one, and says once that this fails, and once that it works again.
func (s *snapshots) save(x *snapshot) {
	err := state.SaveWindows(s.path, x.windows())
	switch {
	case err != nil && !s.failing:
		s.log.Error("windows can't be stored: after a crash they would be counted from an earlier moment on, or from none", "err", err)
	case err == nil && s.failing:
		s.log.Info("windows are stored again", "path", s.path)
	}
	s.failing = err != nil
	if err == nil {
		s.reaches.Store(x.reaches)
		s.stored.Store(x.mark)
	}
}

// saveLast stores the snapshot of a clean stop, once what it belongs to is
// durable. It reports whether that came to an end in time.
func (s *snapshots) saveLast(x *snapshot) bool {
	return waitFor(startPart(context.Background(), func(context.Context) { s.save(x) }).done, snapshotPatience)
}

// windows is the snapshot as it is stored.
func (s *snapshot) windows() *state.Windows {
	c := s.counted
	w := &state.Windows{
		Taken: s.at.UTC(), Mark: s.mark, Positions: s.positions, Rules: c.Rules,
		Rule: c.Rule, Hi: c.Hi, Lo: c.Lo, Bits: c.Bits, Flags: c.Flags, Late: c.Late, Room: c.Room, Count: c.Count, Times: c.Times,
		Traffic: s.traffic,
	}
	for _, p := range s.allowed {
		w.Allowed = append(w.Allowed, p.Masked())
	}
	for _, b := range c.Bans {
		w.Bans = append(w.Bans, state.WindowBan(b))
	}
	for _, o := range c.Offences {
		w.Offences = append(w.Offences, state.WindowOffence(o))
	}
	return w
}

// countedIn undoes windows.
func countedIn(w *state.Windows) *detector.Snapshot {
	c := &detector.Snapshot{
		Rules: w.Rules,
		Rule:  w.Rule, Hi: w.Hi, Lo: w.Lo, Bits: w.Bits, Flags: w.Flags, Late: w.Late, Room: w.Room, Count: w.Count, Times: w.Times,
	}
	for _, b := range w.Bans {
		c.Bans = append(c.Bans, detector.SnapshotBan(b))
	}
	for _, o := range w.Offences {
		c.Offences = append(c.Offences, detector.SnapshotOffence(o))
	}
	return c
}

// loadWindows reads what an earlier daemon had counted; nil if there is
// nothing, or nothing that can be used. It is no reason not to start.
func (d *daemon) loadWindows() *state.Windows {
	path := filepath.Join(d.Config.StateDir, windowsFile)
	w, err := answer(openPatience, errOpening, func() (*state.Windows, error) { return state.LoadWindows(path) })
	if err != nil {
		d.Log.Warn("windows begin at zero: what was counted before can't be read", "path", path, "err", err)
	}
	return w
}
