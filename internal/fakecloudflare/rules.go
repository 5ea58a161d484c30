package fakecloudflare

import (
	"net/http"
	"slices"
	"time"
)

// actions are those a custom rule of a zone can have.
func actions() []string {
	return []string{"block", "challenge", "js_challenge", "managed_challenge", "log", "skip"}
}

// define gives a rule the definition of a request, whole: what the request leaves
// out is not kept from before, as the real API says.
func (s *Server) define(a *account, r *rule, d ruleDefinition, now time.Time) *answer {
	no := func(code int, format string, args ...any) *answer {
		out := refuse(http.StatusBadRequest, code, format, args...)
		return &out
	}
	switch {
	case !slices.Contains(actions(), d.Action):
		return no(codeBadRule, "'%s' is not a valid value for action in the phase %s", d.Action, phase)
	case d.Expression == "":
		return no(codeBadExpression, "expression is missing")
	case len(d.Description) > 500:
		return no(codeBadRule, "description has more than 500 characters")
	case d.Action == "skip" && d.ActionParameters == nil:
		return no(codeBadRule, "action_parameters is missing")
	case len(d.Ratelimit) > 0 || len(d.ExposedCredentialCheck) > 0:
		return no(codeBadRule, "ratelimit and exposed_credential_check are not for the phase %s", phase)
	}
	e, err := parseExpression(d.Expression, func(name string) bool { return a.named(name) != nil })
	if err != nil {
		return no(codeBadExpression, "'%s' is not a valid value for expression because the expression is invalid: Filter parsing error: %s",
			d.Expression, err)
	}
	if d.Enabled == nil {
		yes := true
		d.Enabled = &yes
	}
	if d.Ref == "" {
		d.Ref = r.id
	}
	r.ruleDefinition, r.expr, r.lists, r.updated = d, e, e.lists, now
	r.version++
	return nil
}

func (s *Server) createRule(c *call) answer {
	z, rs, no := s.ruleset(c)
	if no != nil {
		return *no
	}
	var in ruleBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if n := len(rs.rules) + 1; n > s.opt.Limits.CustomRules {
		return s.tooManyRules(n)
	}
	r := &rule{id: s.newID()}
	if no := s.define(z.account, r, in.ruleDefinition, c.now); no != nil {
		return *no
	}
	return s.rewrite(c, rs, append(slices.Clone(rs.rules), r), r, in.Position)
}

// editRule sets a new definition, a new position or both. A request with a position
// alone leaves the definition as it is.
func (s *Server) editRule(c *call) answer {
	z, rs, no := s.ruleset(c)
	if no != nil {
		return *no
	}
	at := rs.find(c.vars["rule"])
	if at < 0 {
		return refuse(http.StatusNotFound, codeNoRule, "could not find rule %s", c.vars["rule"])
	}
	var in ruleBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	next := slices.Clone(rs.rules)
	r := *next[at]
	next[at] = &r
	if in.Position == nil || in.Action != "" || in.Expression != "" {
		if no := s.define(z.account, &r, in.ruleDefinition, c.now); no != nil {
			return *no
		}
	}
	return s.rewrite(c, rs, next, &r, in.Position)
}

// rewrite puts rules in place of a ruleset's, with one of them moved to a position.
func (s *Server) rewrite(c *call, rs *ruleset, next []*rule, r *rule, to *rulePosition) answer {
	next, found := to.place(next, r)
	if !found {
		return refuse(http.StatusBadRequest, codeBadRule, "position names no place in this ruleset")
	}
	if dup := (&ruleset{rules: next}).duplicateRef(); dup != "" {
		return refuse(http.StatusBadRequest, codeBadRule, "'%s' is not a valid value for ref because it is not unique", dup)
	}
	if dryRun(c) {
		return ok(nil)
	}
	rs.rules, rs.updated = next, c.now
	rs.version++
	c.rec.Applied = true
	return ok(s.showRuleset(rs, true))
}

// place moves a rule among others; no position is where it is.
func (p *rulePosition) place(rules []*rule, r *rule) ([]*rule, bool) {
	if p == nil {
		return rules, true
	}
	rest := slices.DeleteFunc(slices.Clone(rules), func(x *rule) bool { return x == r })
	at := -1
	other := func(id string) int { return slices.IndexFunc(rest, func(x *rule) bool { return x.id == id }) }
	switch {
	case p.Before != nil && p.After == nil && p.Index == nil:
		if at = 0; *p.Before != "" {
			at = other(*p.Before)
		}
	case p.After != nil && p.Before == nil && p.Index == nil:
		if at = len(rest); *p.After != "" {
			if at = other(*p.After); at >= 0 {
				at++
			}
		}
	case p.Index != nil && p.Before == nil && p.After == nil:
		at = *p.Index - 1
	}
	if at < 0 || at > len(rest) {
		return nil, false
	}
	return slices.Insert(rest, at, r), true
}

func (s *Server) deleteRule(c *call) answer {
	_, rs, no := s.ruleset(c)
	if no != nil {
		return *no
	}
	at := rs.find(c.vars["rule"])
	if at < 0 {
		return refuse(http.StatusNotFound, codeNoRule, "could not find rule %s", c.vars["rule"])
	}
	if dryRun(c) {
		return ok(nil)
	}
	rs.rules = slices.Delete(slices.Clone(rs.rules), at, at+1)
	rs.updated = c.now
	rs.version++
	c.rec.Applied = true
	return ok(s.showRuleset(rs, true))
}
