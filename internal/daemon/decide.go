package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// decided makes a decision a ban.
func (e *engine) decided(d *detector.Decision, now time.Time) {
	attrs := []any{"jail", d.Jail, "target", d.Target.String(), "client", d.Client.String(), "count", d.Count,
		"window", d.Window.String(), "plane", d.Plane.String(), "file", d.Line.Path, "offset", d.Line.Offset}
	jail := e.jail(d.Jail)
	jail.decisions++
	e.noteDecision(d)
	if d.Refused != "" {
		jail.refused++
		e.publishDecision("refuse", d, time.Time{}, now)
		if e.said.once("refused "+d.Jail+" "+d.Target.String(), now) {
			e.say(now, slog.LevelWarn, "not banned: protected", append(attrs, "reason", d.Refused)...)
		}
		return
	}
	attrs = append(attrs, "offence", d.Offence)
	if d.Claims != "" {
		attrs = append(attrs, "claims", d.Claims, "unproven", d.Unproven)
	}
	offence := state.Offence{Jail: d.History, Target: d.Target, Count: d.Offence, Last: time.Unix(0, d.Time)}
	if d.Past {
		if !d.Observe {
			e.offended(offence)
		}
		e.publishDecision("past", d, time.Time{}, now)
		e.say(now, slog.LevelInfo, "offence found while catching up; its ban would be over", attrs...)
		return
	}
	o := owner(d, now)
	o.Actions = reach(e.config.Actions, o.Actions, o.Plane)
	o.Sample = sampleOf(e.detect.Event())
	ban, full, isNew := e.bans.add(d.Target, e.origin, o)
	if full != nil {
		e.lift(full)
		e.sayFull(now)
	}
	if !isNew {
		return
	}
	jail.last = now
	if !d.Observe { // or else the first ban that is enforced would be a second offence
		e.offended(offence)
	}
	e.enforceInTurn(ban, now)
	e.touch(ban)
	attrs = append(attrs, "until", o.Until.UTC().Format(time.RFC3339))
	if ban.Waiting {
		attrs = append(attrs, "waits", true)
	}
	if d.Observe {
		e.publishDecision("observe", d, o.Until, now)
		e.say(now, slog.LevelInfo, "would be banned (observe)", attrs...)
		return
	}
	if slices.ContainsFunc(d.Actions, e.keepsAway) && !slices.ContainsFunc(d.Actions, func(a string) bool { return isEdge(e.config.Actions, a) }) {
		jail.behind.add(d.Plane, now)
	}
	e.bannedBy(d.Jail, d.Target, now)
	e.publishDecision("ban", d, o.Until, now)
	e.say(now, slog.LevelInfo, "banned", attrs...)
}

// offended has an offence stored.
func (e *engine) offended(o state.Offence) {
	e.update.Offences = append(e.update.Offences, o)
	e.offences.add(&o)
}

// touch has a ban stored, or its end, as it is when the update is handed over.
func (e *engine) touch(b *state.Ban) { e.changed[b.Target] = struct{}{} }

// say logs one of what can be many messages.
func (e *engine) say(now time.Time, level slog.Level, msg string, attrs ...any) {
	ok, left := e.said.allow(now)
	e.sayLeft(left)
	if ok {
		e.log.Log(context.Background(), level, msg, attrs...)
	}
}

// sayRest says how much has not been logged, if no message has come since
// that could have.
func (e *engine) sayRest(now time.Time) { e.sayLeft(e.said.rest(now)) }

func (e *engine) sayLeft(n int) {
	if n > 0 {
		e.log.Info("more bans and offences than are logged one by one", "not_logged", n)
	}
}

// sayFull says that bans had to make room.
func (e *engine) sayFull(now time.Time) {
	if e.said.once("max_bans", now) {
		e.log.Warn("max_bans is reached: the bans that end soonest make room", "max_bans", e.bans.cap, "dropped", e.bans.evicted)
	}
}

// enforce tells each action until when it is to ban.
func (e *engine) enforce(b *state.Ban) {
	for name, r := range e.reconciler {
		if until := b.Until(name); !until.IsZero() {
			r.Set(b.Target, until)
		}
	}
}

// lift ends a ban, which is off the table, before its time.
func (e *engine) lift(b *state.Ban) {
	if e.again == nil { // or else lines from before it ended would count: see settle
		e.detect.Unban(b.Target)
	}
	e.note(state.Note{What: state.NoteLifted, Target: b.Target})
	e.touch(b)
	for name, r := range e.reconciler {
		if !b.Until(name).IsZero() {
			r.Delete(b.Target)
		}
	}
}

// liftProtected ends bans of targets that have become protected since they
// were banned: an address that is our own now, a new gateway.
func (e *engine) liftProtected(now time.Time) {
	v := e.guard.Version()
	if v == e.guarded {
		return
	}
	e.guarded = v
	e.recheckNetworks()
	for target, h := range e.bans.bans {
		if _, yes := e.guard.Protected(target); yes {
			e.spare(&h.Ban, now)
		}
	}
	e.handOver()
}

// expire lets go of bans whose time is up. The actions end them by
// themselves.
func (e *engine) expire(now time.Time) {
	e.bans.expire(now, e.touch, func(b *state.Ban) {
		e.touch(b)
		e.hub.publish(control.Event{Time: now, Kind: "end", Target: b.Target})
		e.say(now, slog.LevelInfo, "ban over", "target", b.Target.String())
	})
	e.handOver()
}
