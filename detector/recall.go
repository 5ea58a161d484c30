package detector

import (
	"math"
	"net/netip"
	"sort"
	"time"

	"github.com/gaissmai/bart"
)

// Change is something that happened after a snapshot and decided which lines
// counted. Lines that were counted since, and are taken again, go by it: nothing
// is decided a second time, and in whatever order they come.
type Change struct {
	Kind ChangeKind

	Target   netip.Prefix
	Client   netip.Addr // of Decided
	Jail     string     // whose ban; DenyName
	Until    int64      // when the ban ends by itself, in nanoseconds since the epoch
	Enforced bool       // it ends all counting of its target, not only that of the jail

	// Of Decided, for a rule that only observed: the event time, and the number
	// of offences up to this one.
	Observe bool
	Time    int64
	Offence int

	Allow, Disallow []netip.Prefix // of Allowed
}

// ChangeKind says what a change was.
type ChangeKind uint8

const (
	Nothing ChangeKind = iota
	Decided            // a ban, by a line that used up what the jail had counted of its target
	Spent              // the same, of a decision that the guard has refused: no ban
	Begun              // the jail began to count, at zero
	Banned             // a ban that used up nothing
	UsedUp             // what all jails had counted of exactly that target
	Lifted             // the bans of exactly that target ended
	Allowed            // others were allowed
)

// recall is what the lines taken again go by. A turn is a place between the
// changes: that of a line is the number of those that came before it.
type recall struct {
	changes []Change
	turn    int // of the line at hand

	bans     map[banKey][]turnBan // of each ban that changes, in order
	networks *bart.Lite           // targets of those that a client's target alone doesn't find
	used     map[usedKey]int      // the turn of the last line that was used up
	begun    map[uint16]int       // the turn of the last line that a rule has not counted
	usedUp   map[key]int          // the same, in all jails
	allowed  *bart.Table[[]turns]
}

// turnBan is when a ban ends by itself, for lines from a turn on.
type turnBan struct {
	turn  int
	until int64
}

// noBan is the end of a ban that has ended before its time.
const noBan = math.MinInt64

type usedKey struct {
	rule uint16
	key  key
}

// turns are those from one up to and including another.
type turns struct{ from, to int }

// Recall prepares an engine, that has taken up a snapshot, for lines that were
// counted since: see [Engine.Again]. allowed are those who were when it was
// taken; changes are what has happened since, in order.
func (e *Engine) Recall(allowed []netip.Prefix, changes []Change) {
	r := &recall{
		changes: changes, bans: map[banKey][]turnBan{}, networks: new(bart.Lite),
		used: map[usedKey]int{}, begun: map[uint16]int{}, usedUp: map[key]int{}, allowed: new(bart.Table[[]turns]),
	}
	e.recall = r
	for _, p := range allowed {
		r.allow(p, 0)
	}
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case Decided, Spent:
			if j := e.jail(c.Jail); j != nil {
				k := keyOf(e.Target(c.Client))
				r.used[usedKey{j.rule, k}] = i
				e.windows.drop(j.rule, k)
			}
			if c.Kind == Decided {
				e.recallBan(c, i+1)
			}
		case Begun:
			if j := e.jail(c.Jail); j != nil {
				r.begun[j.rule] = i
				e.windows.clearRule(j.rule)
			}
		case Banned:
			e.recallBan(c, i+1)
		case UsedUp:
			k := keyOf(c.Target.Masked())
			r.usedUp[k] = i
			e.UseUp(c.Target)
		case Lifted:
			for _, owner := range e.owners() {
				if bk := (banKey{keyOf(c.Target.Masked()), owner}); e.lastUntil(bk) != noBan {
					r.bans[bk] = append(r.bans[bk], turnBan{i + 1, noBan})
				}
			}
		case Allowed:
			for _, p := range c.Disallow {
				r.disallow(p, i)
			}
			for _, p := range c.Allow {
				r.allow(p, i+1)
			}
		}
	}
}

// recallBan notes a ban that lines from a turn on meet.
func (e *Engine) recallBan(c *Change, turn int) {
	owner := enforced
	switch j := e.jail(c.Jail); {
	case c.Enforced:
	case c.Jail == DenyName:
		owner = denyID
	case j == nil:
		return // the jail is gone
	default:
		owner = j.id
	}
	target := c.Target.Masked()
	bk := banKey{keyOf(target), owner}
	e.recall.bans[bk] = append(e.recall.bans[bk], turnBan{turn, max(e.lastUntil(bk), c.Until)})
	if !isTarget(target) {
		e.recall.networks.Insert(target)
	}
}

func (r *recall) allow(p netip.Prefix, turn int) {
	p = p.Masked()
	here, _ := r.allowed.Get(p)
	if n := len(here); n > 0 && here[n-1].to == math.MaxInt {
		return
	}
	r.allowed.Insert(p, append(here, turns{turn, math.MaxInt}))
}

func (r *recall) disallow(p netip.Prefix, turn int) {
	if here, _ := r.allowed.Get(p.Masked()); len(here) > 0 {
		here[len(here)-1].to = min(here[len(here)-1].to, turn)
	}
}

// allows reports whether the client was allowed.
func (r *recall) allows(client netip.Addr) bool {
	if !r.allowed.Contains(client) {
		return false
	}
	for _, here := range r.allowed.Supernets(single(client)) {
		for _, x := range here {
			if x.from <= r.turn && r.turn <= x.to {
				return true
			}
		}
	}
	return false
}

