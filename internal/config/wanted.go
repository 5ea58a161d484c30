package config

import (
	"net/netip"
	"slices"

	"github.com/tailban/tailban/detector"
)

// readWanted reads the [wanted.NAME] tables.
func readWanted(top *section, c *Config) []detector.Wanted {
	var out []detector.Wanted
	tables, _ := top.group("wanted", "")
	for _, t := range tables {
		w := detector.Wanted{Name: t.name}
		if n, ok := t.get("agent"); ok {
			w.Agents = n.nonEmptyTexts(anyText)
		} else {
			t.missing("agent", "required: text that occurs in the user agent")
		}
		from, byRanges := t.get("from")
		if byRanges {
			w.From = from.sources(t.name, c)
		}
		domains, byNames := t.get("domains")
		if byNames {
			w.Domains = domains.domains()
		}
		readAgentOnly(t.section, byRanges, byNames)
		r := readRule(t.section, ruleLimit|ruleWindow, nil)
		switch {
		case !byRanges && !byNames:
			w.Limit = require(t.section, "limit", r.limit, "required")
			w.Window = require(t.section, "window", r.window, "required")
		case r.limit.is || r.window.is:
			w.Limit = require(t.section, "limit", r.limit, "required with window: leave both out to let it pass without a limit")
			w.Window = require(t.section, "window", r.window, "required with limit: leave both out to let it pass without a limit")
		}
		t.finish()
		out = append(out, w)
	}
	return out
}

// readAgentOnly reads agent_only: whoever lets a machine pass by what anybody can
// send has to say so.
func readAgentOnly(s *section, byRanges, byNames bool) {
	key := "from"
	if !byRanges && byNames {
		key = "domains"
	}
	proves := byRanges || byNames
	n, ok := s.get("agent_only")
	if !ok {
		if !proves {
			s.missing("from", "required: addresses that it comes from, or domains: where their names are, or else agent_only = true")
		}
		return
	}
	switch yes, ok := n.flag(); {
	case ok && yes && proves:
		n.bad("%s says where it comes from, so that its agent alone is not enough: leave one of the two out", key)
	case ok && !yes && !proves:
		n.bad("must be true, or else from or domains must say where it comes from")
	}
}

// sources reads a list of addresses that a machine comes from, and keeps apart
// whose they are.
func (n node) sources(name string, c *Config) []detector.Source {
	list := addressList{key: keyPath("wanted", name, "from").String()}
	problems := len(n.doc.problems)
	var out []detector.Source
	own := -1 // where those are that stand in the list itself
	n.eachAddress(list, c, func(source string, ranges []netip.Prefix) {
		if source == "" && own >= 0 {
			out[own].Prefixes = append(out[own].Prefixes, ranges...)
			return
		}
		if source == "" {
			own = len(out)
		}
		out = append(out, detector.Source{Name: source, Prefixes: ranges})
	})
	if len(n.doc.problems) == problems && !slices.ContainsFunc(out, func(s detector.Source) bool { return len(s.Prefixes) > 0 }) {
		n.bad("has no addresses: nobody could prove to be it")
	}
	return out
}
