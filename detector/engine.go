package detector

import (
	"errors"
	"math/bits"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/tailban/tailban/parser"
)

// Engine takes lines through the order of exceptions to decisions. It is for
// one goroutine.
type Engine struct {
	rules      *Rules // those in use; the fields up to denied are made from them
	generation uint32 // of the rules in use
	resolver   *parser.Resolver
	allow      *bart.Lite
	jails      []*jail
	wanted     []wanted
	denied     denied
	lastID     int // of a jail
	held       map[string]bool

	windows   *table
	bans      *expiring[banKey, struct{}]
	sieve     sieve            // of the bans' targets
	hosts     int              // bans of single IPv6 addresses: look for them too
	networks  *bart.Table[int] // how many bans there are of each network; nil: of none
	past      *expiring[offenceKey, offence]
	hostsPast int            // counts of offences of single IPv6 addresses
	histories map[string]int // how many counts of offences each has
	pardons   *pardons       // nil: nobody is forgiven anything
	recall    *recall        // nil: lines are new
	scratch   map[*program]*scratch
	proofs    *proofs // nil: no machine can be proved by names
	postponed postponed
	named     standing // of the client at hand

	ev      event
	own     parser.Event // what ev is of, unless it was parsed elsewhere
	who     who          // whom it is of, unless that was found out before
	sum     uint64       // see Prepare
	at      *Line        // where its line stands
	ownAt   Line
	verdict Verdict
}

// jail is what is counted by the rules of a jail.
type jail struct {
	*jailRules
	id   int    // its own for as long as its windows are kept, and never another's
	rule uint16 // of its windows in the table
	mode
	fits uint64 // events that met its conditions
}

type wanted struct {
	*wantedRules
	rule uint16 // of its windows, if it is limited
}

// denied is the rule for the denied, if there is one.
type denied struct {
	*denyRules // nil: nobody is denied
	mode
}

// mode says how a rule's decisions are meant.
type mode struct {
	observes bool // by its configuration, or held
	owner    int  // of its bans
}

func newMode(id int, observes, passive bool) mode {
	if observes || passive {
		return mode{observes, id}
	}
	return mode{observes, enforced}
}

// Log is one log as the engine sees it: a format, its jails, its counters.
type Log struct {
	Name string
	LogCounters

	// Rewritten says that the server logs as the peer what a proxy reported
	// (nginx realip, mod_remoteip): the kernel doesn't see these addresses.
	Rewritten bool

	format     parser.Format
	generation uint32 // of the rules that jails is of; 0: none yet
	jails      []*jail
	near       []*jail  // those that count every event, maxNear at most
	program    *program // of their conditions; nil: there are no jails
	scratch    *scratch
	distrust   distrust
}

// LogCounters are how many lines a log had. They may be set.
type LogCounters struct {
	Steps [NumSteps]uint64 // lines, by the step at which they stopped
	Cut   uint64           // lines longer than the reader's limit
	Late  uint64           // lines that came too late for a jail to count
}

// NewEngine makes an Engine. The options are trusted to be checked.
func NewEngine(o Options) *Engine {
	e := &Engine{windows: newTable(0), histories: map[string]int{}, held: map[string]bool{}, sieve: newSieve()}
	e.bans = newExpiring[banKey, struct{}](0, banKey.quick, e.banNoted)
	e.past = newExpiring[offenceKey, offence](maxOffences, offenceKey.quick, e.offenceNoted)
	e.ev.reset(&e.own)
	e.at = &e.ownAt
	e.Use(Compile(o))
	return e
}

// SetAllow puts others in the place of those who are allowed: all of them, the
// options' included. It may be called between two lines.
func (e *Engine) SetAllow(allow []netip.Prefix) { e.allow = newSet(allow) }

// Log makes a log known to the engine.
func (e *Engine) Log(name string, format parser.Format) *Log {
	return &Log{Name: name, format: format}
}

