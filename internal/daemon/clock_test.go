package daemon

import (
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// clockSetTo is a time as it would be read if the wall clock had been set by d:
// its monotonic reading is that of t. The clock of a machine can't be set for one
// process, and package time has no way to make such a time.
func clockSetTo(t testing.TB, at time.Time, d time.Duration) time.Time {
	t.Helper()
	const seconds = 1<<33 - 1
	set := at
	wall := (*uint64)(unsafe.Pointer(&set)) // 1 bit: there is a monotonic reading; 33: seconds since 1885; 30: nanoseconds
	to := at.Round(0).Add(d)
	sec := int64(*wall>>30&seconds) + to.Unix() - at.Unix()
	*wall = 1<<63 | uint64(sec)&seconds<<30 | uint64(to.Nanosecond())
	if set.Sub(at) != 0 || !set.Round(0).Equal(to) {
		t.Skip("package time keeps its times in another way")
	}
	return set
}

const year = 365 * 24 * time.Hour

// The clock is set while a ban runs: from 1970 to now, as on a machine without a
// clock of its own, and by an hour, forth and back. The ban is enforced for as
// long as it has left, nobody is banned twice for that, and whoever comes back
// behind its end counts; the next daemon goes on with the time that is left.
func TestClockIsSet(t *testing.T) {
	for _, c := range []struct {
		name string
		by   time.Duration
	}{{"from 1970 to now", 56 * year}, {"forth", time.Hour}, {"back", -time.Hour}, {"after a night's sleep", 8 * time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			target := pfx("192.0.2.1/32")
			r := newRig(t, start{config: web, actions: []string{"firewall"}})
			r.now = clockSetTo(t, r.now, -c.by) // so that it is right in the end
			r.lookAtClock(r.now)
			r.requests("192.0.2.1", "192.0.2.1")
			u := r.one()
			if got := r.action["firewall"].until[target].Sub(r.now); got != time.Hour {
				t.Fatalf("enforced for %v, want 1h", got)
			}
			if o := u.Bans[0].Owners[0]; o.Until.Sub(o.Since) != time.Hour {
				t.Errorf("stored from %v to %v", o.Since, o.Until)
			}

			r.now = r.now.Add(10 * time.Second)
			r.now = clockSetTo(t, r.now, c.by)
			r.lookAtClock(r.now)
			r.journal.want(t, 1, "the clock was set: bans keep the time that they have left", "by", c.by.String(), "bans", 1)
			u = r.one()
			if got, want := u.Bans[0].Until("").Round(0).Sub(r.now.Round(0)), time.Hour-10*time.Second; got != want {
				t.Errorf("stored with %v left, want %v", got, want)
			}
			if r.action["firewall"].sets != 1 {
				t.Error("the action was told something new")
			}
			r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1")
			r.journal.want(t, 1, "banned")

			// A restart.
			b := u.Bans[0]
			for i := range b.Owners {
				b.Owners[i].Since, b.Owners[i].Until = b.Owners[i].Since.Round(0), b.Owners[i].Until.Round(0)
			}
			next := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{Bans: []state.Ban{b}}})
			if left := time.Until(next.action["firewall"].until[target]); left > time.Hour || left < time.Hour-5*time.Second {
				t.Errorf("restored with %v left, want 1h", left) // the rig is 10 s ahead
			}

			// Its end, by the time that has passed.
			r.now = r.now.Add(time.Hour - 11*time.Second)
			r.expire(r.now)
			r.journal.want(t, 0, "ban over")
			r.now = r.now.Add(2 * time.Second)
			r.expire(r.now)
			r.journal.want(t, 1, "ban over")
			r.requests("192.0.2.1", "192.0.2.1")
			r.journal.want(t, 2, "banned")
		})
	}
}

// A machine that starts in 1970 takes up bans of its future: for their length at
// most, and to their true end once the clock is right.
func TestStartIn1970(t *testing.T) {
	now := time.Now()
	path := t.TempDir() + "/" + stateFile
	s, _, err := state.Open(path, now)
	check(t, err)
	check(t, s.Commit(state.Update{Bans: []state.Ban{
		held("192.0.2.1/32", now.Add(-40*time.Minute), time.Hour, "web", "firewall"),
		held("192.0.2.2/32", now.Add(-2*time.Hour+time.Minute), 2*time.Hour, "web", "firewall"),
		held("192.0.2.3/32", now, 24*time.Hour, "web", "firewall"),
	}}))
	check(t, s.Close())

	early := clockSetTo(t, now, -56*year)
	s, l, err := state.Open(path, early)
	check(t, err)
	check(t, s.Close())
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.clock = wallClock{early}
	r.takeUp(l, nil, early)
	left := func(target string) time.Duration {
		return r.action["firewall"].until[netip.MustParsePrefix(target)].Sub(now)
	}
	for target, want := range map[string]time.Duration{"192.0.2.1/32": time.Hour, "192.0.2.2/32": 2 * time.Hour, "192.0.2.3/32": 24 * time.Hour} {
		if got := left(target); got != want {
			t.Errorf("in 1970 %s has %v left, want its length, %v", target, got, want)
		}
	}
	// Two minutes later it is known when it is: the second is over.
	r.now = clockSetTo(t, early.Add(2*time.Minute), 56*year)
	r.lookAtClock(r.now)
	r.expire(r.now)
	for target, want := range map[string]time.Duration{"192.0.2.1/32": 20 * time.Minute, "192.0.2.3/32": 24 * time.Hour} {
		if got := left(target); (got - want).Abs() > time.Millisecond {
			t.Errorf("set right, %s has %v left, want %v", target, got, want)
		}
	}
	if r.bans.bans[pfx("192.0.2.2/32")] != nil || left("192.0.2.2/32") > 2*time.Minute {
		t.Error("what is over by the right clock is enforced still")
	}
}

// A clock that is slewed, or read at another moment, was not set.
func TestClockIsNotSet(t *testing.T) {
	now := time.Now()
	var w wallClock
	for i, c := range []struct{ after, by, want time.Duration }{
		{0, 0, 0}, {time.Hour, 0, 0}, {time.Second, time.Second, 0}, {time.Second, 1900 * time.Millisecond, 0},
		{time.Second, 2 * time.Second, 2 * time.Second}, {time.Second, 2 * time.Second, 0}, {time.Second, 0, -2 * time.Second}, {time.Second, 0, 0},
	} {
		now = now.Add(c.after)
		if got := w.moved(clockSetTo(t, now, c.by)); got != c.want {
			t.Errorf("%d: set by %v, want %v", i, got, c.want)
		}
	}
}

// A decision that waits for a proof does so for as long as before.
func TestClockIsSetWhileADecisionWaits(t *testing.T) {
	for _, by := range []time.Duration{-30 * time.Minute, 30 * time.Minute} {
		r := newRig(t, start{config: web + byDNS, actions: []string{"firewall"}})
		r.now = clockSetTo(t, r.now, -by)
		r.lookAtClock(r.now)
		r.crawls(one, 2)
		r.now = clockSetTo(t, r.now.Add(detector.MaxPostponement-2*time.Second), by)
		r.lookAtClock(r.now)
		r.decideDue(r.now)
		r.journal.want(t, 0, "banned")
		r.now = r.now.Add(2 * time.Second)
		r.decideDue(r.now)
		r.journal.want(t, 1, "banned", "client", one)
	}
}
