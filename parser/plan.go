package parser

import (
	"fmt"
	"strings"
)

// How fields are found, so that nobody who writes into one field can shift
// another.
//
// Each variable has a class: the bytes that its value can hold once the
// server has escaped it. If the literal behind a variable has a byte that the
// class lacks, the first such byte in the line is the literal's, and the value
// ends there: a safe anchor. In `"$http_user_agent" ` the quote is one, since
// the server escapes quotes in values.
//
// Otherwise the variables up to the next safe anchor form a group. Its end is
// known, and from there the values are taken backwards as long as they have a
// fixed length or cannot hold the literal before them. In `$remote_user
// [$time_local] "` the quote ends the group, the time before it has a fixed
// length, and what is left is the user, whatever brackets or times it holds.
//
// Variables that can be told from neither side are refused if they matter
// (role.critical), else the first fit is taken.

// opcode is what a step does. pos is where the unread line begins, end where
// the group ends.
type opcode uint8

const (
	opLiteral     opcode = iota // lit stands at pos
	opFixed                     // a value of n bytes, then lit
	opUntil                     // a value up to the anchor, then lit
	opUntilQuotes               // opUntil for a value that can be empty quotes
	opNumber                    // opUntil for a status or a size: quick for digits
	opNoName                    // quick for the usual group "- [time] ": skips the n steps that would read it
	opWord                      // a value up to a blank or the line's end
	opGroup                     // finds the group's end: lit, by its anchor
	opGroupEOL                  // the group's end is the line's, less lit
	opBackFixed                 // a value of n bytes before end, lit before it
	opBackWord                  // a value before end, lit before it, by its anchor
	opFirstFit                  // a value up to the first lit before end
	opRest                      // a value from pos to end; pos goes behind the group
)

// step is one instruction of a compiled format.
type step struct {
	op      opcode
	role    role
	first   role // opGroup, opGroupEOL: of the group's first variable
	loose   bool // opRest: the value may be a wrong fit
	escaped bool // the anchor is a quote that values hold escaped
	anchor  byte // the byte of lit that cannot be in the value
	at      int  // its index in lit
	n       int  // the length of a fixed value
	lit     string
	word    uint64 // lit, if it is short, as the bytes of a number …
	mask    uint64 // … whose other bytes this clears
	behind  string // opNoName: what stands behind the time
	empty   string // opUntil, opGroup: a value that is skipped as a whole: `""` and what follows
}

// planner turns a template into steps.
type planner struct {
	*template
	steps []step
}

func (p *planner) plan() error {
	if p.lits[0] != "" {
		p.steps = append(p.steps, step{op: opLiteral, lit: p.lits[0]})
	}
	for i := 0; i < len(p.vars); {
		next, err := p.next(i)
		if err != nil {
			return err
		}
		i = next
	}
	return nil
}

// next plans the variable i, or the group that it begins, and returns the
// first variable behind.
func (p *planner) next(i int) (int, error) {
	v, lit := p.vars[i], p.lits[i+1]
	switch k, safe := v.class.anchor(lit); {
	case v.fixed > 0:
		p.steps = append(p.steps, step{op: opFixed, role: v.role, n: v.fixed, lit: lit})
	case safe:
		op := opUntil
		if v.role == roleStatus || v.role == roleBytes {
			op = opNumber
		}
		if v.emptyQuotes {
			op = opUntilQuotes
		}
		p.steps = append(p.steps, v.anchored(step{op: op, role: v.role, lit: lit}, k, v.class, lit))
	case i == len(p.vars)-1 && lit == "" && v.word:
		p.steps = append(p.steps, step{op: opWord, role: v.role})
	default:
		return p.group(i)
	}
	return i + 1, nil
}

// anchored completes a step that looks for the byte k of lit behind values of
// class c, the first of which is v, with the literal first behind it.
func (v *variable) anchored(s step, k int, c class, first string) step {
	s.at, s.anchor = k, s.lit[k]
	s.escaped = c.escaped && s.anchor == '"'
	if v.emptyQuotes && s.escaped {
		s.empty = `""` + first
	}
	return s
}

