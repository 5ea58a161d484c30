package detector

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/parser"
)

// MaxPostponed is how many decisions may wait at a time.
const MaxPostponed = 1000

// postponed are decisions against clients that claim to be a wanted machine, and
// whose names are being looked up. Until an answer comes, at most
// MaxPostponement, the windows that led to them stay as they are: if the
// decision is lost in a crash, the next event leads to it again.
type postponed struct {
	clients map[netip.Addr]*waiting
	order   []turnToWait // as they came; some may be gone
	ready   []netip.Addr // that don't have to wait any longer; some may be gone
	n       int          // decisions
	crowds  crowds       // of these

	refused, spared uint64
}

// turnToWait is when a client's first decision was due.
type turnToWait struct {
	client netip.Addr
	since  int64
}

// waiting are the decisions of one client.
type waiting struct {
	since     int64 // when the first was due
	ready     bool
	decisions []putOff
}

// putOff is a decision that waits.
type putOff struct {
	candidate
	at   Line
	rule string // the jail, or DenyName
	log  string
	ev   parser.Event
}

// has reports whether a rule's decision against the client waits already.
func (w *waiting) has(rule string) bool {
	for i := range w.decisions {
		if w.decisions[i].rule == rule {
			return true
		}
	}
	return false
}

// waits reports whether a rule's decision against the candidate is to be put
// off, or is already.
func (p *postponed) waits(c *candidate, rule string) bool {
	if !c.pending {
		return false
	}
	w := p.clients[c.client]
	return p.n < MaxPostponed && p.crowds.room(c.client) || w != nil && w.has(rule)
}

// count counts decisions against a client more, or fewer.
func (p *postponed) count(client netip.Addr, n int) {
	p.n += n
	p.crowds.add(client, n)
}

// postpone puts a decision off, unless it is already.
func (e *Engine) postpone(v *Verdict, l *Log, c *candidate, rule string) {
	p := &e.postponed
	w := p.clients[c.client]
	if w == nil {
		w = &waiting{since: c.moment()}
		if p.clients == nil {
			p.clients, p.crowds = map[netip.Addr]*waiting{}, crowds{}
		}
		p.clients[c.client] = w
		p.order = append(p.order, turnToWait{c.client, w.since})
		e.proofs.hurry(c.client)
	}
	if w.has(rule) {
		return
	}
	d := putOff{*c, *e.at, rule, l.Name, evidenceOf(e.ev.Event)}
	of := *c.who // it is used for other lines
	d.who = &of
	w.decisions = append(w.decisions, d)
	p.count(c.client, 1)
	v.Postponed++
}

// What is kept of texts of an event whose decision waits, in bytes.
const maxKept = 1024

// evidenceOf copies what an event says of what the client did.
func evidenceOf(ev *parser.Event) parser.Event {
	text := func(b []byte) []byte { return bytes.Clone(b[:min(len(b), maxKept)]) }
	return parser.Event{
		Time: ev.Time, Peer: ev.Peer, Method: text(ev.Method), Target: text(ev.Target), Host: text(ev.Host),
		Proto: text(ev.Proto), Status: ev.Status, Bytes: ev.Bytes, Agent: text(ev.Agent), Partial: ev.Partial,
	}
}

// askAgain asks for all whose decisions wait, as nothing is known or asked of them
// any more.
func (e *Engine) askAgain() {
	for _, t := range e.postponed.order {
		if w := e.postponed.clients[t.client]; w != nil && !w.ready && w.since == t.since && e.proofs.asked[t.client] == nil {
			e.proofs.enqueue(t.client, asked{})
			e.proofs.hurry(t.client)
		}
	}
}

// hasten has a client's decisions wait no longer.
func (p *postponed) hasten(client netip.Addr) {
	if w := p.clients[client]; w != nil && !w.ready {
		w.ready = true
		p.ready = append(p.ready, client)
	}
}

// drop drops a client's decisions, and returns how many there were.
func (p *postponed) drop(client netip.Addr) (n int) {
	if w := p.clients[client]; w != nil {
		n = len(w.decisions)
		p.spared += uint64(n)
		p.count(client, -n)
		delete(p.clients, client)
	}
	return n
}

