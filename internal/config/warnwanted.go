package config

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/lists"
)

// warnWanted is about machines that could prove themselves and need not, and
// about jails for those that lie where nobody can.
func warnWanted(doc *document, c *Config) {
	warnDomains(doc, c)
	for _, w := range c.Wanted {
		if proves(&w) {
			continue
		}
		if name, ok := providerOf(&w); ok {
			doc.warn(keyPath("wanted", w.Name, "agent_only"), "anybody can send this agent, and where %s comes from is known: "+
				"from = [%q] in the place of agent_only lets only that pass", name, name)
		}
	}
	if slices.ContainsFunc(c.Wanted, func(w detector.Wanted) bool { return proves(&w) }) {
		return
	}
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		if j.Where.Match.FalseCrawler {
			doc.warn(where.key("false_crawler"), "no [wanted] machine has from or domains, so that no claim is false: the jail never counts anything")
		}
		if j.Where.Not.FalseCrawler {
			doc.warn(where.key("not").key("false_crawler"), "no [wanted] machine has from or domains, so that no claim is false: this excludes nothing")
		}
	}
}

// providerOf returns the provider of crawlers or monitors whose name is in that
// of a machine or in its agent, the longest such.
func providerOf(w *detector.Wanted) (name string, ok bool) {
	for _, candidate := range lists.Names() {
		known := slices.ContainsFunc(append([]string{w.Name}, w.Agents...), func(text string) bool {
			return strings.Contains(letters(text), letters(candidate))
		})
		if p, is := lists.Lookup(candidate); known && is && p.Kind != lists.Proxy && len(candidate) > len(name) {
			name, ok = candidate, true
		}
	}
	return name, ok
}

// letters is a name without what is written in one way here and in another there.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
