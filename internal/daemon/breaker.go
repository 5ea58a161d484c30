package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/state"
)

const (
	// hitSpan is how long a regular that a jail has banned counts against it.
	hitSpan = 10 * time.Minute

	// Below so many there is no telling: of all regulars that were hit, and of
	// those who have been known for longer.
	minHits, minOldHits = 5, 3

	// hitsPause is how far apart two looks at all regulars are at least.
	hitsPause = 200 * time.Millisecond

	// maxTripPardons is how many of those that are let go at once get a pardon: the
	// room for them is for those of people.
	maxTripPardons = 1000

	// Regulars of one network of these lengths count as one: whoever has it can
	// come from as many addresses of it as he likes.
	origin4, origin6 = 24, 40
)

// breaker knows when a jail's bans say more about its configuration than about
// whom they hit. Only the engine's goroutine uses it.
type breaker struct {
	regulars *regulars
	jails    map[string]*jailHits
	held     map[string]state.Hold // jails that only observe, or spare regulars, for now
	log      *logState             // whose lines are read just now
	now      time.Time             // of these
}

// jailHits are the regulars that a jail has banned lately.
type jailHits struct {
	hits   []hit // oldest first
	looked time.Time
}

type hit struct {
	target netip.Prefix
	at     time.Time
	known  regular
}

func newBreaker() *breaker {
	return &breaker{regulars: newRegulars(), jails: map[string]*jailHits{}, held: map[string]state.Hold{}}
}

// spares reports whether a jail lets regulars go for now.
func (b *breaker) spares(jail string) bool {
	h, yes := b.held[jail]
	return yes && heldMode(&h) == control.ModeSparing
}

// sparing is the guard as the detector asks it: the never-ban set, the address
// that stands for most of a log's traffic, and the regulars of a jail that has
// tripped the breaker.
type sparing struct {
	*guard.Set
	breaker *breaker
}

// Check implements detector.Guard.
func (s *sparing) Check(jail string, target netip.Prefix, client netip.Addr) (allowed netip.Prefix, reason string) {
	allowed, reason = s.Set.Check(jail, target, client)
	b := s.breaker
	if reason != "" || b.log == nil { // a line that is only explained has none
		return allowed, reason
	}
	if why := b.log.majority.misread(client, b.now, true); why != "" {
		b.log.misread = fmt.Sprintf("%s %s", client, why)
		return netip.Prefix{}, why
	}
	if b.spares(jail) && b.regulars.has(target, b.now) {
		return netip.Prefix{}, "a regular client, and the jail has hit too many of those (tailban resume ends this)"
	}
	return allowed, ""
}

// sparedBy says which jails spare a client for now.
func (b *breaker) sparedBy(target netip.Prefix, now time.Time) (notes []string) {
	if !b.regulars.has(target, now) {
		return nil
	}
	for _, jail := range slices.Sorted(maps.Keys(b.held)) {
		if b.spares(jail) {
			notes = append(notes, "jail "+jail+" spares it for now, as a regular client: its bans have hit too many of those (tailban resume ends this)")
		}
	}
	return notes
}

// observeLine notes a line for the breaker: who comes and behaves, and who
// stands for most of a log.
func (e *engine) observeLine(l *logState, v *detector.Verdict, now time.Time) {
	l.majority.add(v.Client, now)
	if v.Step != detector.StepCounted && v.Step != detector.StepUnmatched || len(v.Decisions)+v.Postponed > 0 {
		return
	}
	if ev := e.detect.Event(); ev.Status > 0 && ev.Status < 400 {
		e.breaker.regulars.note(e.detect.Target(v.Client), l.usersChecked && len(ev.User) > 0, now)
	}
}

// bannedBy notes whom a jail has banned. A regular begins anew, and is one that
// the jail has hit. What comes of that is for lookAtAllHits, between two batches.
func (e *engine) bannedBy(jail string, target netip.Prefix, now time.Time) {
	c, known := e.breaker.regulars.forget(target)
	if !known || !c.is(now) {
		return
	}
	j := e.breaker.jails[jail]
	if j == nil {
		j = &jailHits{}
		e.breaker.jails[jail] = j
	}
	j.hits = append(j.hits, hit{target, now, c})
}

// sayMisread says of a log that its clients are likely not who they seem to be.
func (e *engine) sayMisread(l *logState, now time.Time) {
	if l.misread == "" {
		return
	}
	if e.said.once("misread "+l.Name, now) {
		e.log.Error("no ban: the log's clients are likely not its clients", "log", l.Name, "reason", l.misread)
		e.hub.publish(alarm(now, "log "+l.Name+": "+l.misread))
	}
	l.misreadAt, l.misreadWas, l.misread = now, l.misread, ""
}

// lookAtAllHits looks at all jails that have banned regulars.
func (e *engine) lookAtAllHits(now time.Time) {
	for jail, j := range e.breaker.jails {
		if e.lookAtHits(jail, j, now); len(j.hits) == 0 {
			delete(e.breaker.jails, jail)
		}
	}
}

