package daemon

import (
	"log/slog"
	"time"

	"github.com/tailban/tailban/state"
)

// storm lets so many bans a minute be enforced: a bucket of tokens that holds
// one minute's, and is filled all the time. What finds none waits, in the ban
// table, for its turn.
type storm struct {
	rate   int // 0: no bound
	tokens float64
	filled time.Time
	began  time.Time // when the first of those that wait began to; zero: none waits
	passed uint64    // bans that had to wait since then
}

func newStorm(rate int, now time.Time) *storm {
	return &storm{rate: rate, tokens: float64(rate), filled: now}
}

// take takes a token, if there is one.
func (s *storm) take(now time.Time) bool {
	if s.rate == 0 {
		return true
	}
	s.fill(now)
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// fill adds the tokens of the time since the last call. A clock that is set back
// costs no more than that time.
func (s *storm) fill(now time.Time) {
	passed := max(0, now.Sub(s.filled))
	s.filled = now
	s.tokens = min(float64(s.rate), s.tokens+float64(s.rate)*passed.Minutes())
}

// next is when there will be a token.
func (s *storm) next(now time.Time) time.Time {
	s.fill(now)
	missing := 1 - s.tokens
	if missing <= 0 {
		return now
	}
	return now.Add(time.Duration(missing/float64(s.rate)*float64(time.Minute)) + time.Millisecond)
}

// severity is what a ban that waits is judged by: the requests that were counted
// when it was decided and have come since, times which offence it is.
func (h *heldBan) severity() int64 {
	worst := int64(0)
	for i := range h.Owners {
		o := &h.Owners[i]
		worst = max(worst, (int64(o.Count)+int64(h.requests))*int64(max(1, o.Offence)))
	}
	return worst
}

// release enforces as many of the bans that wait as there are tokens, the worst
// first.
func (e *engine) release(now time.Time) {
	for h := e.bans.waiting.first(); h != nil; h = e.bans.waiting.first() {
		if !e.storm.take(now) {
			return
		}
		e.storm.passed++
		e.admit(h)
	}
	if !e.storm.began.IsZero() {
		e.log.Info("no ban waits any longer", "since", e.storm.began.UTC().Format(time.RFC3339), "waited", e.storm.passed)
		e.storm.began, e.storm.passed = time.Time{}, 0
	}
}

// admit enforces a ban that has waited.
func (e *engine) admit(h *heldBan) {
	e.bans.waiting.remove(h)
	h.Waiting = false
	e.touch(&h.Ban)
	e.enforce(&h.Ban)
}

// enforceInTurn enforces a ban that a jail has decided, or has it wait for its
// turn if there are too many.
func (e *engine) enforceInTurn(b *state.Ban, now time.Time) {
	h := e.bans.bans[b.Target]
	switch {
	case h.Waiting:
		e.bans.waiting.moved(h)
		return
	case h.queued || !h.enforceable() || e.bans.waiting.first() == nil && e.storm.take(now):
		h.queued = h.queued || h.enforceable()
		e.enforce(b)
		return
	}
	h.Waiting, h.queued = true, true
	e.bans.waiting.add(h)
	if e.storm.began.IsZero() {
		e.storm.began = now
		e.say(now, slog.LevelWarn, "more bans than max_bans_per_minute: the worst come first, the others wait", "max_bans_per_minute", e.storm.rate)
		e.hub.publish(alarm(now, "more bans than max_bans_per_minute: the worst come first, the others wait"))
	}
}

// enforceable reports whether any owner wants the ban enforced.
func (h *heldBan) enforceable() bool {
	for i := range h.Owners {
		if len(h.Owners[i].Actions) > 0 {
			return true
		}
	}
	return false
}
