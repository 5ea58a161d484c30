package fakecloudflare

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// phase is the only one there is here: that of custom rules.
const phase = "http_request_firewall_custom"

// A ruleset is the entry point of the phase in a zone. Rules are tried in their order.
type ruleset struct {
	id, name, description string
	version               int
	rules                 []*rule
	updated               time.Time
}

type rule struct {
	id      string
	version int
	ruleDefinition
	updated time.Time
	expr    *expression // nil: a foreign one this double can't read, which matches nothing
	lists   []string    // lists it names
}

// A ruleDefinition is what a client says of a rule.
type ruleDefinition struct {
	Action                 string          `json:"action,omitempty"`
	ActionParameters       json.RawMessage `json:"action_parameters,omitempty"`
	Categories             json.RawMessage `json:"categories,omitempty"`
	Description            string          `json:"description,omitempty"`
	Enabled                *bool           `json:"enabled,omitempty"`
	ExposedCredentialCheck json.RawMessage `json:"exposed_credential_check,omitempty"`
	Expression             string          `json:"expression,omitempty"`
	Logging                json.RawMessage `json:"logging,omitempty"`
	Ratelimit              json.RawMessage `json:"ratelimit,omitempty"`
	Ref                    string          `json:"ref,omitempty"`
}

// A ruleBody is a rule in a request. ID is taken where a whole ruleset is written:
// a rule with one keeps it.
type ruleBody struct {
	ruleDefinition
	ID       string        `json:"id,omitempty"`
	Position *rulePosition `json:"position,omitempty"`
}

// A rulePosition says where a rule goes: before or after another ("" is the top or
// the bottom), or as the Index-th from 1.
type rulePosition struct {
	Before *string `json:"before"`
	After  *string `json:"after"`
	Index  *int    `json:"index"`
}

type ruleJSON struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	ruleDefinition
	Updated string `json:"last_updated"`
}

type rulesetJSON struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Kind        string     `json:"kind"`
	Phase       string     `json:"phase"`
	Version     string     `json:"version"`
	Rules       []ruleJSON `json:"rules,omitzero"`
	Updated     string     `json:"last_updated"`
}

func (s *Server) showRuleset(rs *ruleset, withRules bool) rulesetJSON {
	out := rulesetJSON{
		ID: rs.id, Name: rs.name, Description: rs.description, Kind: "zone", Phase: phase,
		Version: strconv.Itoa(rs.version), Updated: s.stamp(rs.updated),
	}
	if withRules {
		out.Rules = []ruleJSON{}
		for _, r := range rs.rules {
			out.Rules = append(out.Rules, ruleJSON{r.id, strconv.Itoa(r.version), r.ruleDefinition, s.stamp(r.updated)})
		}
	}
	return out
}

// references counts the rules of an account's zones that name a list.
func (s *Server) references(a *account, name string) int {
	n := 0
	for _, z := range s.zones {
		if z.account != a || z.rules == nil {
			continue
		}
		for _, r := range z.rules.rules {
			if slices.Contains(r.lists, name) {
				n++
			}
		}
	}
	return n
}

// Codes of refusals about rules. Those of an expression and of a missing entry point
// were seen by others; the rest are not known and only have to differ.
const (
	codeNoRuleset     = 10002
	codeNoEntrypoint  = 10003
	codeNoRule        = 10004
	codeBadRule       = 20120
	codeBadExpression = 20127
	codeRulesetTaken  = 20217
	codeTooManyRules  = 50105
)

func (s *Server) zone(c *call) *zone { return s.zones[c.vars["zone"]] }

func (s *Server) entrypoint(c *call) answer {
	z := s.zone(c)
	if c.vars["phase"] != phase || z.rules == nil {
		return refuse(http.StatusNotFound, codeNoEntrypoint, "could not find entrypoint ruleset in the %s phase", c.vars["phase"])
	}
	return ok(s.showRuleset(z.rules, true))
}

// ruleset finds the one a path names, or the refusal.
func (s *Server) ruleset(c *call) (*zone, *ruleset, *answer) {
	z := s.zone(c)
	if z.rules == nil || z.rules.id != c.vars["ruleset"] {
		no := refuse(http.StatusNotFound, codeNoRuleset, "could not find ruleset %s", c.vars["ruleset"])
		return z, nil, &no
	}
	return z, z.rules, nil
}

