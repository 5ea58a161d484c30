package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What strangers wrote while they could is left out, also if a kill has the lines
// around it read again.
func TestStrangersLinesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} { // when they could
		s := newSite(t, t.TempDir())
		config := s.config(logOnly)
		start := func(waitFor string) *child {
			c := s.process(config, time.Hour)
			c.waitSaid(waitFor)
			return c
		}
		const hint = " (if nobody untrusted has access to this machine: allow_insecure = true of the log)"
		c := start("reading log")
		s.requests("203.0.113.9", 3) // or else there may be nothing to store yet
		c.waitSaid("banned", "client", "203.0.113.9")
		c.stop()
		taken := filepath.Join(s.state, windowsFile)
		snapshot, err := os.ReadFile(taken)
		check(t, err)
		if stopped {
			check(t, os.Chmod(s.log, 0o666))
			s.requests("203.0.113.1", 60)
			c = start("log is not read" + hint)
			check(t, os.Chmod(s.log, 0o644))
			c.waitSaid("reading log")
		} else {
			c = start("reading log")
			check(t, os.Chmod(s.log, 0o666))
			s.requests("203.0.113.1", 60)
			c.waitSaid("log is no longer read" + hint)
			check(t, os.Chmod(s.log, 0o644))
			c.waitSaid("log is read again, what was in it by then is left out")
		}
		s.requests("203.0.113.2", 2)
		s.requests("203.0.113.3", 3)
		c.waitSaid("banned", "client", "203.0.113.3")
		c.stop()
		check(t, os.WriteFile(taken, snapshot, 0o600)) // as if it had been killed

		c = start("windows go on from a snapshot")
		s.requests("203.0.113.1", 1)
		s.requests("203.0.113.2", 1)
		c.waitSaid("banned", "client", "203.0.113.2")
		if n := len(c.journal.said("banned")); n != 1 {
			t.Errorf("could while stopped %v: %d bans, want one: two of its requests are read again", stopped, n)
		}
		if n := len(c.journal.said("some lines since the last snapshot of the windows can't be read again (compressed, truncated, removed or refused since, or strangers could write to the log), so windows lack them")); n != 1 {
			t.Errorf("could while stopped %v: said %d times that lines are not read again", stopped, n)
		}
		c.stop()
	}
}
