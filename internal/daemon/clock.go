package daemon

import (
	"log/slog"
	"time"

	"github.com/tailban/tailban/state"
)

// clockStep is how far the wall clock may drift from the time that passes
// before it counts as set. As it is slewed it comes to that now and then, too.
const clockStep = 2 * time.Second

// wallClock notices that the wall clock was set, or stood still or ran on while
// the machine was suspended. Bans end when their time has passed, here and in
// the kernel, whatever the clock says; what people are shown, the state file and
// the detector go by the clock.
type wallClock struct {
	last time.Time // when it was as the bans have it
}

// moved returns by how much the clock was set since it last returned something.
func (w *wallClock) moved(now time.Time) time.Duration {
	if w.last.IsZero() {
		w.last = now
		return 0
	}
	by := now.Round(0).Sub(w.last.Round(0)) - now.Sub(w.last)
	if by.Abs() < clockStep {
		return 0
	}
	w.last = now
	return by
}

// lookAtClock has everything that goes by the wall clock know of bans, and of what
// was said by hand, by the time they have left, when the clock was set.
func (e *engine) lookAtClock(now time.Time) {
	by := e.clock.moved(now)
	if by == 0 {
		return
	}
	e.say(now, slog.LevelWarn, "the clock was set: bans keep the time that they have left", "by", by.Round(time.Millisecond).String(), "bans", len(e.bans.bans))
	for target, h := range e.bans.bans {
		if h.shift(now) {
			e.bans.moved(h)
			e.enforce(&h.Ban)
		}
		e.touch(&h.Ban)
		if e.again == nil {
			e.detect.Unban(target)
			e.tellDetector(&h.Ban)
		}
		e.noteChanged(&h.Ban)
	}
	e.detect.ClockSet(by)
	for _, p := range e.pardons.keys {
		p.Since, p.Before, p.Keep = byClock(p.Since, now), byClock(p.Before, now), byClock(p.Keep, now)
		if s := p.Stored; !s.IsZero() && !s.After(now.Round(0)) { // it was given when the file says
			by := p.Since.Round(0).Sub(s)
			p.Since, p.Before, p.Keep, p.Stored = p.Since.Add(-by), p.Before.Add(-by), p.Keep.Add(-by), time.Time{}
			e.pardons.ends.moved(p)
		}
		e.retellPardon(p)
	}
	for jail, h := range e.held {
		h = holdByClock(h, now)
		e.held[jail] = h
		e.update.Holds = append(e.update.Holds, h)
	}
	e.snapshots.hasten()
	e.handOver()
	e.shiftAllowances(now, e.put)
}

// byClock is a time as the clock that runs now has it: so long ago, so long from
// now, by the time that passes. One from a file is taken to be of this clock, and
// moves with it from here on.
func byClock(t, now time.Time) time.Time { return now.Add(t.Sub(now)) }

func holdByClock(h state.Hold, now time.Time) state.Hold {
	h.Since = byClock(h.Since, now)
	if !h.Until.IsZero() {
		h.Until = byClock(h.Until, now)
	}
	return h
}

// shift has a ban's times say in the clock that runs now what they mean: so
// long ago, so long from now. A ban that was taken up by a clock that stood in
// its past, as that of a machine that starts in 1970, ends when it should have,
// if the clock is right now; shift reports whether that is sooner.
func (h *heldBan) shift(now time.Time) (sooner bool) {
	wall := now.Round(0)
	for i := range h.Owners {
		o := &h.Owners[i]
		length, left := o.Until.Sub(o.Since), o.Until.Sub(now)
		if stored := o.Stored.Sub(wall); !o.Stored.IsZero() && stored <= length {
			o.Stored = time.Time{}
			sooner = sooner || stored < left
			left = min(left, stored)
		}
		o.Since, o.Until = now.Add(left-length), now.Add(left)
	}
	h.change, h.end = ends(h.Owners)
	return sooner
}
