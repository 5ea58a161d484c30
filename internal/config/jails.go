package config

import (
	"slices"

	"github.com/tailban/tailban/detector"
)

const requiredOrDefault = "required, here or in [defaults]"

// readDefaults reads [defaults]. Where it has no log or actions, all of them
// are meant.
func readDefaults(top *section, refs *references) rule {
	var r rule
	if s, ok := top.sub("defaults"); ok {
		r = readRule(s, ruleAll, refs)
		if n, ok := s.get("where"); ok {
			n.bad("conditions have no default: put them into the jail")
		}
		s.finish()
	}
	return r.or(rule{
		logs:    given[[]string]{v: refs.logs, is: true},
		actions: given[[]string]{v: refs.actions, is: true},
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
			Name:    t.name,
			Logs:    slices.Clone(r.logs.v),
			Limit:   require(t.section, "limit", r.limit, requiredOrDefault),
			Window:  require(t.section, "window", r.window, requiredOrDefault),
			Ban:     require(t.section, "ban", r.ban, requiredOrDefault),
			Observe: r.observe.v,
			Actions: slices.Clone(r.actions.v),
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
func readDeny(top *section, refs *references, defaults rule) *detector.Deny {
	s, ok := top.sub("deny")
	if !ok {
		return nil
	}
	r := readRule(s, ruleBan|ruleMode|ruleActions, refs).or(defaults)
	d := &detector.Deny{
		Ban:     require(s, "ban", r.ban, requiredOrDefault),
		Observe: r.observe.v,
		Actions: slices.Clone(r.actions.v),
	}
	if n, ok := s.get("agents"); ok {
		d.Agents = n.nonEmptyTexts(anyText)
	} else {
		s.missing("agents", "required: a list of texts that occur in user agents")
	}
	s.finish()
	return d
}
