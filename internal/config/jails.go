package config

import (
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
)

const requiredOrDefault = "required, here or in [defaults]"

// readDefaults reads [defaults]. Where it has no log or actions, all of them
// are meant; remember is that of the top level.
func readDefaults(top *section, refs *references, remember time.Duration) rule {
	var r rule
	if s, ok := top.sub("defaults"); ok {
		r = readRule(s, ruleAll, refs)
		if n, ok := s.get("where"); ok {
			n.bad("conditions have no default: put them into the jail")
		}
		if n, ok := s.get("override"); ok {
			n.bad("other limits have no default: put them into the jail whose limit they replace")
		}
		s.finish()
	}
	return r.or(rule{
		logs:    given[[]string]{v: refs.logs, is: true},
		actions: given[[]string]{v: refs.actions, is: true},

		remember: given[time.Duration]{v: remember, is: true},
	})
}

// readJails reads the [jails.NAME] tables. names are those of the bad ones,
// too.
func readJails(top *section, refs *references, defaults rule) (jails []detector.Jail, names []string) {
	tables, names := top.group("jails", "required: add a table like [jails.web] with limit, window and ban")
	for _, t := range tables {
		if t.name == detector.DenyName {
			t.doc.bad(t.path, "this name is reserved for the [deny] table")
		}
		r := readRule(t.section, ruleAll, refs).or(defaults)
		j := detector.Jail{
			Name:     t.name,
			Logs:     slices.Clone(r.logs.v),
			Limit:    require(t.section, "limit", r.limit, requiredOrDefault),
			Window:   require(t.section, "window", r.window, requiredOrDefault),
			Ban:      slices.Clone(require(t.section, "ban", r.ban, requiredOrDefault)),
			Remember: r.remember.v,
			Observe:  r.observe.v,
			Actions:  slices.Clone(r.actions.v),
		}
		if n, ok := t.get("override"); ok {
			j.Overrides = n.overrides()
		}
		if s, ok := t.sub("where"); ok {
			j.Where = readWhere(s)
		}
		t.finish()
		jails = append(jails, j)
	}
	return jails, names
}

// readDeny reads [deny].
func readDeny(top *section, refs *references, defaults rule, c *Config) *detector.Deny {
	s, ok := top.sub("deny")
	if !ok {
		return nil
	}
	r := readRule(s, ruleBan|ruleRemember|ruleMode|ruleActions, refs).or(defaults)
	d := &detector.Deny{
		Ban:      slices.Clone(require(s, "ban", r.ban, requiredOrDefault)),
		Remember: r.remember.v,
		Observe:  r.observe.v,
		Actions:  slices.Clone(r.actions.v),
	}
	agents, byAgent := s.get("agents")
	if byAgent {
		d.Agents = agents.nonEmptyTexts(anyText)
	}
	from, byAddress := s.get("from")
	if byAddress {
		if len(from.items()) == 0 {
			from.bad("must not be empty")
		}
		d.From = from.addresses(addressList{key: "deny.from"}, c)
	}
	if !byAgent && !byAddress {
		s.missing("agents", "required, or else from: who is banned at first sight")
	}
	s.finish()
	return d
}
