package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

const (
	// lateness is how much later than others a line may come without its
	// client's window having been forgotten.
	lateness = 10 * time.Minute

	// upkeep is how often idle memory is given back and health is looked at
	// while lines come in.
	upkeep = 10 * time.Second
)

// engine owns everything between a batch of lines and the handing over of
// bans. All of it runs on one goroutine.
type engine struct {
	log        *slog.Logger
	detect     *detector.Engine
	config     *config.Config
	logs       map[string]*logState
	jails      map[string]*jailState // deny included
	bans       *banTable
	offences   *history
	pardons    *pardons
	held       map[string]state.Hold // jails that only observe, or spare regulars, for now; the breaker has it, too
	steered    map[string]bool       // jails that were held or resumed since the start
	guard      *guard.Set
	allow      <-chan allowed // who is allowed, when that changes
	allowed    allowed        // the latest of them
	origin     string
	put        func(state.Update)
	allowLate  func([]state.Allowance)
	reconciler map[string]reconciler
	enforcing  map[string]bool // actions that keep clients away
	through    map[string]through
	mergers    map[string]*actions.Merger
	said       *sayer
	hub        *hub
	counted    counted
	late       <-chan *state.Loaded // of a state file that came later than the start
	guarded    uint64               // version of the guard that all bans were checked against
	spared     int                  // bans lifted since their targets are protected now

	// positions are how far files have been counted, for a log whose reading
	// is begun anew.
	positions map[state.PositionKey]state.Position
	gone      map[string]time.Time // logs with positions that are not read, since when

	// shiftAllowances has what is allowed by hand last as long as before, when the
	// clock was set, and puts what is to be stored.
	shiftAllowances func(now time.Time, put func(state.Update))

	pulses <-chan chan<- vitals // who asks whether this goes on

	clock     wallClock
	storm     *storm
	breaker   *breaker
	memory    *memory
	snapshots *snapshots
	notes     notes
	again     *rereading                   // of lines since the last snapshot; nil: there are none left
	known     map[state.PositionKey]*again // files with lines that were counted before the start
	proofs    proofs

	update  state.Update              // of the batch at hand, but for bans
	changed map[netip.Prefix]struct{} // targets whose bans it changes
	oldest  int64                     // event time since the last upkeep
}

// reconciler is what the engine needs of an action.
type reconciler interface {
	Set(target netip.Prefix, until time.Time)
	Delete(target netip.Prefix)
}

// jailState is what has come of a jail since the start.
type jailState struct {
	decisions uint64
	refused   uint64
	last      time.Time // when it last banned
	behind    behindProxy
}

// newEngine makes an engine that has taken up nothing yet. put is handed every
// change that is to be stored.
func newEngine(d *daemon, put func(state.Update)) (*engine, error) {
	c := d.config
	e := &engine{
		late: d.store.late, guard: d.guard, guarded: d.guard.Version(), allow: d.allow.changed.latest, hub: d.hub,
		log: d.Log, bans: newBanTable(c.MaxBans), origin: d.Host, put: put, allowLate: d.allowLate, shiftAllowances: d.shiftAllowances,
		logs: map[string]*logState{}, jails: map[string]*jailState{}, said: newSayer(),
		pardons: newPardons(), held: d.breaker.held, steered: map[string]bool{},
		through:   map[string]through{},
		positions: map[state.PositionKey]state.Position{}, gone: map[string]time.Time{}, changed: map[netip.Prefix]struct{}{},
		snapshots: newSnapshots(d), notes: newNotes(),
		storm:   newStorm(c.MaxBansPerMinute, time.Now()),
		breaker: d.breaker, memory: newMemory(d, time.Now()),
	}
	e.pulses = d.pulses
	e.allowed.list = d.allow.all()
	e.detect = detector.NewEngine(rulesOf(c, e.allowed.list, &sparing{d.guard, d.breaker}))
	e.useProofs(d)
	e.offences = newHistory(maxOffences, e.detect.Remember)
	parsers, err := formatsOf(c)
	if err != nil {
		return nil, err
	}
	e.setLogs(c, parsers)
	e.setActions(d.action)
	e.config = c
	return e, nil
}