// clear drops the decisions of a jail ("": all) against clients inside a prefix.
func (p *postponed) clear(in key, jail string) {
	for client, w := range p.clients {
		if !keyOf(single(client)).in(in) {
			continue
		}
		before := len(w.decisions)
		w.decisions = slices.DeleteFunc(w.decisions, func(d putOff) bool { return jail == "" || d.rule == jail })
		if p.count(client, len(w.decisions)-before); len(w.decisions) == 0 {
			delete(p.clients, client)
		}
	}
}

// first returns the client whose decisions are due first, and when: 0 stands for
// at once.
func (p *postponed) first() (client netip.Addr, at int64, ok bool) {
	for ; len(p.ready) > 0; p.ready = p.ready[1:] {
		if w := p.clients[p.ready[0]]; w != nil && w.ready {
			return p.ready[0], 0, true
		}
	}
	p.ready = nil
	for ; len(p.order) > 0; p.order = p.order[1:] {
		if t := p.order[0]; p.clients[t.client] != nil && !p.clients[t.client].ready && p.clients[t.client].since == t.since {
			return t.client, t.since + int64(MaxPostponement), true
		}
	}
	p.order = nil
	return client, 0, false
}

// ClockSet has decisions that wait do so for as long as before, when the clock by
// which the engine is told the time was set forward, or back.
func (e *Engine) ClockSet(by time.Duration) {
	p := &e.postponed
	for _, w := range p.clients {
		w.since += int64(by)
	}
	for i := range p.order {
		p.order[i].since += int64(by)
	}
}

// NextDue is when [Engine.Due] has something, in nanoseconds since the epoch; 0:
// now. False: nothing is put off.
func (e *Engine) NextDue() (at int64, ok bool) {
	if e.postponed.n == 0 {
		return 0, false
	}
	_, at, ok = e.postponed.first()
	return at, ok
}

// Due decides against one of the clients whose decisions were put off and are
// due: they have waited as long as they may, or it is known that the client is no
// wanted machine. The decisions are all of one line, or of lines of one log, which
// begin is told of before any is made; [Engine.Event] is what is left of the last of
// these lines. nil: there is none (any more).
func (e *Engine) Due(now int64, begin func(log string)) *Verdict {
	if e.postponed.n == 0 {
		return nil
	}
	p := &e.postponed
	client, at, ok := p.first()
	if !ok {
		return nil
	}
	w := p.clients[client]
	if now < at && now >= w.since { // or else the clock was set back
		return nil
	}
	if a := e.proofs.asked[client]; a != nil {
		a.late = true
	}
	log := w.decisions[0].log
	v := &e.verdict
	*v = Verdict{Step: StepCounted, Client: client, Decisions: v.Decisions[:0]}
	begin(log)
	var left []putOff
	for i := range w.decisions {
		d := &w.decisions[i]
		if d.log != log {
			left = append(left, *d)
			continue
		}
		p.count(client, -1)
		e.ev.reset(&d.ev)
		e.ownAt = d.at
		e.at = &e.ownAt
		v.Plane, v.Time = d.plane, d.time
		e.decideLate(v, d, now)
	}
	if w.decisions = left; len(left) > 0 {
		w.ready = false
		p.hasten(client)
		return v
	}
	delete(p.clients, client)
	return v
}

// decideLate makes a decision that was put off, unless there is no more reason
// for it: an exception that holds by now comes first.
func (e *Engine) decideLate(v *Verdict, d *putOff, now int64) {
	c := &d.candidate
	c.now, c.pending = now, false
	if s := e.proofs.of(c.client, now); s.Result == Unknown {
		c.why = s.reason
	} else {
		c.claims, c.why = "", ""
	}
	if e.allows(c.client) || !v.decidedAt(d.at) && e.banned(c, enforced) {
		return
	}
	if e.pardons != nil {
		if e.pardons.find(c.client, c.time); e.pardons.forgives(d.rule) {
			return
		}
	}
	if d.rule == DenyName {
		if e.denied.denyRules != nil && !e.banned(c, e.denied.owner) {
			e.decide(v, c, e.denied.ruling())
		}
		return
	}
	j := e.jail(d.rule)
	if j == nil || j.owner != enforced && e.banned(c, j.owner) {
		return
	}
	e.windows.drop(j.rule, c.key)
	e.decide(v, c, j.ruling(j.limits.of(c.client)))
}

// decidedAt reports whether the latest of the decisions is of that line: several
// jails may decide at one.
func (v *Verdict) decidedAt(at Line) bool {
	n := len(v.Decisions)
	return n > 0 && v.Decisions[n-1].Line == at
}
