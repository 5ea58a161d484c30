package detector

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
)

type wantedRules struct {
	*Wanted
	identity string // of its windows; which addresses prove it is no part of that, as such lists change
	agents   agents
	from     *bart.Table[string] // names of sources; nil: its agent is enough
}

func newWantedRules(w *Wanted) wantedRules {
	r := wantedRules{
		Wanted:   w,
		identity: fmt.Sprintf("%q %q %d", w.Name, w.Agents, w.Window),
		agents:   newAgents(w.Agents),
	}
	if len(w.From) > 0 {
		r.from = new(bart.Table[string])
		for _, s := range w.From {
			for _, p := range s.Prefixes {
				r.from.Insert(p, s.Name)
			}
		}
	}
	return r
}

// limited reports whether it has a limit, and so windows.
func (w *wantedRules) limited() bool { return w.Window > 0 }

// proof tells by what a client whose agent is that of the machine is known to
// be it; false: it only claims to be.
func (w *wantedRules) proof(client netip.Addr) (Proof, bool) {
	if w.from == nil {
		return Proof{Wanted: w.Name}, true
	}
	source, ok := w.from.Lookup(client)
	return Proof{Wanted: w.Name, ByRanges: true, Source: source}, ok
}

// Proof says which wanted machine an event is of, and how that is known.
type Proof struct {
	Wanted   string // the machine's name; "": it is of none
	ByRanges bool   // the client is in its ranges; false: its agent was enough
	Source   string // whose ranges these are; "": the configuration's own
}

func (p Proof) String() string { return p.Wanted + ", " + p.How() }

// How is how the machine is known.
func (p Proof) How() string {
	switch {
	case !p.ByRanges:
		return "by its agent alone"
	case p.Source == "":
		return "by its addresses"
	}
	return "by the ranges of " + p.Source
}

// spare is step 4, and reports whether it stops there. It notes whether the
// event is one of a client that claims to be a wanted machine, and is none.
func (e *Engine) spare(v *Verdict, c *candidate) bool {
	claims, proven := false, false
	for i := range e.wanted {
		w := &e.wanted[i]
		if !w.agents.in(e.ev.agent()) {
			continue
		}
		claims = claims || w.from != nil
		proof, ok := w.proof(c.client)
		if !ok {
			continue
		}
		proven = proven || w.from != nil
		if !w.limited() || e.windows.pass(w.rule, w.Limit, c.key, e.ev.Time) {
			v.Proof = proof
			return true
		}
	}
	e.ev.falseCrawler = claims && !proven
	return false
}

// falseCrawler reports whether an event is one of a client that claims to be a
// wanted machine, and is none: its agent is that of one that has ranges, and it
// is in those of none whose agent it has.
func (e *Engine) falseCrawler(client netip.Addr, ev *event) bool {
	claims := false
	for i := range e.wanted {
		w := &e.wanted[i]
		if w.from == nil || !w.agents.in(ev.agent()) {
			continue
		}
		if w.from.Contains(client) {
			return false
		}
		claims = true
	}
	return claims
}
