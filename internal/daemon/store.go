package daemon

import (
	"log/slog"
	"sync"
	"time"

	"github.com/tailban/tailban/state"
)

// store is a state file that may not be there yet: a commit opens it if it
// could not be opened before, so that a daemon that started on a full or
// missing disk stores what it holds as soon as it can.
type store struct {
	path    string
	log     *slog.Logger
	abandon bool // a commit hangs: closing would wait for it

	mu   sync.Mutex
	open openStore // nil: not yet
}

// openStore is what is needed of a [state.Store].
type openStore interface {
	state.Committer
	Close() error
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
	}
	return s.open.Commit(u)
}

func (s *store) close() error {
	if s.abandon {
		return nil
	}
	s.mu.Lock()
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
