package detector

import (
	"fmt"
	"maps"
	"slices"
)

// maxTables is how much the programs of all logs may take together, and the
// automata of lists of agents by themselves, in entries of four bytes: many
// times what 300 agents take, and memory that nobody misses.
const maxTables = 16 << 20

// compilePrograms makes the programs of all logs that jails are about. Logs with
// the same jails have the same one, so that many sites with long lists take no
// more than one. What would take more than is left is done jail by jail.
func (r *Rules) compilePrograms(programs, lists int) {
	about := map[string][]int{} // the jails of each log
	for i := range r.jails {
		for _, log := range r.jails[i].Logs {
			if list := about[log]; len(list) == 0 || list[len(list)-1] != i {
				about[log] = append(list, i)
			}
		}
	}
	r.programs = map[string]*program{}
	made := map[string]*program{}
	for _, log := range slices.Sorted(maps.Keys(about)) {
		key := fmt.Sprint(about[log])
		if made[key] == nil {
			var jails []*jailRules
			for _, i := range about[log] {
				jails = append(jails, &r.jails[i])
			}
			made[key] = makeProgram(jails, &programs, &lists)
		}
		r.programs[log] = made[key]
	}
}

// makeProgram takes what a program needs from programs, or what the lists of
// agents of its jails do from lists: those are there once, whichever logs their
// jails are about.
func makeProgram(jails []*jailRules, programs, lists *int) *program {
	if p := newProgram(jails, *programs); p != nil {
		*programs -= p.size
		return p
	}
	for _, j := range jails {
		j.matcher.match.agents.index(lists)
		j.matcher.not.agents.index(lists)
	}
	return newSmallProgram(jails)
}

// newSmallProgram makes a program that asks one jail after the other, and takes
// no memory of its own.
func newSmallProgram(jails []*jailRules) *program {
	return &program{words: (len(jails) + 63) / 64, each: jails}
}

// holdsEach is holds of a program that asks one jail after the other.
func (p *program) holdsEach(ev *event, s *scratch) []uint64 {
	clear(s.jails)
	for n, j := range p.each {
		if j.matcher.holds(ev) {
			s.jails[n/64] |= 1 << (n % 64)
		}
	}
	return s.jails
}

// patternSize is about what a path pattern takes in a program, beside its sets.
const patternSize = 64

// tooLarge adds up what the conditions take but for the automata, and reports
// whether that is more than there is room for.
func (p *program) tooLarge(jails []*jailRules, room int) bool {
	p.size = (maxStatus + 1) * (6 + 2*p.words)
	for _, j := range jails {
		p.size += (len(j.matcher.match.paths) + len(j.matcher.not.paths)) * (patternSize + 4*p.words)
	}
	return p.size > room
}

// literals makes an automaton if there is room for it beside the rest.
func (p *program) literals(texts []literal, words, room int) (*literals, bool) {
	l := newLiterals(texts, words, room-p.size)
	if l == nil {
		return nil, false
	}
	p.size += l.size()
	return l, true
}
