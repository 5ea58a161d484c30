package cases

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// A restart doesn't begin a ban anew: it ends when it would have, also while
// no daemon runs.
func banGoesOn(t *testing.T) {
	const short = 2 * time.Second
	p := newPlace(t)
	p.add("app.log", failed("203.0.113.80", "/"))
	l := p.start("app.log", "", 0, `"1h"`)
	l.wants("203.0.113.80/32")
	was := l.bans()["203.0.113.80/32"]
	p.add("app.log", strings.Repeat(failed("203.0.113.80", "/"), 3)) // before it was cut off
	l.stop()

	l = p.start("app.log", "", 0, `"2s"`)
	p.add("app.log", failed("203.0.113.81", "/"))
	l.untilDecided(1)
	l.stop()

	l = p.start("app.log", "", 0, `"2s"`)
	l.until("the short ban to end", func(s *control.Status) bool { return s.Bans == 1 })
	l.wants("203.0.113.80/32")
	if is := l.bans()["203.0.113.80/32"]; !is.Until.Equal(was.Until) || !is.Since.Equal(was.Since) {
		t.Errorf("the ban was from %v to %v, and is from %v to %v", was.Since, was.Until, is.Since, is.Until)
	}
	p.add("app.log", failed("203.0.113.82", "/"))
	l.untilDecided(1)
	l.stop()

	<-time.After(short) // the last one ends while no daemon runs
	l = p.start("app.log", "", 0, `"2s"`)
	l.untilFollowed(p.path("app.log"))
	l.wants("203.0.113.80/32")
	l.untilDecided(0)
	for _, client := range []string{"203.0.113.80", "203.0.113.81", "203.0.113.82"} {
		l.remembers(client, 1, short)
	}
	l.stop()
}

// A ban is one offence, however often the daemon is restarted: the next step
// of the ladder stays the second.
func restartsAreNoOffences(t *testing.T) {
	p := newPlace(t)
	const ladder = `["1h", "2h", "3h", "1w"]`
	p.add("app.log", failed("203.0.113.83", "/"))
	l := p.start("app.log", "", 0, ladder)
	l.wants("203.0.113.83/32")
	was := l.bans()["203.0.113.83/32"]
	for range 6 {
		l.stop()
		l = p.start("app.log", "", 0, ladder)
		l.wants("203.0.113.83/32")
		l.untilFollowed(p.path("app.log"))
		l.remembers("203.0.113.83", 1, 2*time.Hour)
	}
	if is := l.bans()["203.0.113.83/32"]; len(is.Owners) != 1 || is.Owners[0].Offence != 1 || !is.Until.Equal(was.Until) {
		t.Errorf("the ban was %+v, and is %+v", was, is)
	}
	l.untilDecided(0)
	l.stop()
}

// untilDecided waits until a daemon has decided so many bans, and checks that
// it were no more.
func (l *live) untilDecided(n uint64) {
	l.Helper()
	var got uint64
	l.until("decisions", func(s *control.Status) bool {
		got = s.Jails[0].Decisions
		return got >= n
	})
	if got != n {
		l.Errorf("%d bans were decided, want %d", got, n)
	}
}

// remembers checks how many offences of a client are known, and how long its
// next ban would be.
func (l *live) remembers(client string, n int, next time.Duration) {
	l.Helper()
	x, err := l.client.Explain(l.Context(), netip.MustParseAddr(client))
	l.check(err)
	if len(x.Offences) != 1 || x.Offences[0].Count != n || x.Offences[0].Next != next.Seconds() {
		l.Errorf("remembered of %s are %+v, want %d and a next ban of %v", client, x.Offences, n, next)
	}
}