// lookAtHits has a jail spare regulars if it has banned too many.
func (e *engine) lookAtHits(jail string, j *jailHits, now time.Time) {
	if now.Sub(j.looked) < hitsPause {
		return
	}
	j.looked = now
	j.hits = slices.DeleteFunc(j.hits, func(h hit) bool { return now.Sub(h.at) > hitSpan })
	if len(j.hits) < minHits || e.config.BreakerShare >= 1 {
		return
	}
	all, old := e.breaker.regulars.shares(j.hits, now)
	if all > e.config.BreakerShare && old > e.config.BreakerShare {
		e.trip(jail, j, all, now)
	}
}

// originOf is the network that a regular counts for.
func originOf(target netip.Prefix) netip.Prefix {
	bits := origin4
	if target.Addr().Is6() {
		bits = origin6
	}
	return netip.PrefixFrom(target.Addr(), bits).Masked()
}

// shares returns which share of the regulars that came lately was hit, each
// network one: of all, and of those who have been known for as long as the oldest
// third of those that were not hit. Those who were hit have no say in that: bots
// that have aged for a while are many, but seldom a site's oldest visitors.
func (r *regulars) shares(hits []hit, now time.Time) (all, old float64) {
	hit, others := map[netip.Prefix]uint16{}, map[netip.Prefix]uint16{}
	add := func(to map[netip.Prefix]uint16, origin netip.Prefix, first uint16) {
		if f, known := to[origin]; !known || first < f {
			to[origin] = first
		}
	}
	for i := range hits {
		add(hit, originOf(hits[i].target), hits[i].known.first)
	}
	for key, c := range r.clients {
		if c.recent(now) && c.is(now) {
			origin := originOf(key.target())
			if _, yes := hit[origin]; !yes {
				add(others, origin, c.first)
			}
		}
	}
	if len(hit) < minHits {
		return 0, 0
	}
	firsts := slices.Sorted(maps.Values(others))
	before := uint16(math.MaxUint16)
	if len(firsts) > 0 {
		before = firsts[len(firsts)/3]
	}
	older, _ := slices.BinarySearch(firsts, before+1)
	if len(firsts) == 0 {
		older = 0
	}
	hitOlder := 0
	for _, first := range hit {
		if first <= before {
			hitOlder++
		}
	}
	all = float64(len(hit)) / float64(len(hit)+len(others))
	if hitOlder < minOldHits {
		return all, 0
	}
	return all, float64(hitOlder) / float64(hitOlder+older)
}

// trip has a jail spare regulars for a while, and lets those go that it has
// banned.
func (e *engine) trip(jail string, j *jailHits, share float64, now time.Time) {
	n, lifted := len(j.hits), 0
	delete(e.breaker.jails, jail)
	reason := fmt.Sprintf("it banned %d regular clients within %s, %.0f %% of those that came lately", n, hitSpan, 100*share)
	h := state.Hold{Jail: jail, Since: now, Until: now.Add(e.config.BreakerCoolDown), Reason: reason, By: control.ByBreaker}
	if old, yes := e.held[jail]; !yes || old.By == control.ByBreaker {
		if _, err := e.hold(h, now); err != nil {
			return // the jail is gone
		}
	}
	for i, x := range j.hits {
		if e.letGo(x.target, jail, i < maxTripPardons, now) {
			lifted++
		}
		e.breaker.regulars.restore(x.target, x.known)
	}
	e.handOver()
	e.hub.publish(alarm(now, "jail "+jail+" spares regular clients: "+reason))
	e.say(now, slog.LevelError, "the jail spares regular clients for now: its bans have hit too many of them (is its limit right? tailban resume ends this)",
		"jail", jail, "hit", n, "share", fmt.Sprintf("%.2f", share), "lifted", lifted, "until", until(h.Until))
}

// letGo takes a jail's hold off a ban that it has decided itself, and forgets
// what led to it; with a pardon also at a start, where the ban would be taken over
// from an action that has not heard of this, or be part of a network again.
func (e *engine) letGo(target netip.Prefix, jail string, pardon bool, now time.Time) bool {
	h := e.bans.bans[target]
	o := e.ownerOf(target, jail)
	if h == nil || o == nil || o.By != "" {
		return false
	}
	if pardon {
		e.forgive(state.Pardon{
			Target: target, Jail: jail, Since: now, Before: now, Keep: e.keepPardon(now, h.end, now),
			Reason: "the breaker has let it go", By: control.ByBreaker,
		}, now)
	}
	if len(h.Owners) > 1 {
		e.disown(h, jail)
	} else {
		e.lift(e.bans.take(target))
	}
	e.detect.Clear(target, jail)
	if !e.config.SharedHistory {
		e.update.ForgetOffences = append(e.update.ForgetOffences, e.offences.dropOne(state.OffenceKey{Jail: jail, Target: target})...)
	}
	return true
}
