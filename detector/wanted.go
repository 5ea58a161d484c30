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

// needsProof reports whether its agent alone is not enough.
func (w *wantedRules) needsProof() bool { return w.from != nil || len(w.Domains) > 0 }

// Proof says which wanted machine an event is of, and how that is known.
type Proof struct {
	Wanted   string // the machine's name; "": it is of none
	ByRanges bool   // the client is in its ranges
	Source   string // whose ranges these are; "": the configuration's own
	Domain   string // of the machine's, in which the client's name is; "": its name is no proof
	Name     string // of the client
}

func (p Proof) String() string { return p.Wanted + ", " + p.How() }

// How is how the machine is known.
func (p Proof) How() string {
	switch {
	case p.Name != "":
		return "by DNS: " + p.Name
	case p.Domain != "":
		return "by DNS, in " + p.Domain
	case !p.ByRanges:
		return "by its agent alone"
	case p.Source == "":
		return "by its addresses"
	}
	return "by the ranges of " + p.Source
}

// claim is what is known of a client whose agent is that of a machine.
type claim uint8

const (
	claimFalse  claim = iota
	claimOpen         // it isn't known
	claimProven       // it is the machine
)

// proof tells by what a client whose agent is that of the machine is known to
// be it, if it is. names is what is known of its names, and asked only if
// the ranges don't tell.
func (w *wantedRules) proof(client netip.Addr, names func() *standing) (Proof, claim) {
	if !w.needsProof() {
		return Proof{Wanted: w.Name}, claimProven
	}
	if w.from != nil {
		if source, ok := w.from.Lookup(client); ok {
			return Proof{Wanted: w.Name, ByRanges: true, Source: source}, claimProven
		}
	}
	if len(w.Domains) == 0 {
		return Proof{}, claimFalse
	}
	switch s := names(); s.Result {
	case Proved:
		if name, domain, ok := nameIn(s.names, w.Domains); ok {
			return Proof{Wanted: w.Name, Domain: domain, Name: name}, claimProven
		}
	case Unknown:
		return Proof{}, claimOpen
	}
	return Proof{}, claimFalse
}

// spare is step 4, and reports whether it stops there. It notes whether the
// event is one of a client that claims to be a wanted machine, and is none or may
// be none.
func (e *Engine) spare(v *Verdict, c *candidate) bool {
	claims, proven := false, false
	var known *standing
	for i := range e.wanted {
		w := &e.wanted[i]
		if !w.agents.in(e.ev.agent()) {
			continue
		}
		claims = claims || w.needsProof()
		proof, is := w.proof(c.client, func() *standing {
			if known == nil {
				e.named = e.standing(c)
				known = &e.named
			}
			return known
		})
		if is == claimOpen && c.claims == "" {
			c.claims, c.why, c.pending = w.Name, known.reason, known.pending && e.recall == nil
		}
		if is == claimOpen && c.pending && w.limited() && e.recall == nil {
			e.windows.pass(w.rule, w.Limit, c.key, c.time) // it counts if it proves to be the machine
		}
		if is != claimProven {
			continue
		}
		proven = proven || w.needsProof()
		if !w.limited() || e.windows.pass(w.rule, w.Limit, c.key, e.ev.Time) {
			v.Proof = proof
			return true
		}
	}
	if proven {
		c.claims, c.why, c.pending = "", "", false
	}
	e.ev.falseCrawler = claims && !proven && c.claims == ""
	return false
}

// standing is what is known of a client by its names. If that is nothing, they
// are asked for.
func (e *Engine) standing(c *candidate) standing {
	switch {
	case !e.rules.opt.LooksUp:
		return standing{reason: "its names are not looked up"}
	case e.recall != nil:
		return e.proofs.of(c.client, c.moment()) // what it did was decided then
	}
	return e.proofs.ask(c.client, c.moment())
}
