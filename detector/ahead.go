package detector

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/tailban/tailban/parser"
)

// Identity is whom a line is of, and when that was. It is what is asked of every line,
// in half a cache line: who parses may be at another core than who takes it.
type Identity struct {
	hi, lo uint64 // the client, as in key
	time   int64
	rules  uint32            // generation of the rules it was found by
	bits   uint8             // of the target
	plane  parser.Resolution // as the resolver found it
	failed bool
	cut    bool
}

// Failed reports whether the line did not parse: then it is not known whom it is of.
func (id *Identity) Failed() bool { return id.failed }

// Time is that of the event, in nanoseconds since the epoch.
func (id *Identity) Time() int64 { return id.time }

// Record is a line that has been parsed, perhaps long before its turn.
type Record struct {
	event *parser.Event
	err   error  // that Parse returned
	who   who    // if identified
	rules uint32 // generation of the rules that who was found by; 0: it is not
	cut   bool   // the line was only the beginning of a longer one
}

// who is whom an event is of, and when it was.
type who struct {
	client netip.Addr
	key    key // of the target
	time   int64
	slot   uint32            // where its window may be
	plane  parser.Resolution // as the resolver found it
}

// target is what its key stands for.
func (w *who) target() netip.Prefix {
	if w.key.bits < 128 {
		return first64(w.client)
	}
	return single(w.client)
}

const (
	// maxNear is in how many jails a client's window is brought near.
	maxNear = 2

	// nearby is of how many records that is done at a time.
	nearby = 64
)

// Identify finds out whom a line is of that has been parsed. err is what Parse returned
// and cut what it was told. It may be called while the engine takes other lines, and
// for other lines at the same time, as long as the engine is told of nothing else but
// answers and the time ([Engine.Answer], [Engine.Due]).
func (e *Engine) Identify(id *Identity, ev *parser.Event, err error, cut bool) {
	// Each field by itself: what is copied whole just behind waits for the parts.
	id.failed, id.cut, id.rules = err != nil, cut, 0
	if err != nil {
		return
	}
	var w who
	e.identify(ev, &w)
	id.time, id.plane, id.rules = w.time, w.plane, e.generation
	id.bits, id.hi, id.lo = uint8(w.key.bits), w.key.hi, w.key.lo
	if w.plane != parser.Nobody && w.key.bits < 128 {
		b := w.client.As16()
		id.lo = binary.BigEndian.Uint64(b[8:])
	}
}

// Set makes it that of a line whose identity is known. err says why the line is none.
func (r *Record) Set(id *Identity, ev *parser.Event, err error) {
	r.event, r.err, r.rules, r.cut = ev, err, id.rules, id.cut
	w := &r.who
	w.time, w.plane, w.slot = id.time, id.plane, 0
	k := key{id.hi, id.lo, uint64(id.bits)}
	w.client = k.addr()
	w.key.hi, w.key.lo, w.key.bits = k.hi, k.lo, k.bits
	if k.bits < 128 {
		w.key.lo = 0
	}
}

// Prepare brings the windows of those whom identified records of a log are of near
// to the processor, many at once: one after the other each would be waited for. It
// decides nothing and changes nothing, and [Engine.Parsed] does no other than
// without. Between both, the engine may be told of nothing but lines, and of answers
// and the time.
func (e *Engine) Prepare(l *Log, records []Record) {
	e.bind(l)
	if l.program != nil && !l.program.plain {
		e.sum = readAll(records)
	}
	for _, j := range l.near {
		for some := range slices.Chunk(records, nearby) {
			e.bringNear(j, some)
		}
	}
}

// readAll reads something of each cache line of the records' events, and of the texts
// that conditions look at.
func readAll(records []Record) (sum uint64) {
	for i := range records {
		if r := &records[i]; r.err == nil {
			ev := r.event
			sum += uint64(ev.Time) + uint64(len(ev.Method)) + uint64(ev.Status) + uint64(len(ev.User))
			if len(ev.Target) > 0 {
				sum += uint64(ev.Target[0])
			}
			if n := len(ev.Agent); n > 0 {
				sum += uint64(ev.Agent[0]) + uint64(ev.Agent[n-1])
			}
		}
	}
	return sum
}

// bringNear reads what counting the records in a jail will read.
func (e *Engine) bringNear(j *jail, records []Record) {
	var entries [nearby]entry
	n, sum := 0, uint64(0) // of what is read, so that it is of use
	for i := range records {
		r := &records[i]
		if r.err != nil || r.rules != e.generation {
			continue
		}
		if e.sieve.may(r.who.key) { // who is banned has no window
			sum += uint64(e.bans.near(banKey{r.who.key, enforced}))
			continue
		}
		if x := e.windows.index.near(r.who.key.of(j.rule)); x != 0 {
			entries[n], r.who.slot = x, x.slot()
			n++
		}
	}
	for _, x := range entries[:n] {
		s := e.windows.slot(x.slot())
		sum += s.key.lo + uint64(s.few[fewTimes-1])
	}
	for _, x := range entries[:n] {
		times := e.windows.slot(x.slot()).win.times
		last := len(times) - 1
		if last < fewTimes {
			continue
		}
		sum += uint64(times[last])
		if first := last - j.Limit; first >= 0 {
			sum += uint64(times[first])
		}
	}
	e.sum = sum
}

// identify finds out whom an event is of.
func (e *Engine) identify(ev *parser.Event, w *who) {
	w.client, w.plane = e.resolver.Resolve(ev.Peer, ev.Forward)
	w.time = ev.Time
	if w.plane != parser.Nobody {
		w.key = e.key(w.client)
	}
}
