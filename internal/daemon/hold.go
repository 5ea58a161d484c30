package daemon

import (
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// hasJail reports whether there is a jail of that name, or a [deny].
func (e *engine) hasJail(name string) bool {
	_, yes := e.sentence(name)
	return yes
}

// checkOwner refuses a name that neither a jail has nor an owner of some ban.
func (e *engine) checkOwner(name string) error {
	if name == control.ByHand || name == adoptedJail || e.hasJail(name) || e.owns(name) {
		return nil
	}
	return e.noJail(name)
}

// noJail is the answer to who names one that isn't there.
func (e *engine) noJail(name string) error {
	var names []string
	for i := range e.config.Jails {
		names = append(names, e.config.Jails[i].Name)
	}
	return &control.Error{Code: control.CodeNotFound, Message: "there is no jail " + quote(name), Hint: "there are: " + list(names)}
}

// mode is what a jail does with its decisions.
func (e *engine) mode(name string) string {
	if h, yes := e.held[name]; yes {
		return heldMode(&h)
	}
	if x, _ := e.sentence(name); x.observe {
		return control.ModeObserve
	}
	return control.ModeEnforce
}

// heldMode is what a jail does that is held: those that the breaker holds go on
// for all but regulars.
func heldMode(h *state.Hold) string {
	if h.By == control.ByBreaker {
		return control.ModeSparing
	}
	return control.ModeHeld
}

// applyHold has a hold take effect.
func (e *engine) applyHold(h state.Hold) {
	e.held[h.Jail] = h
	e.detect.Hold(h.Jail, heldMode(&h) == control.ModeHeld)
}

// hold makes a jail only observe, or spare regulars, from the next line on. Its
// bans stay.
func (e *engine) hold(h state.Hold, now time.Time) (*control.HoldResult, error) {
	if !e.hasJail(h.Jail) {
		return nil, e.noJail(h.Jail)
	}
	r := &control.HoldResult{Jail: h.Jail, Was: e.mode(h.Jail), Mode: heldMode(&h)}
	e.steered[h.Jail] = true
	e.applyHold(h)
	e.update.Holds = append(e.update.Holds, h)
	e.handOver()
	e.hub.publish(control.Event{Time: now, Kind: "hold", Jail: h.Jail, Until: h.Until, Reason: h.Reason, By: h.By})
	return r, nil
}

// resume ends that.
func (e *engine) resume(jail, reason, by string, now time.Time) (*control.HoldResult, error) {
	e.steered[jail] = e.hasJail(jail)
	h, yes := e.held[jail]
	if !yes {
		if !e.hasJail(jail) {
			return nil, e.noJail(jail)
		}
		m := e.mode(jail)
		return &control.HoldResult{Jail: jail, Was: m, Mode: m}, nil
	}
	delete(e.held, jail)
	e.detect.Hold(jail, false)
	e.update.ForgetHolds = append(e.update.ForgetHolds, jail)
	e.handOver()
	e.hub.publish(control.Event{Time: now, Kind: "resume", Jail: jail, Reason: reason, By: by})
	return &control.HoldResult{Jail: jail, Was: heldMode(&h), Mode: e.mode(jail)}, nil
}

// endHolds resumes jails whose time is up.
func (e *engine) endHolds(now time.Time) {
	for jail, h := range e.held {
		if h.Until.IsZero() || h.Until.After(now) {
			continue
		}
		e.log.Info("jail enforces again: the time for which it was held is up", "jail", jail)
		_, _ = e.resume(jail, "its time is up", "", now) // it is held, so there is no error
	}
}

// restoreHolds takes up those of an earlier daemon. One of a jail that is gone
// waits for its return.
func (e *engine) restoreHolds(list []state.Hold, now time.Time) {
	for _, h := range list {
		if e.steered[h.Jail] || !h.Until.IsZero() && !h.Until.After(now) {
			e.update.ForgetHolds = append(e.update.ForgetHolds, h.Jail)
			continue // somebody has had a word since, or its time is up
		}
		h = holdByClock(h, now)
		e.applyHold(h)
		e.log.Warn("jail is held, as it was before the restart", "mode", heldMode(&h), "jail", h.Jail, "by", h.By, "until", until(h.Until), "reason", h.Reason)
	}
}

// until is a time at which something ends, in words.
func until(t time.Time) string {
	if t.IsZero() {
		return "it is resumed"
	}
	return t.UTC().Format(time.RFC3339)
}
