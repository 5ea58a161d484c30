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

	// tried says that they are of a time when the rule only observed. They
	// would make the first ban that is enforced longer.
	tried bool
}

// offence is how many there were, up to the latest.
type offence struct {
	count int
	last  int64
}

func (e *Engine) offenceNoted(k offenceKey, n int) {
	if e.histories[k.history] += n; e.histories[k.history] == 0 {
		delete(e.histories, k.history)
	}
	if k.host() {
		e.hostsPast += n
	}
}

// history names what counts the offences of a rule.
func (e *Engine) history(r *rule) string {
	switch {
	case !e.rules.opt.SharedHistory:
		return r.name
	case r.owner == enforced:
		return SharedHistory
	default:
		return ObservedHistory
	}
}

// tried reports whether the offences of a rule are counted apart from those of
// a time when it enforces. Histories that are shared are apart already.
func (e *Engine) tried(r *rule) bool { return r.observe && !e.rules.opt.SharedHistory }

// Remember returns for how long after its latest offence a history counts
// those of a target. Of one that is not known, as that of a jail which is
// gone, it is what the options say.
func (e *Engine) Remember(history string) time.Duration {
	if d, ok := e.rules.remember[history]; ok {
		return d
	}
	return e.rules.opt.Remember
}

// offences returns how many offences count at a time. A rule that is tried out
// goes on from where it would be if it weren't.
func (e *Engine) offences(history string, tried bool, target netip.Prefix, at int64) int {
	k := offenceKey{keyOf(target), history, false}
	o, _, _ := e.past.get(k, at)
	if tried {
		k.tried = true
		t, _, _ := e.past.get(k, at)
		return max(o.count, t.count)
	}
	return o.count
}

// offended notes how many offences there are now, with the latest.
func (e *Engine) offended(history string, tried bool, target netip.Prefix, count int, last int64) {
	e.past.put(offenceKey{keyOf(target), history, tried}, offence{count, last}, last+int64(e.Remember(history)))
}

// RestoreOffence tells the engine of earlier decisions against a target: how
// many there were, and the event time of the latest. If it knows of more, which
// were only observed, that stays.
func (e *Engine) RestoreOffence(history string, target netip.Prefix, count int, last time.Time) {
	if o, _, ok := e.past.get(offenceKey{keyOf(target), history, false}, last.UnixNano()); ok && o.count > count {
		return
	}
	e.offended(history, false, target, count, last.UnixNano())
}

// ban sets the length of a ban, which is the ladder's step for an offence (1:
// the first), and when it ends.
func (d *Decision) ban(ladder []time.Duration, offence int) {
	d.Ban = ladder[min(offence, len(ladder))-1]
	d.Until = d.Since + int64(d.Ban)
}
