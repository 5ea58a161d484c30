package detector

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
	"github.com/tailban/tailban/parser"
)

// Limits of what an Engine remembers, where the options say nothing.
const (
	DefaultMaxMemory = 64 << 20 // bytes, of windows
	DefaultMaxBans   = 100_000
	DefaultRemember  = 30 * 24 * time.Hour
	maxOffences      = 200_000
)

// Options make an Engine.
type Options struct {
	Jails     []Jail
	Wanted    []Wanted
	Deny      *Deny // nil: nobody is denied
	Trusted   []netip.Prefix
	Allow     []netip.Prefix
	Guard     Guard         // nil: nobody is protected
	MaxMemory int64         // bytes for windows; 0: DefaultMaxMemory
	MaxBans   int           // targets known to be banned; 0: DefaultMaxBans
	Remember  time.Duration // how long an offence counts, where the rule doesn't say; 0: DefaultRemember

	// SharedHistory has one count of offences per target in place of one per
	// rule and target, which all count for Remember.
	SharedHistory bool
}

// Engine takes lines through the order of exceptions to decisions. It is for
// one goroutine.
type Engine struct {
	opt      Options
	resolver *parser.Resolver
	allow    *bart.Lite
	windows  *table
	jails    []jail
	wanted   []wanted
	denied   denied

	bans     *expiring[banKey, struct{}]
	hosts    int // bans of single IPv6 addresses put so far: look for them too
	past     *expiring[offenceKey, int]
	remember map[string]time.Duration // by history, where it is not the options'

	ev      event
	verdict Verdict
}

type jail struct {
	*Jail
	index   int
	limits  limits
	matcher matcher
	fits    uint64 // events that met its conditions
}

type wanted struct {
	rule   uint16
	agents agents
}

// banKey names a ban that is in force or, for a rule that enforces nothing,
// would be.
type banKey struct {
	key
	owner int // enforced, or denyIndex, or the index of a jail
}

// A ban that is enforced ends all counting of its target, whoever asked for
// it. One that isn't stops only the counting of the rule that asked for it.
const (
	enforced  = -1
	denyIndex = -2 // where jails have their index
)

func (j *Jail) owner(index int) int {
	if j.Observe || j.Passive {
		return index
	}
	return enforced
}

func (d *Deny) owner() int {
	if d.Observe || d.Passive {
		return denyIndex
	}
	return enforced
}

// denied are those who are banned at first sight.
type denied struct {
	agents agents
	from   *bart.Lite // nil: nobody
}

func (d *denied) holds(client netip.Addr, ev *event) bool {
	return d.from != nil && d.from.Contains(client) || !d.agents.empty() && d.agents.in(ev.agent())
}

// Log is one log as the engine sees it: a format, its jails, its counters.
type Log struct {
	Name  string
	Steps [NumSteps]uint64 // lines, by the step at which they stopped
	Cut   uint64           // lines longer than the reader's limit

	// Rewritten says that the server logs as the peer what a proxy reported
	// (nginx realip, mod_remoteip): the kernel doesn't see these addresses.
	Rewritten bool

	format   parser.Format
	jails    []*jail
	distrust distrust
}