// lastUntil is when a ban is to end, by what is recalled so far.
func (e *Engine) lastUntil(bk banKey) int64 {
	if list := e.recall.bans[bk]; len(list) > 0 {
		return list[len(list)-1].until
	}
	if b := e.bans.entries[bk]; b != nil { // from before the snapshot
		return b.until
	}
	return noBan
}

// untilThen is when a ban was to end, at the turn of the line at hand.
func (e *Engine) untilThen(bk banKey) int64 {
	list := e.recall.bans[bk]
	n := sort.Search(len(list), func(i int) bool { return list[i].turn > e.recall.turn })
	switch b := e.bans.entries[bk]; {
	case n > 0:
		return list[n-1].until
	case b != nil:
		return b.until
	}
	return noBan
}

// recallsBan is banned for a line that is taken again.
func (e *Engine) recallsBan(c *candidate, owner int) bool {
	runs := func(k key) bool { return e.untilThen(banKey{k, owner}) > c.time }
	if runs(c.key) {
		return true
	}
	host := single(c.client)
	if c.key.bits < 128 && runs(keyOf(host)) {
		return true
	}
	if e.networks != nil && e.networks.Contains(c.client) {
		for p := range e.networks.Supernets(host) {
			if runs(keyOf(p)) {
				return true
			}
		}
	}
	if e.recall.networks.Contains(c.client) {
		for p := range e.recall.networks.Supernets(host) {
			if runs(keyOf(p)) {
				return true
			}
		}
	}
	return false
}

// recount counts an event that nothing has used up. It may be beyond the limit
// by now, which is lower: then the next new one is what crosses it.
func (e *Engine) recount(j *jail, c *candidate) {
	r := e.recall
	if last, used := r.used[usedKey{j.rule, c.key}]; used && r.turn <= last {
		return
	}
	if last, used := r.usedUp[c.key]; used && r.turn <= last {
		return
	}
	if last, begun := r.begun[j.rule]; begun && r.turn <= last {
		return
	}
	if limit := j.limits.of(c.client); limit > 0 {
		e.windows.keep(j.rule, limit, c.key, c.time)
	}
}

// Again takes a line that was counted before, as [Engine.Line] does, between
// [Engine.Recall] and [Engine.Recalled]. turn is how many of the changes came
// before it. It decides nothing, and no counters go on. The verdict is valid until
// the next line, and has no decisions.
func (e *Engine) Again(l *Log, line []byte, cut bool, at Line, turn int) *Verdict {
	late, refused, counters := e.windows.late, e.windows.refused, l.LogCounters
	e.recall.turn, e.ownAt = turn, at
	e.at = &e.ownAt
	v := e.line(l, line, cut, 0)
	e.windows.late, e.windows.refused, l.LogCounters = late, refused, counters
	return v
}

// Recalled ends what Recall began. The bans and offences that are known are
// those that only concern the counting: what is in force at now, and all
// offences but those of rules that only observed, is to be told with
// [Engine.Restore] and [Engine.RestoreOffence].
func (e *Engine) Recalled(now time.Time) {
	r := e.recall
	e.recall = nil
	for bk, list := range r.bans {
		if until := list[len(list)-1].until; until == noBan {
			e.bans.delete(bk)
		} else {
			e.bans.put(bk, struct{}{}, until)
		}
	}
	for bk, b := range e.bans.entries {
		if b.until > now.UnixNano() {
			e.bans.delete(bk)
		}
	}
	for k := range e.past.entries {
		if !k.tried && k.history != ObservedHistory {
			e.past.delete(k)
		}
	}
	for i := range r.changes {
		e.recallOffence(&r.changes[i])
	}
}

// owners are those that a ban can have.
func (e *Engine) owners() []int {
	list := []int{enforced, denyID}
	for _, j := range e.jails {
		list = append(list, j.id)
	}
	return list
}

// recallOffence notes the offence of a decision that was only observed: nobody
// else knows of it.
func (e *Engine) recallOffence(c *Change) {
	if c.Kind != Decided || !c.Observe {
		return
	}
	if before, forgiven := e.pardons.of(keyOf(c.Target), c.Jail); forgiven && c.Time <= before {
		return
	}
	history, shared := c.Jail, e.rules.opt.SharedHistory
	if shared {
		history = ObservedHistory
	}
	e.offended(history, !shared, c.Target, c.Offence, c.Time)
}

// UseUp has what all jails have counted of exactly that target count no more: a
// decision has used it up that the engine does not know.
func (e *Engine) UseUp(target netip.Prefix) {
	k := keyOf(target.Masked())
	for _, j := range e.jails {
		e.windows.drop(j.rule, k)
	}
}

// drop forgets a window.
func (t *table) drop(rule uint16, k key) {
	if i := t.find(k.of(rule)); i != noSlot {
		t.remove(i)
	}
}

// keep counts an event and has it stay whether or not it crosses the limit, which
// it reports: of those beyond it the oldest goes.
func (t *table) keep(rule uint16, limit int, k key, at int64) (crosses bool) {
	o, _, i := t.count(noSlot, rule, limit, k, at)
	if o == crossing {
		w := &t.slot(i).win
		w.drop(w.latest(), t.rules[rule].span)
		w.remove(0)
	}
	return o == crossing
}
