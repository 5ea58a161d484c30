package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/state"
)

// The breaker lets a regular go, and the daemon ends before the action hears of
// it: the next one does not take the ban over.
func TestWhomTheBreakerLetGoIsNotTakenOver(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1")
	target := pfx("192.0.2.1/32")
	known := regular{vouched: true, day: uint16(r.now.Unix() / 86400), days: 1, minute: uint32(r.now.Unix() / 60)}
	r.took()
	r.trip("web", &jailHits{hits: []hit{{target, r.now, known}}}, 1, r.now)
	var l state.Loaded
	for _, u := range r.took() {
		l.Pardons, l.Holds = append(l.Pardons, u.Pardons...), append(l.Holds, u.Holds...)
	}
	next := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: l, holds: map[string][]actions.Entry{"firewall": {{Target: target, Left: 50 * time.Minute}}}})
	if h := next.bans.bans[target]; h != nil {
		t.Errorf("it is banned again: %+v", h.Ban)
	}
}

// A machine starts with its clock behind. A ban that is younger than a pardon of
// its target is so still when the clock is right, and at the next start.
func TestPardonBeforeABanByAClockThatWasBehind(t *testing.T) {
	now := time.Now()
	path := t.TempDir() + "/" + stateFile
	s, _, err := state.Open(path, now)
	check(t, err)
	b := held("192.0.2.1/32", now.Add(-5*time.Minute), 24*time.Hour, "web", "firewall")
	given := now.Add(-10 * time.Minute)
	check(t, s.Commit(state.Update{Bans: []state.Ban{b}, Pardons: []state.Pardon{{Target: b.Target, Since: given, Before: given, Keep: given.Add(2 * time.Hour)}}}))
	check(t, s.Close())

	early := clockSetTo(t, now, -20*time.Minute)
	s, l, err := state.Open(path, early)
	check(t, err)
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.clock = wallClock{early}
	r.takeUp(l, nil, early)
	r.handOver()
	r.now = clockSetTo(t, early.Add(2*time.Minute), 20*time.Minute)
	r.lookAtClock(r.now)
	if got := r.pardons.keys[state.PardonKey{Target: b.Target}].Since.Round(0); got.Sub(given.Round(0)).Abs() > time.Second {
		t.Errorf("the pardon was given at %v, want %v", got, given)
	}
	for _, u := range r.took() {
		check(t, s.Commit(u))
	}
	check(t, s.Close())

	s, l, err = state.Open(path, r.now)
	check(t, err)
	check(t, s.Close())
	next := newRig(t, start{config: web, actions: []string{"firewall"}})
	next.takeUp(l, nil, r.now)
	if next.bans.bans[b.Target] == nil {
		t.Error("the ban that came after the pardon is gone")
	}
}
