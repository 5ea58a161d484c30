package detector

import (
	"net/netip"
	"slices"

	"github.com/tailban/tailban/parser"
)

// Record is a line that has been parsed, perhaps long before its turn.
type Record struct {
	Event parser.Event
	Err   error // that Parse returned
	Cut   bool  // the line was only the beginning of a longer one

	who   who    // if prepared
	rules uint64 // generation of the rules that who was found by; 0: it is not
}

// who is whom an event is of.
type who struct {
	client netip.Addr
	plane  parser.Resolution // as the resolver found it
	target netip.Prefix
	key    key
	slot   uint32 // where its window may be
}

const (
	// maxNear is in how many jails a client's window is brought near.
	maxNear = 2

	// nearby is of how many records that is done at a time.
	nearby = 64
)

// Prepare finds out whom records of a log are of, and brings their windows near to
// the processor, many at once: one after the other each would be waited for. It
// decides nothing and changes nothing, and [Engine.Parsed] does no other than
// without. Between both, the engine may be told of nothing but lines, and of answers
// and the time ([Engine.Answer], [Engine.Due]).
func (e *Engine) Prepare(l *Log, records []Record) {
	e.bind(l)
	for i := range records {
		if r := &records[i]; r.Err == nil {
			e.identify(&r.Event, &r.who)
			r.rules = e.generation
		}
	}
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
		if r.Err != nil {
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
	if w.plane != parser.Nobody {
		w.target, w.key = e.target(w.client)
	}
}
