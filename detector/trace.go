package detector

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tailban/tailban/parser"
)

// Trace is a line's way down the order of exceptions.
type Trace struct {
	Event  *parser.Event // nil: the line did not parse
	Err    error         // why
	Path   string        // as conditions see it
	Hops   []parser.Hop  // from the peer to the client
	Plane  parser.Resolution
	Client netip.Addr   // not valid if there is none
	Target netip.Prefix // what the client's events are counted by
	Steps  []StepTrace  // up to the one that stops it
	Denial *Decision    // what step 5 would decide; nil: nothing
	Jails  []JailTrace  // of the log, all of them if there is a client
	Step   Step         // where it stops
	Proof  Proof        // of StepWanted
}

// StepTrace is a look at one step of the order.
type StepTrace struct {
	Number int // in the order
	Name   string
	Result string // in words
	Stops  bool
}

// JailTrace is a jail's look at an event.
type JailTrace struct {
	Jail       string
	Matches    bool // all conditions hold
	Conditions []ConditionTrace
	Count      int // events in the window that ends with this one, without it
	Limit      int // that applies to the client
	Window     time.Duration
	Observes   bool
	Result     string    // what the jail would do, in words
	Decision   *Decision // what it would decide, or the guard refuse it; nil: nothing
}

// Trace takes a line through the order of exceptions as [Engine.Line] would
// now, and changes nothing: neither what has been counted nor what comes of
// later lines. The arguments are those of Line. What it returns refers to the
// line's bytes.
func (e *Engine) Trace(l *Log, line []byte, cut bool, now int64) *Trace {
	e.bind(l)
	t := &tracer{e: e, l: l, now: now, ev: event{Event: new(parser.Event)}}
	t.Step = t.walk(line, cut)
	return &t.Trace
}

type tracer struct {
	Trace
	e   *Engine
	l   *Log
	now int64
	ev  event
	v   Verdict // of decisions only

	counted            int // jails that count it
	forgiven, observed bool
}

func (t *tracer) step(number int, name string, stops bool, format string, args ...any) {
	t.Steps = append(t.Steps, StepTrace{number, name, fmt.Sprintf(format, args...), stops})
}

// walk goes where Line goes, from step 1 on.
func (t *tracer) walk(line []byte, cut bool) Step {
	e, ev := t.e, &t.ev
	if err := t.l.format.Parse(line, cut, ev.Event); err != nil {
		t.Err = err
		t.step(1, "parse", true, "%v", err)
		if errors.Is(err, parser.ErrNotMine) {
			return StepNotRecord
		}
		return StepUnparsed
	}
	t.Event, t.Path = ev.Event, string(ev.path())
	t.step(1, "parse", false, "parsed, of %s", time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano))

	var client netip.Addr
	var found parser.Resolution
	t.Hops, client, found = e.resolver.Trace(ev.Peer, ev.Forward)
	t.Plane = t.l.plane(found, ev)
	if t.Plane == parser.Nobody {
		if found == parser.Nobody {
			t.step(2, "client", true, "the forwarding header names no client")
		} else {
			t.step(2, "client", true, "the line was cut: the forwarding header may be missing")
		}
		return StepNobody
	}
	t.Client, t.Target = client, e.Target(client)
	t.step(2, "client", false, "%s (%s), counted as %s", client, t.Plane, t.Target)
	c := &candidate{who: &who{client: client, key: keyOf(t.Target), time: ev.Time}, plane: t.Plane, now: t.now}

	step, stopped := t.exceptions(c)
	t.jails(c, !stopped)
	if stopped {
		return step
	}
	return t.last()
}

// exceptions is the order from step 3 to where jails are asked.
func (t *tracer) exceptions(c *candidate) (step Step, stopped bool) {
	e, ev := t.e, &t.ev
	spared := t.spared(c) // tells also whether its claim is false
	if e.allow != nil && e.allow.Contains(c.client) {
		t.Proof = Proof{}
		t.step(3, "allowed", true, "%s is allowed", c.client)
		return StepAllowed, true
	}
	t.step(3, "allowed", false, "%s is not allowed by any address", c.client)

	t.Steps = append(t.Steps, spared...)
	if t.Proof != (Proof{}) {
		return StepWanted, true
	}
	if e.pardons != nil {
		e.pardons.find(c.client, ev.Time)
	}
	if t.denial(c) {
		return StepDenied, true
	}
	if c.plane == parser.Infrastructure {
		t.step(6, "infrastructure", true, "%s is a trusted proxy, and no client behind it is known", c.client)
		return StepInfrastructure, true
	}
	t.step(6, "infrastructure", false, "the client is no trusted proxy")

	if e.banned(c, enforced) {
		t.step(7, "banned", true, "%s, or a network that holds it, is banned already", c.target())
		return StepBanned, true
	}
	t.step(7, "banned", false, "%s is not banned", c.target())
	return 0, false
}

