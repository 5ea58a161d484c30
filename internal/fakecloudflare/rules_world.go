package fakecloudflare

import (
	"fmt"
	"regexp"
	"slices"
)

// A Rule is a custom rule or, with Target, an access rule, as a person sees it.
type Rule struct {
	ID          string
	Action      string // of an access rule: its mode
	Expression  string
	Description string // of an access rule: its notes
	Disabled    bool
	Target      string
	Value       string
	Ref         string
}

// AddForeignRule puts a custom rule at the end of those of a zone, as somebody else
// would, and gives its id. An expression this double can't read is allowed here; it
// matches nothing, but the lists it names count as referenced.
func (s *Server) AddForeignRule(zoneID string, in Rule) (string, error) {
	now := s.lock()
	defer s.mu.Unlock()
	z := s.zones[zoneID]
	if z == nil {
		return "", fmt.Errorf("foreign rule: no zone %q", zoneID)
	}
	if z.rules == nil {
		z.rules = &ruleset{id: s.newID(), name: "default"}
	}
	enabled := !in.Disabled
	r := &rule{id: s.newID(), version: 1, updated: now, ruleDefinition: ruleDefinition{
		Action: in.Action, Expression: in.Expression, Description: in.Description, Enabled: &enabled, Ref: in.Ref,
	}}
	if r.Ref == "" {
		r.Ref = r.id
	}
	if e, err := parseExpression(in.Expression, func(string) bool { return true }); err == nil {
		r.expr, r.lists = e, e.lists
	} else {
		for _, m := range regexp.MustCompile(`\$([a-z0-9_]+)`).FindAllStringSubmatch(in.Expression, -1) {
			r.lists = append(r.lists, m[1])
		}
	}
	z.rules.rules = append(slices.Clone(z.rules.rules), r)
	z.rules.version++
	z.rules.updated = now
	return r.id, nil
}

// RemoveRule takes a custom rule away by its id, as a person would.
func (s *Server) RemoveRule(zoneID, id string) {
	now := s.lock()
	defer s.mu.Unlock()
	z := s.zones[zoneID]
	if z == nil || z.rules == nil || z.rules.find(id) < 0 {
		return
	}
	z.rules.rules = slices.DeleteFunc(slices.Clone(z.rules.rules), func(r *rule) bool { return r.id == id })
	z.rules.version++
	z.rules.updated = now
}

// Rules gives the custom rules of a zone in their order.
func (s *Server) Rules(zoneID string) []Rule {
	s.lock()
	defer s.mu.Unlock()
	z := s.zones[zoneID]
	if z == nil || z.rules == nil {
		return nil
	}
	var out []Rule
	for _, r := range z.rules.rules {
		out = append(out, Rule{
			ID: r.id, Action: r.Action, Expression: r.Expression, Description: r.Description, Disabled: !*r.Enabled, Ref: r.Ref,
		})
	}
	return out
}

// AddForeignAccessRule adds an access rule to an account or a zone, by the id of one,
// and gives the rule's id.
func (s *Server) AddForeignAccessRule(ownerID string, in Rule) (string, error) {
	now := s.lock()
	defer s.mu.Unlock()
	set, a := s.accessSet(ownerID)
	if set == nil {
		return "", fmt.Errorf("foreign access rule: no account or zone %q", ownerID)
	}
	value, p, no := s.readAccess(accessConfig{in.Target, in.Value})
	if no != nil {
		return "", fmt.Errorf("foreign access rule: %s", no.errs[0].Message)
	}
	r := &accessRule{
		id: s.newID(), mode: in.Action, target: in.Target, value: value, notes: in.Description,
		prefix: p, created: now, modified: now,
	}
	if set.same(r) != nil {
		return "", fmt.Errorf("foreign access rule: there is one for %s %s", in.Target, value)
	}
	set.add(r)
	a.rulesUsed++
	return r.id, nil
}

// AccessRules gives those of an account or a zone, by its id, oldest first.
func (s *Server) AccessRules(ownerID string) []Rule {
	s.lock()
	defer s.mu.Unlock()
	set, _ := s.accessSet(ownerID)
	if set == nil {
		return nil
	}
	var out []Rule
	for _, r := range set.rules {
		out = append(out, Rule{ID: r.id, Action: r.mode, Description: r.notes, Target: r.target, Value: r.value})
	}
	return out
}

func (s *Server) accessSet(ownerID string) (*accessSet, *account) {
	if z := s.zones[ownerID]; z != nil {
		return &z.access, z.account
	}
	if a := s.accounts[ownerID]; a != nil {
		return &a.access, a
	}
	return nil, nil
}

// EditAccessRule gives the rule for a value another mode and other notes, as a person
// would. One that isn't there is passed over.
func (s *Server) EditAccessRule(ownerID, value string, to Rule) {
	now := s.lock()
	defer s.mu.Unlock()
	if set, _ := s.accessSet(ownerID); set != nil {
		if r := set.forValue(value); r != nil {
			r.mode, r.notes, r.modified = to.Action, to.Description, now
		}
	}
}

// RemoveAccessRule takes the rule for a value away, as a person would. One that isn't
// there is passed over.
func (s *Server) RemoveAccessRule(ownerID, value string) {
	s.lock()
	defer s.mu.Unlock()
	set, a := s.accessSet(ownerID)
	if set == nil {
		return
	}
	if r := set.forValue(value); r != nil {
		set.drop(r)
		a.rulesUsed--
	}
}
