package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tailban/tailban/state"
)

// openPatience is how long the start waits for the state file.
const openPatience = 10 * time.Second

// diskPatience is how long a change may wait for the disk until that counts as a
// trouble: it is longer than positions wait for each other.
const diskPatience = 10 * time.Second

// store is a state file that may not be there yet: on a full, missing or
// hanging disk the daemon starts without it, and it is opened when that can be
// done. What it holds is then sent to late, once.
type store struct {
	path    string
	log     *slog.Logger
	late    chan *state.Loaded
	abandon bool // a commit hangs: closing would wait for it

	mu   sync.Mutex
	open openStore // nil: not yet
}

// openStore is what is needed of a [state.Store].
type openStore interface {
	state.Committer
	Close() error
}

func newStore(path string, log *slog.Logger) *store {
	return &store{path: path, log: log, late: make(chan *state.Loaded, 1)}
}

// errOpening means that the first attempt to open a file has not come back.
var errOpening = errors.New("the disk does not answer")

// start opens the file. If that takes too long it goes on in the background,
// and the error wraps errOpening.
func (s *store) start() (*state.Loaded, error) {
	type result struct {
		loaded *state.Loaded
		err    error
	}
	c := make(chan result, 1)
	s.mu.Lock() // commits wait until the file is open
	go func() {
		defer s.mu.Unlock()
		open, loaded, err := state.Open(s.path, time.Now())
		if err == nil {
			s.open = open
		}
		c <- result{loaded, err}
	}()
	select {
	case r := <-c:
		return r.loaded, r.err
	case <-time.After(openPatience):
	}
	go func() {
		if r := <-c; r.err == nil {
			s.late <- r.loaded
		}
	}()
	return nil, fmt.Errorf("open state file %s: %w", s.path, errOpening)
}

// Commit implements state.Committer.
func (s *store) Commit(u state.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		open, loaded, err := state.Open(s.path, time.Now())
		if err != nil {
			return err
		}
		sayLosses(s.log, s.path, loaded)
		s.open = open
		s.late <- loaded
	}
	return s.open.Commit(u)
}

func (s *store) close() error {
	if s.abandon || !s.mu.TryLock() {
		return nil // it hangs
	}
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	return s.open.Close()
}

// sayLosses says what of a state file could not be read.
func sayLosses(log *slog.Logger, path string, l *state.Loaded) {
	switch {
	case l.Damaged != "":
		log.Error("the state file was damaged; going on with what could be read", "path", path, "kept_as", l.Damaged,
			"lost_records", l.Lost, "bans", len(l.Bans), "err", l.Why)
	case l.Lost > 0:
		log.Warn("some records of the state file could not be read", "path", path, "lost_records", l.Lost, "err", l.Why)
	}
}
