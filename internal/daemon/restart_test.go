package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

func TestBanIsEnforcedAndStored(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.202", 2)
	s.requests("203.0.113.201", 3) // the last line bans: all have been counted then
	r.waitBanned("203.0.113.201")
	r.waitEnforced("203.0.113.201")
	r.stop()

	r.journal.want(t, 1, "banned")
	l := s.stored()
	if len(l.Bans) != 1 || l.Bans[0].Target != pfx("203.0.113.201/32") || len(l.Offences) != 1 || l.Offences[0].Count != 1 {
		t.Errorf("stored are bans %+v and offences %+v", l.Bans, l.Offences)
	}
	// Beside it there may be a note that the log was followed at all.
	l.Positions = slices.DeleteFunc(l.Positions, func(p state.Position) bool { return p.Dev == 0 })
	if size := int64(5 * len(line("203.0.113.201", time.Now()))); len(l.Positions) != 1 || l.Positions[0].Offset != size {
		t.Errorf("stored are positions %+v, want one at %d", l.Positions, size)
	}
}

// What is written while the daemon is stopped is read by the next one, once;
// what is banned stays banned and is not decided again.
func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.201", 3)
	r.waitEnforced("203.0.113.201")
	r.stop()
	before := s.stored()

	s.requests("203.0.113.201", 5) // banned still
	s.requests("203.0.113.202", 2)
	r = s.run(s.config(logOnly))
	s.requests("203.0.113.202", 1)
	r.waitBanned("203.0.113.202")
	r.waitEnforced("203.0.113.201")
	r.stop()

	r.journal.want(t, 0, "banned", "client", "203.0.113.201")
	r.journal.want(t, 1, "banned")
	after := s.stored()
	if len(after.Bans) != 2 || len(after.Offences) != 2 {
		t.Fatalf("stored are bans %+v and offences %+v, want two each", after.Bans, after.Offences)
	}
	if was, is := before.Bans[0].Owners[0], after.Bans[0].Owners[0]; !is.Until.Equal(was.Until) || is.Line != was.Line || is.Offence != 1 {
		t.Errorf("the first ban was %+v and is %+v", was, is)
	}
	for _, o := range after.Offences {
		if o.Count != 1 {
			t.Errorf("%v has %d offences", o.Target, o.Count)
		}
	}
}