// rulesOf are a configuration's rules as the detector takes them.
func rulesOf(c *config.Config, allow []netip.Prefix, g detector.Guard) detector.Options {
	return detector.Options{
		Jails: c.Jails, Wanted: c.Wanted, Deny: c.Deny,
		Trusted: c.TrustedProxies, Allow: allow, Guard: g,
		MaxMemory: c.MaxMemory, MaxBans: c.MaxBans,
		Remember: c.Remember, SharedHistory: c.SharedHistory, LooksUp: true,
	}
}

// setActions makes the engine know the actions in use.
func (e *engine) setActions(list []*enforcer) {
	e.reconciler, e.enforcing, e.mergers = map[string]reconciler{}, map[string]bool{}, map[string]*actions.Merger{}
	for _, a := range list {
		e.reconciler[a.name] = a.reconciler
		e.enforcing[a.name] = a.enforces
		if a.merger != nil {
			e.reconciler[a.name], e.mergers[a.name] = a.merger, a.merger
		}
	}
}

// jail returns the counters of a jail.
func (e *engine) jail(name string) *jailState {
	j := e.jails[name]
	if j == nil {
		j = &jailState{}
		e.jails[name] = j
	}
	return j
}

// loop takes batches, and questions between them, until ctx is done.
func (e *engine) loop(ctx context.Context, batches <-chan *source.Batch, questions <-chan question) {
	ends := time.NewTimer(time.Hour)
	defer ends.Stop()
	tick := time.NewTicker(upkeep)
	defer tick.Stop()
	due := time.NewTicker(e.snapshots.every / 12)
	defer due.Stop()
	for {
		e.setTimer(ends)
		asked := questions
		if e.again != nil {
			asked = nil // an answer would be of a time gone by
		}
		ask := e.asking()
		select {
		case <-ctx.Done():
			e.lookAtClock(time.Now())
			e.sayRest(time.Now())
			return
		case b := <-batches:
			now := time.Now()
			e.lookAtClock(now)
			e.take(b, now)
		case q := <-asked:
			q.do(e, time.Now())
			close(q.done)
		case answer := <-e.pulses:
			answer <- e.vitals()
		case l := <-e.late:
			e.restoreLate(l, time.Now())
		case allow := <-e.allow:
			e.setAllow(allow, time.Now())
		case <-e.guard.Changed():
			e.liftProtected(time.Now())
		case ask <- e.proofs.next:
			e.proofs.has = false
		case a := <-e.proofs.answers:
			e.answered(a, time.Now())
		case <-ends.C:
		case <-tick.C:
			if e.again == nil { // or else windows could be forgotten before their lines come
				e.upkeep(time.Now())
			}
		case <-due.C:
			e.snapshot(time.Now())
		case <-e.again.hurry():
			if now := time.Now(); e.again.overdue(now) {
				e.settle(now)
			}
		}
		now := time.Now()
		e.lookAtClock(now)
		e.expire(now)
		e.release(now)
		e.decideDue(now)
		e.handOver()
	}
}

func (e *engine) setTimer(t *time.Timer) {
	wait := time.Hour
	if end, ok := e.bans.next(); ok {
		wait = max(0, time.Until(end))
	}
	if now := time.Now(); e.bans.waiting.first() != nil {
		wait = min(wait, max(0, e.storm.next(now).Sub(now)))
	}
	t.Reset(e.untilDue(time.Now(), wait))
}

