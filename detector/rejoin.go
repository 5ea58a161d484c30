package detector

import (
	"net/netip"
	"time"
)

// Knows reports whether the engine's offences of a history reach the one of
// that event time: it has made this decision, or a later one, itself or was
// told.
func (e *Engine) Knows(history string, target netip.Prefix, last time.Time) bool {
	entry := e.past.entries[offenceKey{keyOf(target.Masked()), history, false}]
	return entry != nil && entry.value.last >= last.UnixNano()
}

// Observes reports whether a ban of exactly that target, which a jail only
// observed, is known.
func (e *Engine) Observes(target netip.Prefix, jail string) bool {
	j := e.jail(jail)
	return j != nil && e.bans.entries[banKey{keyOf(target.Masked()), j.id}] != nil
}

// Consume has the events of exactly that target up to a time, in nanoseconds
// since the epoch, no longer count in the jails of a history, or in all if
// that is "": a decision has used them up that the engine did not make. Those
// that come later count, whatever their time.
func (e *Engine) Consume(history string, target netip.Prefix, upTo int64) {
	k := keyOf(target.Masked())
	all := history == "" || history == SharedHistory || history == ObservedHistory
	for _, j := range e.jails {
		if all || j.Name == history {
			e.windows.consume(j.rule, k, upTo)
		}
	}
}

// consume drops the times of a window up to one.
func (t *table) consume(rule uint16, k key, upTo int64) {
	i, ok := t.index[tableKey{k.hi, k.lo, k.bits, rule}]
	if !ok {
		return
	}
	w := &t.slot(i).win
	left := after(w.times, upTo)
	if len(left) == 0 {
		t.remove(i)
		return
	}
	w.times = w.times[:copy(w.times, left)]
}

// Rejoin forgets what is known better elsewhere, and is to be told with
// [Engine.Restore] and [Engine.RestoreOffence] now: the bans that run beyond
// now, and all offences but those of a time when their rule only observed.
func (e *Engine) Rejoin(now time.Time) {
	for bk, b := range e.bans.entries {
		if b.until > now.UnixNano() {
			e.bans.delete(bk)
		}
	}
	for k := range e.past.entries {
		if !k.tried {
			e.past.delete(k)
		}
	}
}
