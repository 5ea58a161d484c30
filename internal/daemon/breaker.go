package daemon

import (
	"fmt"
	"log/slog"
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
	// those who are among the older half.
	minHits, minOldHits = 5, 3

	// hitsPause is how far apart two looks at all regulars are at least.
	hitsPause = 200 * time.Millisecond
)

// breaker knows when a jail's bans say more about its configuration than about
// whom they hit. Only the engine's goroutine uses it.
type breaker struct {
	regulars *regulars
	jails    map[string]*jailHits
	log      *logState // whose lines are read just now
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
	return &breaker{regulars: newRegulars(), jails: map[string]*jailHits{}}
}

// sparing is the guard as the detector asks it: the never-ban set, and the
// address that stands for most of a log's traffic.
type sparing struct {
	*guard.Set
	breaker *breaker
}

// Check implements detector.Guard.
func (s *sparing) Check(target netip.Prefix, client netip.Addr) (allowed netip.Prefix, reason string) {
	allowed, reason = s.Set.Check(target, client)
	if l := s.breaker.log; reason == "" && l != nil && l.majority != nil {
		if why := l.majority.misread(client); why != "" {
			l.misread = fmt.Sprintf("%s %s", client, why)
			return netip.Prefix{}, why
		}
	}
	return allowed, reason
}

// observeLine notes a line for the breaker: who comes and behaves, and who
// stands for most of a log.
func (e *engine) observeLine(l *logState, v *detector.Verdict, now time.Time) {
	l.majority.add(v.Client, now)
	if v.Step != detector.StepCounted && v.Step != detector.StepUnmatched || len(v.Decisions) > 0 {
		return
	}
	if ev := e.detect.Event(); ev.Status > 0 && ev.Status < 400 {
		e.breaker.regulars.note(v.Target, l.usersChecked && len(ev.User) > 0, now)
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

// lookAtHits has a jail only observe if it has banned too many regulars.
func (e *engine) lookAtHits(jail string, j *jailHits, now time.Time) {
	j.hits = slices.DeleteFunc(j.hits, func(h hit) bool { return now.Sub(h.at) > hitSpan })
	if len(j.hits) < minHits || now.Sub(j.looked) < hitsPause || e.config.BreakerShare >= 1 {
		return
	}
	j.looked = now
	all, old := e.breaker.regulars.shares(j.hits, now)
	if all > e.config.BreakerShare && old > e.config.BreakerShare {
		e.trip(jail, j, all, now)
	}
}

// shares returns which share of the regulars that came lately was hit, of all
// and of those who have been known for longer than most: of all if nobody has
// been known for longer than others. Bots that have aged for a while are many,
// but seldom the oldest visitors of a site.
func (r *regulars) shares(hits []hit, now time.Time) (all, old float64) {
	first := make([]uint16, 0, len(hits)+256)
	for _, c := range r.clients {
		if c.recent(now) && c.is(now) {
			first = append(first, c.first)
		}
	}
	for i := range hits {
		first = append(first, hits[i].known.first)
	}
	all = float64(len(hits)) / float64(len(first))
	slices.Sort(first)
	before := first[len(first)/2]
	older, _ := slices.BinarySearch(first, before)
	if older == 0 {
		before, older = math.MaxUint16, len(first)
	}
	hitOlder := 0
	for i := range hits {
		if hits[i].known.first < before {
			hitOlder++
		}
	}
	if hitOlder < minOldHits {
		return all, 0
	}
	return all, float64(hitOlder) / float64(older)
}

// trip has a jail only observe for a while, and lets the regulars go that it has
// banned.
func (e *engine) trip(jail string, j *jailHits, share float64, now time.Time) {
	lifted := 0
	for _, h := range j.hits {
		if e.ownerOf(h.target, jail) == nil {
			continue
		}
		if _, err := e.unban(release{target: h.target, jail: jail, reason: "the breaker has let it go", by: control.ByBreaker}, now); err == nil {
			lifted++
		}
	}
	for _, h := range j.hits {
		e.breaker.regulars.restore(h.target, h.known)
	}
	n := len(j.hits)
	delete(e.breaker.jails, jail)
	reason := fmt.Sprintf("it banned %d regular clients within %s, %.0f %% of those that came lately", n, hitSpan, 100*share)
	h := state.Hold{Jail: jail, Since: now, Until: now.Add(e.config.BreakerCoolDown), Reason: reason, By: control.ByBreaker}
	if old, yes := e.held[jail]; yes && (old.Until.IsZero() || old.Until.After(h.Until)) {
		h.Until = old.Until
	}
	if _, err := e.hold(h, now); err != nil {
		return // the jail is gone
	}
	e.hub.publish(alarm(now, "jail "+jail+" only observes: "+reason))
	e.say(now, slog.LevelError, "the jail only observes for now: its bans hit regular clients (is its limit right? tailban resume ends this)",
		"jail", jail, "hit", n, "share", fmt.Sprintf("%.2f", share), "lifted", lifted, "until", until(h.Until))
}