func (s *Server) getRuleset(c *call) answer {
	_, rs, no := s.ruleset(c)
	if no != nil {
		return *no
	}
	return ok(s.showRuleset(rs, true))
}

func (s *Server) listRulesets(c *call) answer {
	out := []rulesetJSON{}
	if rs := s.zone(c).rules; rs != nil {
		out = append(out, s.showRuleset(rs, false))
	}
	return ok(out)
}

type rulesetBody struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Kind        string     `json:"kind"`
	Phase       string     `json:"phase"`
	Rules       []ruleBody `json:"rules"`
}

func (s *Server) createRuleset(c *call) answer {
	z := s.zone(c)
	var in rulesetBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	switch {
	case in.Kind != "zone":
		return refuse(http.StatusBadRequest, codeBadRule, "'%s' is not a valid value for kind", in.Kind)
	case in.Phase != phase:
		return refuse(http.StatusBadRequest, codeBadRule, "'%s' is not a phase this double knows", in.Phase)
	case in.Name == "":
		return refuse(http.StatusBadRequest, codeBadRule, "name is missing")
	case z.rules != nil:
		return refuse(http.StatusBadRequest, codeRulesetTaken,
			"'zone' is not a valid value for kind because exceeded maximum number of zone rulesets for phase %s", phase)
	}
	return s.writeRuleset(c, z, in)
}

func (s *Server) updateRuleset(c *call) answer {
	z, _, no := s.ruleset(c)
	if no != nil {
		return *no
	}
	var in rulesetBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	return s.writeRuleset(c, z, in)
}

func (s *Server) updateEntrypoint(c *call) answer {
	var in rulesetBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if c.vars["phase"] != phase {
		return refuse(http.StatusBadRequest, codeBadRule, "'%s' is not a phase this double knows", c.vars["phase"])
	}
	return s.writeRuleset(c, s.zone(c), in)
}

// writeRuleset replaces all rules of a zone: those not in the request are gone.
func (s *Server) writeRuleset(c *call, z *zone, in rulesetBody) answer {
	if n := s.opt.Limits.CustomRules; len(in.Rules) > n {
		return s.tooManyRules(len(in.Rules))
	}
	next := ruleset{id: s.newID(), name: "default", updated: c.now}
	if z.rules != nil {
		next = *z.rules
		next.updated = c.now
	}
	next.rules = nil
	for _, b := range in.Rules {
		r := &rule{id: s.newID()}
		if b.ID != "" {
			at := -1
			if z.rules != nil {
				at = z.rules.find(b.ID)
			}
			if at < 0 {
				return refuse(http.StatusBadRequest, codeNoRule, "could not find rule %s", b.ID)
			}
			*r = *z.rules.rules[at]
		}
		if no := s.define(z.account, r, b.ruleDefinition, c.now); no != nil {
			return *no
		}
		next.rules = append(next.rules, r)
	}
	if dup := next.duplicateRef(); dup != "" {
		return refuse(http.StatusBadRequest, codeBadRule, "'%s' is not a valid value for ref because it is not unique", dup)
	}
	if dryRun(c) {
		return ok(nil)
	}
	if in.Name != "" {
		next.name = in.Name
	}
	next.description = in.Description
	next.version++
	z.rules = &next
	c.rec.Applied = true
	return ok(s.showRuleset(z.rules, true))
}

func dryRun(c *call) bool { return c.query.Get("dry_run") == "true" }

func (s *Server) tooManyRules(n int) answer {
	return refuse(http.StatusBadRequest, codeTooManyRules, "exceeded maximum number of rules in the phase %s: %d out of %d",
		phase, n, s.opt.Limits.CustomRules)
}

func (rs *ruleset) find(id string) int {
	return slices.IndexFunc(rs.rules, func(r *rule) bool { return r.id == id })
}

func (rs *ruleset) duplicateRef() string {
	seen := make(map[string]bool)
	for _, r := range rs.rules {
		if seen[r.Ref] {
			return r.Ref
		}
		seen[r.Ref] = true
	}
	return ""
}
