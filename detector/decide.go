package detector

import (
	"net/netip"
	"time"
)

// rule is what a decision takes from the jail, or from the denial, that asks
// for it.
type rule struct {
	name    string
	owner   int // of the ban
	limit   int
	window  time.Duration
	ban     []time.Duration // the ladder
	observe bool
	actions []string
}

// ruling is what the denial asks for.
func (d *denied) ruling() *rule {
	return &rule{name: DenyName, owner: d.owner, ban: d.Ban, observe: d.observes, actions: d.Actions}
}

// ruling is what the jail asks for against a client that has that limit.
func (j *jail) ruling(limit int) *rule {
	return &rule{
		name: j.Name, owner: j.owner, limit: limit, window: j.Window,
		ban: j.Ban, observe: j.observes, actions: j.Actions,
	}
}

// deny decides against a client that is denied.
func (e *Engine) deny(l *Log, v *Verdict, c *candidate) {
	switch {
	case e.recall != nil || e.deniedBefore(c):
	case e.postponed.waits(c, DenyName):
		e.postpone(v, l, c, DenyName)
	default:
		e.decide(v, c, e.denied.ruling())
	}
}

// deniedBefore reports whether a denial would only repeat a ban.
func (e *Engine) deniedBefore(c *candidate) bool {
	return e.banned(c, enforced) || e.banned(c, e.denied.owner)
}

// decide makes a decision and, unless the guard refuses it, remembers it.
func (e *Engine) decide(v *Verdict, c *candidate, r *rule) {
	if c.pending {
		e.postponed.refused++
	}
	d := e.judge(v, c, r)
	v.Decisions = append(v.Decisions, d)
	if d.Refused != "" {
		return
	}
	e.offended(d.History, e.tried(r), d.Target, d.Offence, d.Time)
	until := d.Until
	if d.Past {
		// A ban that would be over already runs, for the events that follow it
		// in the log, as long as it would have; one that is enforced runs until
		// it is lifted.
		until = d.Time + int64(d.Ban)
	}
	e.setBan(d.Target, r.owner, until)
}

// judge makes a decision and remembers nothing. v holds those of the same line
// so far.
func (e *Engine) judge(v *Verdict, c *candidate, r *rule) Decision {
	now := c.moment()
	d := Decision{
		Jail: r.name, Target: c.target(), Client: c.client, Plane: c.plane,
		Time: c.time, Count: r.limit + 1, Limit: r.limit, Window: r.window, Since: now,
		History: e.history(r),
		Observe: r.observe, Enforced: r.owner == enforced, Actions: r.actions, Line: *e.at,
		Claims: c.claims, Unproven: c.why,
	}
	if g := e.rules.opt.Guard; g != nil {
		target, reason := g.Check(r.name, d.Target, c.client)
		if reason != "" {
			d.Refused = reason
			d.ban(r.ban, e.offences(d.History, e.tried(r), d.Target, c.time)+1)
			return d
		}
		d.Target = target
	}
	// Several jails that decide at one line, and share their history, see one
	// offence.
	if d.Offence = v.offence(d.History, d.Target); d.Offence == 0 {
		d.Offence = e.offences(d.History, e.tried(r), d.Target, c.time) + 1
	}
	d.ban(r.ban, d.Offence)
	d.Past = c.time+int64(d.Ban) <= now
	return d
}

// offence returns the number that a decision of this line has got already, 0
// if there is none of the same history and target.
func (v *Verdict) offence(history string, target netip.Prefix) int {
	for i := range v.Decisions {
		if d := &v.Decisions[i]; d.Refused == "" && d.History == history && d.Target == target {
			return d.Offence
		}
	}
	return 0
}

// Forget drops what has been idle since before horizon, in nanoseconds since
// the epoch: windows that no event later than horizon can reach, bans and
// offences that ended before it. The caller chooses a horizon that the times
// of coming lines won't fall behind; an event that does counts in a window
// that starts afresh.
func (e *Engine) Forget(horizon int64) {
	e.windows.forget(horizon)
	e.bans.forget(horizon)
	e.past.forget(horizon)
}

// Stats are counters and sizes of an Engine.
type Stats struct {
	Windows      int    // keys in memory
	Memory       int64  // bytes that windows take
	Evicted      uint64 // windows dropped for lack of memory
	Refused      uint64 // events not counted for lack of memory
	Late         uint64 // events older than their key's window, not counted
	Bans         int
	BansEvicted  uint64
	Offences     int
	OffencesLost uint64
}

// Stats returns the engine's counters.
func (e *Engine) Stats() Stats {
	return Stats{
		Windows: e.windows.index.len(), Memory: e.windows.used,
		Evicted: e.windows.evicted, Refused: e.windows.refused, Late: e.windows.late,
		Bans: e.bans.len(), BansEvicted: e.bans.evicted,
		Offences: e.past.len(), OffencesLost: e.past.evicted,
	}
}