// batch takes the lines of a batch through the detector, and hands over the
// bans that come out together with how far the file has been counted.
func (e *engine) batch(b *source.Batch, now time.Time) {
	l := e.logs[b.File.Log]
	if l == nil {
		return // the configuration has let go of this log
	}
	at := detector.Line{Path: b.File.Path, Dev: b.File.Dev, Ino: b.File.Ino, Offset: b.Offset}
	p := state.Position(b.Position)
	stood, known := e.positions[p.Key()]
	e.notes.counts(&p, b.Offset, !known || b.Offset < stood.Offset)
	before, latest := l.lines, int64(0)
	e.breaker.log, e.breaker.now = l, now
	for n, data := 0, b.Data; len(data) > 0; n++ {
		if b.Starts != nil {
			at.Offset = b.Starts[n]
		}
		line, rest := data, []byte(nil)
		size := len(data)
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, rest, size = data[:i], data[i+1:], i+1
		}
		v := e.detect.Line(l.Log, line, b.Cut, at, now.UnixNano())
		if v.Time != 0 && (e.oldest == 0 || v.Time < e.oldest) {
			e.oldest = v.Time
		}
		l.lines++
		if v.Time != 0 {
			latest = v.Time
		}
		l.lastEvent = max(l.lastEvent, v.Time)
		if v.Err == nil {
			l.suspects.good(e.detect.Peer())
		} else {
			l.unparsedFile = b.File.Path
			if peer := e.detect.Peer(); peer.IsValid() {
				l.suspects.bad(peer)
			}
		}
		if v.Client.IsValid() {
			e.observeLine(l, v, now)
		}
		if v.Step == detector.StepBanned || v.Step == detector.StepDenied && len(v.Decisions) == 0 {
			e.seen(v)
		}
		if v.Postponed > 0 {
			e.sayPostponed(v, now)
		}
		if len(v.Decisions) > 0 {
			e.notes.counts(&p, at.Offset+1, false)
		}
		for i := range v.Decisions {
			e.decided(&v.Decisions[i], now)
		}
		at.Offset += int64(size)
		data = rest
	}
	if lines := l.lines - before; lines > 0 {
		l.lastLine = now
		l.silence.add(now, lines)
	}
	if b.Behind == 0 && latest != 0 {
		l.skew.add(now, latest)
	}
	if b.Final {
		if !e.goesOn(&p) {
			e.noteFinished(b)
		}
		e.update.ForgetPositions = append(e.update.ForgetPositions, p.Key())
		delete(e.positions, p.Key())
	} else {
		e.notes.counts(&p, p.Offset, false)
		e.update.Positions = append(e.update.Positions, p)
		e.positions[p.Key()] = p
	}
	e.breaker.log = nil
	e.sayMisread(l, now)
	e.handOver()
	e.lookAtAllHits(now)
}

// handOver gives the changes so far to the writer, as one. A ban that was
// decided and lifted since is not among them.
func (e *engine) handOver() {
	for target := range e.changed {
		if h := e.bans.bans[target]; h != nil {
			e.update.Bans = append(e.update.Bans, h.Ban.Clone())
		} else {
			e.update.Unbans = append(e.update.Unbans, target)
		}
	}
	clear(e.changed)
	if e.update.Len() == 0 {
		return
	}
	e.put(e.update)
	e.update = state.Update{}
	e.snapshots.changes++
}

// upkeep gives back memory and looks at the logs' health.
func (e *engine) upkeep(now time.Time) {
	horizon := now.UnixNano()
	if e.oldest != 0 && e.oldest < horizon {
		horizon = e.oldest // some log is being caught up with
	}
	e.oldest = 0
	e.detect.Forget(horizon - int64(lateness))
	e.update.ForgetOffences = append(e.update.ForgetOffences, e.offences.forget(now)...)
	e.forgetPardons(now)
	e.endHolds(now)
	e.forgetGone(now)
	e.sayRest(now)
	e.lookAtCounters(now)
	e.lookAtAllHits(now)
	e.remember(now)
	e.sayForwarded(now)
	e.liftProtected(now)
	e.recheckNetworks()
	for _, l := range e.logs {
		e.lookAtLog(l, now)
		l.suspects.look(e.log, e.said, l.Name, now)
	}
}
