package detector

import (
	"slices"

	"github.com/tailban/tailban/parser"
)

// Use puts other rules in the place of those in use. It may be called between
// two lines: no event is lost by it, and none counts twice.
//
// A jail that has the name of one in use and counts the same events (its
// conditions and window are equal; logs may come and go) keeps its windows, [Engine.Fits] and the
// bans that it only observed, whatever else has changed; kept holds the names
// of those. All others start empty. So do wanted agents, whose name, texts and
// window must be equal. Bans that are enforced, offences and what was counted
// of logs stay. Who is allowed is what the rules say: see [Engine.SetAllow].
func (e *Engine) Use(r *Rules) (kept []string) {
	jails := make(map[string]*jail, len(e.jails))
	for _, j := range e.jails {
		jails[j.identity] = j
	}
	agents := make(map[string]uint16, len(e.wanted))
	for i := range e.wanted {
		if w := &e.wanted[i]; w.limited() {
			agents[w.identity] = w.rule
		}
	}
	hadDeny := e.denied.denyRules != nil

	e.generation++
	e.rules, e.resolver, e.allow = r, r.resolver, r.allow
	e.scratch = map[*program]*scratch{}
	e.jails = make([]*jail, len(r.jails))
	e.wanted = make([]wanted, len(r.wanted))
	e.denied = denied{denyRules: r.deny}

	// What is gone goes first, so that its memory and numbers are there for
	// what is new.
	for i := range r.jails {
		if j := jails[r.jails[i].identity]; j != nil {
			delete(jails, j.identity)
			kept = append(kept, j.Name)
			j.jailRules = &r.jails[i]
			e.jails[i] = j
		}
	}
	gone := map[int]bool{denyID: hadDeny && r.deny == nil}
	for _, j := range jails {
		e.windows.dropRule(j.rule)
		gone[j.id] = true
	}
	for i := range r.wanted {
		w := &r.wanted[i]
		if !w.limited() {
			e.wanted[i] = wanted{wantedRules: w}
		} else if rule, ok := agents[w.identity]; ok {
			delete(agents, w.identity)
			e.windows.widen(rule, w.Limit)
			e.wanted[i] = wanted{w, rule}
		}
	}
	for _, rule := range agents {
		e.windows.dropRule(rule)
	}
	for i := range r.wanted {
		if w := &r.wanted[i]; e.wanted[i].wantedRules == nil {
			e.wanted[i] = wanted{w, e.windows.addRule(w.Limit, int64(w.Window))}
		}
	}
	for i := range r.jails {
		if j := &r.jails[i]; e.jails[i] == nil {
			e.lastID++
			e.jails[i] = &jail{jailRules: j, id: e.lastID, rule: e.windows.addRule(j.limits.most, int64(j.Window))}
		} else {
			e.windows.widen(e.jails[i].rule, j.limits.most)
		}
	}
	e.dropBans(gone)
	e.settle()
	e.windows.setCap(r.opt.MaxMemory)
	if e.proofs == nil && len(r.domains) > 0 {
		e.proofs = newProofs()
	}
	if e.proofs != nil && e.proofs.use(r.domains) {
		e.askAgain()
	}
	return kept
}

// dropBans forgets the bans of those who are gone.
func (e *Engine) dropBans(gone map[int]bool) {
	if len(gone) == 1 && !gone[denyID] {
		return
	}
	for bk := range e.bans.entries {
		if gone[bk.owner] {
			e.bans.delete(bk)
		}
	}
}

// settle sets the mode of each rule, and how many bans there can be: of one
// target one that is enforced, and one of each rule that enforces nothing.
func (e *Engine) settle() {
	holders := 1
	for _, j := range e.jails {
		if j.mode = newMode(j.id, j.Observe || e.held[j.Name], j.Passive); j.owner != enforced {
			holders++
		}
	}
	if d := &e.denied; d.denyRules != nil {
		if d.mode = newMode(denyID, d.Observe || e.held[DenyName], d.Passive); d.owner != enforced {
			holders++
		}
	}
	e.bans.setCap(e.rules.opt.MaxBans * holders)
}

// Hold makes a jail, or the denial (DenyName), only observe from the next line
// on, or ends that, and reports whether there is such a rule. What it has
// banned stays banned. Rules that come later have it held as well, also if
// some in between know no such jail.
func (e *Engine) Hold(jail string, on bool) bool {
	known := e.knows(jail)
	if !on {
		delete(e.held, jail)
	} else if known {
		e.held[jail] = true
	}
	e.settle()
	return known
}

func (e *Engine) knows(rule string) bool {
	return e.jail(rule) != nil || rule == DenyName && e.denied.denyRules != nil
}

// Held returns the names of the rules that are held, sorted.
func (e *Engine) Held() []string {
	var names []string
	for name := range e.held {
		if e.knows(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Rebind gives a log another format. Its counters go on.
func (e *Engine) Rebind(l *Log, format parser.Format) { l.format = format }

// bind finds the jails of a log, which are others since the rules are.
func (e *Engine) bind(l *Log) {
	if l.generation == e.generation {
		return
	}
	l.generation, l.jails, l.near = e.generation, nil, nil
	for _, j := range e.jails {
		if slices.Contains(j.Logs, l.Name) {
			l.jails = append(l.jails, j)
			if j.matcher.all && len(l.near) < maxNear {
				l.near = append(l.near, j)
			}
		}
	}
	if l.program = e.rules.programs[l.Name]; l.program != nil {
		if l.scratch = e.scratch[l.program]; l.scratch == nil { // one for all logs with that program
			l.scratch = newScratch(l.program)
			e.scratch[l.program] = l.scratch
		}
	}
}
