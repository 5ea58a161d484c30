package daemon

import (
	"os"
	"testing"
)

const noState = "no state can be kept for now: bans go on, but a restart would forget what is not in the firewall"

// A file stands where the state folder should be. Bans go on, and are stored
// as soon as that is possible.
func TestNoDiskStopsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.WriteFile(s.state, nil, 0o600))
	r := s.run(s.config(logOnly))
	r.journal.want(t, 1, noState)
	s.requests("203.0.113.201", 3)
	r.waitBanned("203.0.113.201")
	r.waitEnforced("203.0.113.201")

	check(t, os.Remove(s.state))
	wait(t, "the state to be kept", func() bool { return len(r.journal.said("commit works again")) > 0 })
	r.stop()
	if l := s.stored(); len(l.Bans) != 1 || len(l.Offences) != 1 || len(l.Positions) == 0 { // and that of its path, if it came to that
		t.Errorf("stored are %+v", l)
	}
}

// The disk doesn't come back: the daemon still stops when asked.
func TestStopWithoutDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.WriteFile(s.state, nil, 0o600))
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.201", 3)
	r.waitEnforced("203.0.113.201")
	r.stop()
	r.journal.want(t, 1, "the last changes could not be stored")
}
