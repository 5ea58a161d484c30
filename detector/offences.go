package detector

import (
	"net/netip"
	"time"
)

// Names of histories that no jail can have: where they are shared, what
// enforces has one, and what only observes or logs another. Nobody is banned
// for longer because of what was only tried out.
const (
	SharedHistory   = "(shared)"
	ObservedHistory = "(observed)"
)

// offenceKey names a count of offences.
type offenceKey struct {
	key
	history string
}

// history names what counts the offences of a rule.
func (e *Engine) history(rule string, owner int) string {
	switch {
	case !e.opt.SharedHistory:
		return rule
	case owner == enforced:
		return SharedHistory
	default:
		return ObservedHistory
	}
}

// rememberAs notes how long the offences of a rule count, if it has a history
// and a time of its own.
func (e *Engine) rememberAs(rule string, d time.Duration) {
	if d > 0 && !e.opt.SharedHistory {
		e.remember[rule] = d
	}
}

// Remember returns for how long after its latest offence a history counts
// those of a target. Of one that is not known, as that of a jail which is
// gone, it is what the options say.
func (e *Engine) Remember(history string) time.Duration {
	if d, ok := e.remember[history]; ok {
		return d
	}
	return e.opt.Remember
}

// offences returns how many offences count at a time.
func (e *Engine) offences(history string, target netip.Prefix, at int64) int {
	n, _, _ := e.past.get(offenceKey{keyOf(target), history}, at)
	return n
}

// offended notes how many offences there are now, with the latest.
func (e *Engine) offended(history string, target netip.Prefix, count int, last int64) {
	e.past.put(offenceKey{keyOf(target), history}, count, last+int64(e.Remember(history)))
}

// RestoreOffence tells the engine of earlier decisions against a target: how
// many there were, and the event time of the latest.
func (e *Engine) RestoreOffence(history string, target netip.Prefix, count int, last time.Time) {
	e.offended(history, target, count, last.UnixNano())
}

// ban sets the length of a ban, which is the ladder's step for an offence (1:
// the first), and when it ends.
func (d *Decision) ban(ladder []time.Duration, offence int) {
	d.Ban = ladder[min(offence, len(ladder))-1]
	d.Until = d.Since + int64(d.Ban)
}