// group plans the group that begins with variable i.
func (p *planner) group(i int) (int, error) {
	c, last := p.vars[i].class, i
	k, anchored := 0, false
	for {
		if k, anchored = c.anchor(p.lits[last+1]); anchored || last == len(p.vars)-1 {
			break
		}
		last++
		c = c.union(p.vars[last].class)
		if c.escaped && (strings.Contains(p.lits[last], `\`) || p.vars[last].emptyQuotes) {
			// Behind a backslash of the format's own no quote is known to
			// be one; and the raw quotes of an empty user are only known
			// where the user's beginning is.
			c.set = c.set.and(`"`)
		}
	}
	head := step{op: opGroupEOL, lit: p.lits[last+1], role: p.groupRole(i, last), first: p.vars[i].role}
	if anchored {
		head.op = opGroup
		head = p.vars[i].anchored(head, k, c, p.lits[i+1])
	}
	if anchored && last == i+1 && (p.vars[i].role == roleUser || p.vars[i].role == roleSkip) && p.vars[last].role == roleTime && p.vars[last].fixed > 0 {
		// Nearly always nobody has logged in: "-". Neither that nor a time
		// holds the anchor, so this is what the steps would find.
		p.noName(step{op: opNoName, role: roleTime, n: 3, at: p.vars[last].fixed, lit: "-" + p.lits[last], behind: p.lits[last+1]})
	}
	p.steps = append(p.steps, head)
	left := p.backwards(i, last)
	undecided := p.vars[i : left+1]
	if !anchored {
		undecided = p.vars[i : last+1]
	}
	if len(undecided) > 1 {
		if err := p.refuse(i, undecided, c); err != nil {
			return 0, err
		}
	}
	for ; i < left; i++ {
		p.steps = append(p.steps, step{op: opFirstFit, role: p.vars[i].role, lit: p.lits[i+1]})
	}
	p.steps = append(p.steps, step{op: opRest, role: p.vars[left].role, loose: len(undecided) > 1})
	return last + 1, nil
}

// noName adds a step for the usual case of the group that follows. What is
// skipped in front of it is mostly a dash as well (Apache's %l).
func (p *planner) noName(s step) {
	n := len(p.steps)
	if n > 0 && p.steps[n-1].op == opUntil && p.steps[n-1].role == roleSkip && p.steps[n-1].anchor != '-' {
		before := p.steps[n-1]
		s.lit = "-" + before.lit + s.lit
		s.n++
		p.steps = append(p.steps[:n-1], s, before)
		return
	}
	p.steps = append(p.steps, s)
}

// groupRole is what a line lacks if the end of the group is not in it.
func (p *planner) groupRole(i, last int) role {
	for _, v := range p.vars[i : last+1] {
		if v.role.critical() {
			return v.role
		}
	}
	return p.vars[i].role
}

// backwards plans the variables of a group from its end and returns the last
// one for which that does not work, or the first of the group.
func (p *planner) backwards(i, last int) int {
	for ; last > i; last-- {
		v, lit := p.vars[last], p.lits[last]
		if v.fixed > 0 {
			p.steps = append(p.steps, step{op: opBackFixed, role: v.role, n: v.fixed, lit: lit})
			continue
		}
		k, safe := v.class.anchorBack(lit)
		if !safe {
			break
		}
		p.steps = append(p.steps, step{op: opBackWord, role: v.role, anchor: lit[k], at: k, lit: lit})
	}
	return last
}

// refuse reports the first of the variables that matters, if one does. i is
// the index of the first of them.
func (p *planner) refuse(i int, undecided []*variable, c class) error {
	for j, v := range undecided {
		if !v.role.critical() {
			continue
		}
		if !c.escaped && c.set.has('"') {
			return v.fail("values are not escaped, so its place in the line can be forged", "use escape=default in the log_format")
		}
		for b := j - 1; b >= 0; b-- {
			if before := undecided[b]; before.freeText() {
				return v.fail(
					fmt.Sprintf("%s before it is not quoted and can hold the %q between them", before.text, strings.Join(p.between(i+b, i+j), " … ")),
					fmt.Sprintf("put quotes around %s, or move %s to the front", before.text, v.text))
			}
		}
		return v.fail(fmt.Sprintf("where it ends cannot be told: it can hold the %q behind it", p.lits[i+j+1]),
			fmt.Sprintf("put quotes around %s", v.text))
	}
	return nil
}

func (v *variable) freeText() bool { return !v.word && v.fixed == 0 }

// between returns the literals between two variables.
func (p *planner) between(a, b int) []string { return p.lits[a+1 : b+1] }
