package daemon

import (
	"path/filepath"
	"testing"

	"github.com/tailban/tailban/state"
)

// Who came is known to the next daemon.
func TestRegularsAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	path := filepath.Join(s.state, regularsFile)
	for run := range 2 {
		r := s.run(s.config(enforced))
		s.requests("203.0.113.1", 1)
		s.requests("203.0.113.9", 3) // banned, and so forgotten
		if run == 1 {
			s.requests("203.0.113.2", 1)
			s.requests("203.0.113.8", 3)
			r.waitBanned("203.0.113.8")
		} else {
			r.waitBanned("203.0.113.9")
		}
		r.stop()
		kept, err := state.LoadRegulars(path)
		check(t, err)
		if kept == nil || len(kept.Clients) != run+1 {
			t.Fatalf("after run %d: %+v", run, kept)
		}
	}
}