// NewEngine makes an Engine. The options are trusted to be checked.
func NewEngine(o Options) *Engine {
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.MaxBans == 0 {
		o.MaxBans = DefaultMaxBans
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	e := &Engine{
		opt:      o,
		resolver: parser.NewResolver(o.Trusted),
		windows:  newTable(o.MaxMemory),
		bans:     newExpiring[banKey, struct{}](o.MaxBans * holders(&o)),
		past:     newExpiring[offenceKey, int](maxOffences),
		remember: map[string]time.Duration{},
	}
	e.SetAllow(o.Allow)
	for i := range o.Jails {
		j := &o.Jails[i]
		e.jails = append(e.jails, jail{
			Jail:    j,
			index:   i,
			limits:  newLimits(e.windows, j),
			matcher: newMatcher(&j.Where),
		})
		e.rememberAs(j.Name, j.Remember)
	}
	for _, w := range o.Wanted {
		e.wanted = append(e.wanted, wanted{
			rule:   e.windows.addRule(w.Limit, int64(w.Window)),
			agents: newAgents(w.Agents),
		})
	}
	if o.Deny != nil {
		e.denied = denied{agents: newAgents(o.Deny.Agents), from: newSet(o.Deny.From)}
		e.rememberAs(DenyName, o.Deny.Remember)
	}
	return e
}

// SetAllow puts others in the place of those who are allowed: all of them, the
// options' included. It may be called between two lines.
func (e *Engine) SetAllow(allow []netip.Prefix) { e.allow = newSet(allow) }

// newSet returns a set of prefixes, nil if there are none.
func newSet(prefixes []netip.Prefix) *bart.Lite {
	if len(prefixes) == 0 {
		return nil
	}
	set := new(bart.Lite)
	for _, p := range prefixes {
		set.Insert(p)
	}
	return set
}

// holders is how many bans there can be of one target: one that is enforced,
// and one of each rule that enforces nothing.
func holders(o *Options) int {
	n := 1
	for i := range o.Jails {
		if o.Jails[i].owner(i) != enforced {
			n++
		}
	}
	if o.Deny != nil && o.Deny.owner() != enforced {
		n++
	}
	return n
}

// Log makes a log known to the engine.
func (e *Engine) Log(name string, format parser.Format) *Log {
	l := &Log{Name: name, format: format}
	for i := range e.jails {
		if slices.Contains(e.jails[i].Logs, name) {
			l.jails = append(l.jails, &e.jails[i])
		}
	}
	return l
}

// Fits returns how many events have met a jail's conditions, those of targets
// that were banned already left out.
func (e *Engine) Fits(jail string) uint64 {
	if i := e.jailIndex(jail); i >= 0 {
		return e.jails[i].fits
	}
	return 0
}

// Line takes one line, without its line feed, through the order of
// exceptions. cut says that the line is only the beginning of a longer one.
// now is the time of a decision, in nanoseconds since the epoch; 0 stands for
// the line's own time, as in a replay. The result is valid until the next
// call.
func (e *Engine) Line(l *Log, line []byte, cut bool, at Line, now int64) *Verdict {
	v := &e.verdict
	*v = Verdict{Decisions: v.Decisions[:0]}
	if cut {
		l.Cut++
	}
	e.ev.reset()
	err := l.format.Parse(line, cut, &e.ev.Event)
	v.Peer = e.ev.Peer
	switch {
	case errors.Is(err, parser.ErrNotMine):
		v.Step = StepNotRecord
	case l.distrust.parsed(&at, err == nil):
		v.Step, v.Err, v.Peer = StepUnparsed, errDistrusted, netip.Addr{}
	case err == nil:
		v.Time = e.ev.Time
		e.exceptions(l, v, at, now)
	default:
		v.Step, v.Err = StepUnparsed, err
	}
	l.Steps[v.Step]++
	return v
}

// exceptions is the order of exceptions from step 2 on.
func (e *Engine) exceptions(l *Log, v *Verdict, at Line, now int64) {
	ev := &e.ev
	client, plane := e.resolver.Resolve(ev.Peer, ev.Forward)
	if plane == parser.Nobody || plane == parser.Infrastructure && ev.Partial && l.format.Fields().Has(parser.FieldForward) {
		v.Step = StepNobody // in a line that was cut, the header may be missing
		return
	}
	if plane == parser.Direct && l.Rewritten {
		plane = parser.Forwarded
	}
	v.Client = client
	if e.allow != nil && e.allow.Contains(client) {
		v.Step = StepAllowed
		return
	}
	target := e.target(client)
	c := candidate{client: client, target: target, key: keyOf(target), plane: plane, at: at, now: now}
	for i := range e.wanted {
		if w := &e.wanted[i]; w.agents.in(ev.agent()) && e.windows.pass(w.rule, c.key, ev.Time) {
			v.Step = StepWanted
			return
		}
	}
	if e.denied.holds(client, ev) {
		v.Step = StepDenied
		e.deny(v, &c)
		if !e.opt.Deny.Observe {
			return
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
	e.count(l, v, &c)
}

// target is what an event of a client is counted by, and what a ban of it
// would be about: a network that it shares with somebody protected is counted
// address by address.
func (e *Engine) target(client netip.Addr) netip.Prefix {
	target := TargetOf(client)
	if e.opt.Guard != nil && !target.IsSingleIP() && e.opt.Guard.Shared(target) {
		return netip.PrefixFrom(client, client.BitLen())
	}
	return target
}

// candidate is an event that may become a decision.
type candidate struct {
	client netip.Addr
	target netip.Prefix
	key    key
	plane  parser.Resolution
	at     Line
	now    int64
}

// count lets each jail of the log whose conditions hold count the event. They
// all do, also when one of them decides: a ban has owners.
func (e *Engine) count(l *Log, v *Verdict, c *candidate) {
	v.Step = StepUnmatched
	for _, j := range l.jails {
		if !j.matcher.holds(&e.ev) {
			continue
		}
		j.fits++
		if owner := j.owner(j.index); owner != enforced && e.banned(c, owner) {
			if v.Step == StepUnmatched {
				v.Step = StepBanned
			}
			continue
		}
		v.Step = StepCounted
		if limit := j.limits.of(c.client); e.windows.add(limit.rule, c.key, e.ev.Time) {
			e.decide(v, c, &rule{
				name: j.Name, owner: j.owner(j.index), limit: limit.events, window: j.Window,
				ban: j.Ban, observe: j.Observe, actions: j.Actions,
			})
		}
	}
}