// spared is step 4. It sets Proof if it stops there, and notes in the event and
// the candidate what is known of a claim.
func (t *tracer) spared(c *candidate) (steps []StepTrace) {
	e := t.e
	say := func(stops bool, format string, args ...any) {
		steps = append(steps, StepTrace{4, "wanted", fmt.Sprintf(format, args...), stops})
	}
	claims, proven := false, false
	known := t.standing(c)
	for i := range e.wanted {
		w := &e.wanted[i]
		if !w.agents.in(t.ev.agent()) {
			continue
		}
		claims = claims || w.needsProof()
		proof, is := w.proof(c.client, func() *standing { return &known })
		text := "its agent is that of " + w.Name
		if is != claimProven {
			if is == claimOpen && c.claims == "" {
				c.claims, c.why, c.pending = w.Name, known.reason, known.pending
			}
			say(false, "%s, but %s", text, unproven(w, c.client, &known))
			continue
		}
		proven = proven || w.needsProof()
		switch {
		case proof.Name != "":
			text += ", and its name proves it: " + proof.Name
		case proof.Source != "":
			text += ", it is in the ranges of " + proof.Source
		case proof.ByRanges:
			text += ", it is one of its addresses"
		}
		if w.limited() && e.windows.foresee(w.rule, w.Limit, c.key, t.ev.Time) != kept {
			say(false, "%s, but it is beyond the limit of %d in %v", text, w.Limit, w.Window)
			continue
		}
		t.Proof = proof
		if w.limited() {
			say(true, "%s, and it is within the limit of %d in %v", text, w.Limit, w.Window)
		} else {
			say(true, "%s, and it has no limit", text)
		}
		return steps
	}
	if proven {
		c.claims, c.why, c.pending = "", "", false
	}
	t.ev.falseCrawler = claims && !proven && c.claims == ""
	if steps == nil {
		say(false, "its agent is that of no wanted machine")
	}
	return steps
}

// standing is what is known of the client's names. Nothing is asked.
func (t *tracer) standing(c *candidate) standing {
	if p := t.e.proofs; p != nil && t.e.rules.opt.LooksUp {
		s := p.of(c.client, c.moment())
		s.pending = s.pending || p.wouldAsk(c.client, &s)
		return s
	}
	return standing{reason: "its names are not looked up"}
}

// unproven says why a client isn't, or may not be, the machine that its agent
// says it is.
func unproven(w *wanted, client netip.Addr, s *standing) string {
	notIn := fmt.Sprintf("%s is not in its ranges", client)
	var why string
	switch {
	case len(w.Domains) == 0:
		return notIn
	case s.Result == Proved:
		why = fmt.Sprintf("its name %s is in none of its domains", s.names[0])
	default:
		why = s.reason
	}
	if w.from == nil {
		return why
	}
	return notIn + ", and " + why
}

// denial is step 5, and reports whether it stops there.
func (t *tracer) denial(c *candidate) bool {
	d := &t.e.denied
	if d.denyRules == nil || !d.holds(c.client, &t.ev) {
		t.step(5, "denied", false, "neither its address nor its agent is denied")
		return false
	}
	if t.e.pardons.forgives(DenyName) {
		t.forgiven = true
		t.step(5, "denied", false, "it is denied, but forgiven")
		return false
	}
	result := "it is denied, and banned already"
	if !t.e.deniedBefore(c) {
		t.Denial = t.decide(c, d.ruling())
		result = "it is denied: " + rulingText(t.Denial)
	}
	if d.observes {
		result += "; denials only observe, so it goes on"
	}
	t.step(5, "denied", !d.observes, "%s", result)
	return !d.observes
}

func (t *tracer) decide(c *candidate, r *rule) *Decision {
	d := t.e.judge(&t.v, c, r)
	d.Waits = d.Refused == "" && t.e.postponed.waits(c, r.name)
	d.Line = Line{} // the engine's is another's
	t.v.Decisions = append(t.v.Decisions, d)
	return &d
}

func rulingText(d *Decision) string {
	switch {
	case d.Waits:
		return fmt.Sprintf("%s would be banned for %v, unless its names prove within %v that it is %s", d.Target, d.Ban, MaxPostponement, d.Claims)
	case d.Refused != "":
		return "it would be banned, but is protected: " + d.Refused
	case d.Past:
		return fmt.Sprintf("%s would be banned for %v, which would be over already", d.Target, d.Ban)
	case d.Observe:
		return fmt.Sprintf("%s would be banned for %v, if it did not only observe", d.Target, d.Ban)
	default:
		return fmt.Sprintf("%s would be banned for %v", d.Target, d.Ban)
	}
}
