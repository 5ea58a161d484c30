package detector

import (
	"net/netip"
	"slices"

	"github.com/tailban/tailban/parser"
)

// Record is a line that has been parsed, perhaps long before its turn. It holds what
// is asked of every line, so that the event itself is looked at only for what a rule
// asks of it. One that is used again is to be identified again.
type Record struct {
	Event *parser.Event
	Err   error  // that Parse returned
	who   who    // if identified
	rules uint32 // generation of the rules that who was found by; 0: it is not
	Cut   bool   // the line was only the beginning of a longer one
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

// Identify finds out whom a record is of. It may be called while the engine takes
// other lines, and for other records at the same time, as long as the engine is told
// of nothing else but answers and the time ([Engine.Answer], [Engine.Due]).
func (e *Engine) Identify(r *Record) {
	if r.Err == nil {
		e.identify(r.Event, &r.who)
		r.rules = e.generation
	}
}

// Prepare brings the windows of those whom identified records of a log are of near
// to the processor, many at once: one after the other each would be waited for. It
// decides nothing and changes nothing, and [Engine.Parsed] does no other than
// without. Between both, the engine may be told of nothing but lines, and of answers
// and the time.
func (e *Engine) Prepare(l *Log, records []Record) {
	e.bind(l)
	for _, j := range l.near {
		for some := range slices.Chunk(records, nearby) {
			e.bringNear(j, some)
		}
	}
}

// bringNear reads what counting the records in a jail will read.
func (e *Engine) bringNear(j *jail, records []Record) {
	var entries [nearby]entry
	n, sum := 0, uint64(0) // of what is read, so that it is of use
	for i := range records {
		r := &records[i]
		if r.Err != nil || r.rules != e.generation {
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
