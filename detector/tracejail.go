package detector

import (
	"fmt"
	"strconv"
	"strings"
)

// jails is the jails' part of step 7; reached says that the event comes to
// them.
func (t *tracer) jails(c *candidate, reached bool) {
	e := t.e
	for _, j := range t.l.jails {
		fill := e.fill(j, c.target(), c.time)
		jt := JailTrace{
			Jail: j.Name, Matches: j.matcher.holds(&t.ev), Conditions: t.conditions(&j.Where),
			Count: fill.Count, Limit: j.limits.of(c.client), Window: j.Window, Observes: j.observes,
		}
		switch {
		case !jt.Matches:
			jt.Result = "its conditions do not all hold"
		case !reached:
			jt.Result = "its conditions hold, but the line does not come this far"
		case e.pardons.forgives(j.Name):
			t.forgiven = true
			jt.Result = "does not count it: it is forgiven"
		case j.owner != enforced && e.banned(c, j.owner):
			t.observed = true
			jt.Result = "does not count it: it has decided already, and enforces nothing"
		default:
			t.counted++
			jt.Result = "counts it"
			switch e.windows.foresee(j.rule, jt.Limit, c.key, c.time) {
			case crossing:
				jt.Decision = t.decide(c, j.ruling(jt.Limit))
				jt.Result = "counts it, which crosses the limit: " + rulingText(jt.Decision)
			case tooLate:
				jt.Result = "would count it, but it is older than its window, or there is no memory for one"
			}
		}
		t.Jails = append(t.Jails, jt)
	}
}

// last is the end of step 7, and step 8.
func (t *tracer) last() Step {
	switch {
	case t.counted > 0:
		t.step(7, "jails", false, "counted by %d of the log's %d jails", t.counted, len(t.Jails))
		t.guard()
		return StepCounted
	case t.observed:
		t.step(7, "jails", true, "those that would count it have decided already, and enforce nothing")
		return StepBanned
	case t.forgiven:
		t.step(7, "jails", true, "it is forgiven")
		return StepForgiven
	default:
		t.step(7, "jails", true, "the conditions of none of the log's jails hold")
		return StepUnmatched
	}
}

// guard is step 8, for the decisions of jails.
func (t *tracer) guard() {
	var banned, refused []string
	for i := range t.Jails {
		switch d := t.Jails[i].Decision; {
		case d == nil:
		case d.Refused != "":
			refused = append(refused, fmt.Sprintf("%s may not ban %s: %s", d.Jail, d.Target, d.Refused))
		default:
			banned = append(banned, fmt.Sprintf("%s may ban %s", d.Jail, d.Target))
		}
	}
	if all := append(banned, refused...); len(all) > 0 {
		t.step(8, "guard", len(banned) == 0, "%s", strings.Join(all, "; "))
	}
}

// ConditionTrace is a look at one list of a jail's conditions.
type ConditionTrace struct {
	Field string // as in the configuration
	Not   bool   // it holds if none of the list fits
	Want  string // the list
	Got   string // what the event has
	Holds bool
}

// conditions looks at each list by itself.
func (t *tracer) conditions(w *Where) []ConditionTrace {
	var out []ConditionTrace
	for _, not := range []bool{false, true} {
		from := &w.Match
		if not {
			from = &w.Not
		}
		for _, p := range parts(from) {
			if p.only.Empty() {
				continue
			}
			one := Where{Match: p.only}
			if not {
				one = Where{Not: p.only}
			}
			m := newMatcher(&one)
			out = append(out, ConditionTrace{Field: p.field, Not: not, Want: p.want, Got: p.got(t), Holds: m.holds(&t.ev)})
		}
	}
	return out
}

// part is one list of conditions, by itself.
type part struct {
	field, want string
	only        Conditions
	got         func(*tracer) string
}

func parts(c *Conditions) []part {
	return []part{
		{"method", strings.Join(c.Methods, ", "), Conditions{Methods: c.Methods}, func(t *tracer) string { return string(t.ev.Method) }},
		{"path", joined(c.Paths), Conditions{Paths: c.Paths}, func(t *tracer) string { return t.Path }},
		{"status", joined(c.Status), Conditions{Status: c.Status}, func(t *tracer) string {
			if t.ev.Status == 0 {
				return ""
			}
			return strconv.Itoa(t.ev.Status)
		}},
		{"agent", strings.Join(c.Agents, ", "), Conditions{Agents: c.Agents}, func(t *tracer) string { return string(t.ev.Agent) }},
		{"false_crawler", "true", Conditions{FalseCrawler: c.FalseCrawler}, func(t *tracer) string { return strconv.FormatBool(t.ev.falseCrawler) }},
		{"protocol", strings.Join(c.Protocols, ", "), Conditions{Protocols: c.Protocols}, func(t *tracer) string { return string(t.ev.Proto) }},
	}
}

func joined[T fmt.Stringer](items []T) string {
	texts := make([]string, len(items))
	for i := range items {
		texts[i] = items[i].String()
	}
	return strings.Join(texts, ", ")
}
