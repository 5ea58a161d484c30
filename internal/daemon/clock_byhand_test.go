package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// byHand is what is stored in the end of what was said by hand.
type byHand struct {
	pardon    state.Pardon
	hold      state.Hold
	allowance state.Allowance
}

// say has somebody unbanned, allowed and a jail held, for half an hour each.
func (r *rig) say() {
	r.Helper()
	_, err := r.unban(release{target: pfx("192.0.2.7/32"), forgive: time.Hour / 2}, r.now)
	check(r, err)
	_, err = r.hold(state.Hold{Jail: "other", Since: r.now, Until: r.now.Add(time.Hour / 2)}, r.now)
	check(r, err)
	a := state.Allowance{Target: pfx("192.0.2.8/32"), Since: r.now, Until: r.now.Add(time.Hour / 2)}
	r.daemon.setAllowed(func(l *allowList) { l.byHand = append(l.byHand, a) })
	r.put(state.Update{Allowances: []state.Allowance{a}})
	r.setAllow(<-r.allow, r.now)
}

// stored is what was handed over last of what was said by hand, as a file has it.
func (r *rig) stored() (x byHand) {
	for _, u := range r.took() {
		for _, p := range u.Pardons {
			p.Since, p.Before, p.Keep = p.Since.Round(0), p.Before.Round(0), p.Keep.Round(0)
			x.pardon = p
		}
		for _, h := range u.Holds {
			h.Since, h.Until = h.Since.Round(0), h.Until.Round(0)
			x.hold = h
		}
		for _, a := range u.Allowances {
			a.Since, a.Until = a.Since.Round(0), a.Until.Round(0)
			x.allowance = a
		}
	}
	return x
}

// What was said by hand lasts as long as it was said to, when the clock is set in
// between: neither for ten years more nor for a moment only. What is stored and
// shown is by the clock as it is then, and the next daemon goes on with it.
func TestClockIsSetAfterAWordByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		by   time.Duration
	}{{"from ten years ahead", -10 * year}, {"from 1970", 56 * year}, {"by an hour, back", -time.Hour}, {"by an hour, forth", time.Hour}} {
		for _, restored := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", over a restart"}[restored], func(t *testing.T) {
				right := time.Now()
				r := newRig(t, start{config: strict, actions: []string{"firewall"}})
				r.now = clockSetTo(t, right, -c.by)
				r.lookAtClock(r.now)
				r.say()
				if restored { // by a clock that is as wrong
					x, now := r.stored(), r.now
					r = newRig(t, start{config: strict, actions: []string{"firewall"}})
					r.now = now
					r.lookAtClock(r.now)
					r.restorePardons([]state.Pardon{x.pardon}, r.now)
					r.restoreHolds([]state.Hold{x.hold}, r.now)
					r.daemon.allow.byHand = allowancesByClock([]state.Allowance{x.allowance}, r.now)
					r.setAllow(allowed{1, r.daemon.allow.all()}, r.now)
				}
				r.took()
				r.daemon.writer = state.NewWriter(r.daemon.store, r.journal.logger()) // which is never run
				r.now = clockSetTo(t, right.Add(time.Minute), 0)
				r.lookAtClock(r.now)
				r.upkeep(r.now)

				said, over := right.Round(0), right.Round(0).Add(time.Hour/2)
				x := r.stored()
				if p := x.pardon; !p.Since.Equal(said) || !p.Before.Equal(over) || !p.Keep.Equal(over.Add(time.Minute+pardonRest)) {
					t.Errorf("stored is the pardon %+v, want from %v to %v", p, said, over)
				}
				if h := x.hold; !h.Since.Equal(said) || !h.Until.Equal(over) {
					t.Errorf("stored is the hold %+v, want from %v to %v", h, said, over)
				}
				if a := x.allowance; !a.Since.Equal(said) || !a.Until.Equal(over) {
					t.Errorf("stored is the allowance %+v, want from %v to %v", a, said, over)
				}
				for _, ends := range []bool{false, true} { // a minute before half an hour is up, and behind it
					r.now = right.Add(time.Hour/2 - time.Minute)
					if ends {
						r.now = right.Add(time.Hour/2 + time.Minute)
					}
					r.daemon.endAllowances(r.now)
					select {
					case a := <-r.allow:
						r.setAllow(a, r.now)
					default:
					}
					r.upkeep(r.now)
					for range 3 {
						r.requests("192.0.2.7", "192.0.2.8")
					}
					if n := len(r.bans.bans); n != map[bool]int{true: 2}[ends] {
						t.Errorf("half an hour is up: %v; there are %d bans", ends, n)
					}
					if m := r.modeOf("other"); m != map[bool]string{true: control.ModeEnforce, false: control.ModeHeld}[ends] {
						t.Errorf("half an hour is up: %v; the jail is %s", ends, m)
					}
				}
			})
		}
	}
}

// A hold until somebody resumes the jail has no end in any clock.
func TestClockIsSetWhileHeldWithoutEnd(t *testing.T) {
	r := newRig(t, start{config: strict, actions: []string{"firewall"}})
	r.lookAtClock(r.now)
	_, err := r.hold(state.Hold{Jail: "web", Since: r.now}, r.now)
	check(t, err)
	r.took()
	r.now = clockSetTo(t, r.now, time.Hour)
	r.lookAtClock(r.now)
	if h := r.stored().hold; h.Jail != "web" || !h.Until.IsZero() || !h.Since.Equal(r.now.Round(0)) {
		t.Errorf("stored is %+v", h)
	}
	if r.modeOf("web") != control.ModeHeld {
		t.Error("it is not held any more")
	}
}
