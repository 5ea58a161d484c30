package config

import (
	"slices"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/lists"
)

// browsers are user agents of ordinary clients, in lower case: what occurs in them
// occurs in those of nearly all.
var browsers = [...]string{
	"mozilla/5.0 (windows nt 10.0; win64; x64) applewebkit/537.36 (khtml, like gecko) chrome/141.0.0.0 safari/537.36 edg/141.0.0.0",
	"mozilla/5.0 (x11; linux x86_64; rv:143.0) gecko/20100101 firefox/143.0",
	"mozilla/5.0 (iphone; cpu iphone os 18_6 like mac os x) applewebkit/605.1.15 (khtml, like gecko) version/18.6 mobile/15e148 safari/604.1",
	"mozilla/5.0 (linux; android 10; k) applewebkit/537.36 (khtml, like gecko) chrome/141.0.0.0 mobile safari/537.36",
}

// isOrdinary reports whether a text occurs in the user agents of ordinary clients.
func isOrdinary(agent string) bool {
	return slices.ContainsFunc(browsers[:], func(b string) bool { return strings.Contains(b, strings.ToLower(agent)) })
}

// warnAgents is about agents that are those of ordinary clients.
func warnAgents(doc *document, c *Config) {
	const those = "%q occurs in the user agents of ordinary clients"
	if c.Deny != nil {
		for i, a := range c.Deny.Agents {
			if len(a) < 3 || isOrdinary(a) {
				doc.warn(keyPath("deny", "agents").elem(i), those, a)
			}
		}
	}
	for _, w := range c.Wanted {
		so := ": they all pass, up to the limit"
		if proves(&w) {
			if !asksForLies(c) {
				continue
			}
			so = ": to false_crawler they all lie"
		}
		for i, a := range w.Agents {
			if isOrdinary(a) {
				doc.warn(keyPath("wanted", w.Name, "agent").elem(i), those+so, a)
			}
		}
	}
}

// asksForLies reports whether a jail counts those who claim to be a machine that
// they are not.
func asksForLies(c *Config) bool {
	return slices.ContainsFunc(c.Jails, func(j detector.Jail) bool { return j.Where.Match.FalseCrawler })
}

// warnStrangers is about machines whose own ranges are built in and not named: they
// would be taken for who lies.
func warnStrangers(doc *document, c *Config) {
	if !asksForLies(c) {
		return
	}
	for _, w := range c.Wanted {
		if !proves(&w) {
			continue
		}
		for i, a := range w.Agents {
			if name, ok := providerOf(&detector.Wanted{Agents: []string{a}}); ok && !canProve(c, a, name) {
				doc.warn(keyPath("wanted", w.Name, "agent").elem(i), "no from has the ranges of %[1]s: to false_crawler %[1]s itself lies", name)
			}
		}
	}
}

// canProve reports whether a provider's own machine can prove an agent. Ranges that
// are in a file, or in the configuration itself, may be his, and so may domains.
func canProve(c *Config, agent, name string) bool {
	for _, w := range c.Wanted {
		if !slices.Contains(w.Agents, agent) {
			continue
		}
		if len(w.Domains) > 0 {
			return true
		}
		for _, s := range w.From {
			if _, provider := lists.Lookup(s.Name); !provider || s.Name == name {
				return true
			}
		}
	}
	return false
}

// warnKinds is about providers of another kind than the list is for.
func warnKinds(doc *document, c *Config) {
	for _, x := range c.Providers {
		p, ok := lists.Lookup(x.Name)
		if !ok {
			continue
		}
		at := keyPath(strings.Split(x.Key, ".")...)
		switch {
		case x.Key == "trusted_proxies" && p.Kind != lists.Proxy:
			doc.warn(at, "%s is a %s, and passes on nobody's requests: what a header from there says of the client would be believed", p.Name, p.Kind)
		case strings.HasPrefix(x.Key, "wanted.") && p.Kind == lists.Proxy:
			doc.warn(at, "%s passes on requests of others: this proves only that somebody came through it", p.Name)
		}
	}
}