// jail returns the jail of a name, nil if there is none.
func (e *Engine) jail(name string) *jail {
	for _, j := range e.jails {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// Fits returns how many events have met a jail's conditions, those of targets
// that were banned already left out.
func (e *Engine) Fits(jail string) uint64 {
	if j := e.jail(jail); j != nil {
		return j.fits
	}
	return 0
}

// Line takes one line, without its line feed, through the order of
// exceptions. cut says that the line is only the beginning of a longer one.
// now is the time of a decision, in nanoseconds since the epoch; 0 stands for
// the line's own time, as in a replay. The result is valid until the next
// call.
func (e *Engine) Line(l *Log, line []byte, cut bool, at Line, now int64) *Verdict {
	e.ownAt = at
	e.at = &e.ownAt
	return l.counted(e.line(l, line, cut, now), cut)
}

// Parsed takes a line that the log's format, or another of its kind, has parsed
// already. All else is as with [Engine.Line]. r and at must be valid until the next
// call.
func (e *Engine) Parsed(l *Log, r *Record, at *Line, now int64) *Verdict {
	e.ev.reset(r.event)
	w := &r.who
	if r.rules != e.generation { // which is never 0
		w = nil
	}
	e.at = at
	return l.counted(e.parsed(l, r.err, w, now), r.cut)
}

// counted counts a line.
func (l *Log) counted(v *Verdict, cut bool) *Verdict {
	if cut {
		l.Cut++
	}
	l.Steps[v.Step]++
	return v
}

// line is Line without the counters of lines.
func (e *Engine) line(l *Log, line []byte, cut bool, now int64) *Verdict {
	e.ev.reset(&e.own)
	return e.parsed(l, l.format.Parse(line, cut, &e.own), nil, now)
}

// parsed takes the engine's event through the order of exceptions. err says why
// it is none; w, unless nil, whom it is of.
func (e *Engine) parsed(l *Log, err error, w *who, now int64) *Verdict {
	v := &e.verdict
	*v = Verdict{Decisions: v.Decisions[:0]}
	e.bind(l)
	switch {
	case err != nil && errors.Is(err, parser.ErrNotMine):
		v.Step = StepNotRecord
	case l.distrust.parsed(e.at, err == nil):
		v.Step, v.Err = StepUnparsed, errDistrusted
	case err != nil:
		v.Step, v.Err = StepUnparsed, err
	default:
		if w == nil {
			w = &e.who
			e.identify(e.ev.Event, w)
		}
		v.Time = w.time
		e.exceptions(l, v, w, now)
	}
	return v
}

// exceptions is the order of exceptions from step 2 on.
func (e *Engine) exceptions(l *Log, v *Verdict, w *who, now int64) {
	ev := &e.ev
	client, plane := w.client, l.plane(w.plane, ev)
	if plane == parser.Nobody {
		v.Step = StepNobody
		return
	}
	v.Client, v.Plane = client, plane
	if e.allows(client) {
		v.Step = StepAllowed
		return
	}
	c := candidate{who: w, plane: plane, now: now}
	if len(e.wanted) > 0 && e.spare(v, &c) {
		v.Step = StepWanted
		return
	}
	if e.pardons != nil {
		e.pardons.find(client, w.time)
	}
	forgiven := false
	if d := &e.denied; d.denyRules != nil && d.holds(client, ev) {
		if forgiven = e.pardons.forgives(DenyName); !forgiven {
			v.Step = StepDenied
			e.deny(l, v, &c)
			if !d.observes {
				return
			}
		}
	}
	if plane == parser.Infrastructure {
		v.Step = StepInfrastructure
		return
	}
	if e.banned(&c, enforced) {
		v.Step = StepBanned
		return
	}
	e.count(l, v, &c, forgiven)
}

// allows reports whether a client is allowed.
func (e *Engine) allows(client netip.Addr) bool {
	if e.recall != nil {
		return e.recall.allows(client)
	}
	return e.allow != nil && e.allow.Contains(client)
}

// plane corrects how a client was found by what is known of the log and the
// line.
func (l *Log) plane(found parser.Resolution, ev *event) parser.Resolution {
	switch {
	case found == parser.Infrastructure && ev.Partial && l.format.Fields().Has(parser.FieldForward):
		return parser.Nobody // in a line that was cut, the header may be missing
	case found == parser.Direct && l.Rewritten:
		return parser.Forwarded
	}
	return found
}

// Target is what an event of a client is counted by, and what a ban of it
// would be about: that of [TargetOf], but in a network that is shared with
// somebody protected each address counts for itself.
func (e *Engine) Target(client netip.Addr) netip.Prefix {
	w := who{client: client, key: e.key(client)}
	return w.target()
}

// key is that of the client's target.
func (e *Engine) key(client netip.Addr) key {
	k := clientKey(client)
	if k.bits < 128 && e.rules.opt.Guard != nil && e.rules.opt.Guard.Shared(first64(client)) {
		k = keyOf(single(client))
	}
	return k
}

// Event returns the latest line's event, which holds nothing of use if the
// line did not parse. It is valid until the next line.
func (e *Engine) Event() *parser.Event { return e.ev.Event }

// Peer returns the address that the server logged the latest line for. Of one that
// did not parse it is valid if it could be read.
func (e *Engine) Peer() netip.Addr {
	if e.verdict.Err == errDistrusted {
		return netip.Addr{}
	}
	return e.ev.Peer
}

// candidate is an event that may become a decision.
type candidate struct {
	*who
	plane parser.Resolution
	now   int64

	// Of a client that claims to be a wanted machine, of which it isn't known:
	claims  string // the machine
	why     string // it isn't known
	pending bool   // it will be
}

// moment is the time of a decision that it would become.
func (c *candidate) moment() int64 {
	if c.now == 0 {
		return c.time
	}
	return c.now
}

// count lets each jail of the log whose conditions hold count the event. They
// all do, also when one of them decides: a ban has owners. forgiven says that
// the event would have been denied.
func (e *Engine) count(l *Log, v *Verdict, c *candidate, forgiven bool) {
	v.Step = StepUnmatched
	late := e.windows.late
	if l.program != nil {
		for i, w := range l.program.holds(&e.ev, l.scratch) {
			for ; w != 0; w &= w - 1 {
				if e.countIn(l.jails[i*64+bits.TrailingZeros64(w)], l, v, c) {
					forgiven = true
				}
			}
		}
	}
	if e.windows.late != late {
		l.Late++
	}
	if v.Step == StepUnmatched && forgiven {
		v.Step = StepForgiven
	}
}

// countIn lets a jail whose conditions hold count the event, and reports
// whether that is forgiven.
func (e *Engine) countIn(j *jail, l *Log, v *Verdict, c *candidate) (forgiven bool) {
	if e.recall == nil {
		j.fits++
	}
	if e.pardons.forgives(j.Name) {
		return true
	}
	if j.owner != enforced && e.banned(c, j.owner) {
		if v.Step == StepUnmatched {
			v.Step = StepBanned
		}
		return false
	}
	v.Step = StepCounted
	limit := j.limits.of(c.client)
	switch {
	case e.recall != nil:
		e.recount(j, c)
	case e.postponed.waits(c, j.Name):
		if limit == 0 || e.windows.keep(j.rule, limit, c.key, c.time) {
			e.postpone(v, l, c, j.Name)
		}
	case e.windows.addAt(c.slot, j.rule, limit, c.key, c.time):
		e.decide(v, c, j.ruling(limit))
	}
	return false
}
