package config

import (
	"slices"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// warn records what is allowed but likely not meant. c has no problems.
func warn(doc *document, c *Config) {
	warnLogs(doc, c)
	warnObserve(doc, c)
	warnEnforcement(doc, c)
	warnPlane(doc, c)
	warnAgents(doc, c)
	warnPaths(doc, c)
	warnForgotten(doc, c)
	warnDenied(doc, c)
}

// warnLogs is about logs that can't do what is asked of them.
func warnLogs(doc *document, c *Config) {
	for _, l := range c.Logs {
		at := keyPath("logs", l.Name)
		used := slices.ContainsFunc(c.Jails, func(j detector.Jail) bool { return slices.Contains(j.Logs, l.Name) })
		if !used {
			doc.warn(at, "no jail looks at this log")
		}
		if len(c.TrustedProxies) > 0 && !l.has(parser.FieldForward) {
			doc.warn(at.key("format"), "format %q has no forwarding header: "+
				"requests through trusted proxies count for nobody", l.FormatName())
		}
	}
}

func warnObserve(doc *document, c *Config) {
	if c.Observe {
		doc.warn(keyPath("mode"), "nothing is enforced: bans are decided and recorded only")
		return
	}
	for _, j := range c.Jails {
		if j.Observe {
			doc.warn(keyPath("jails", j.Name, "mode"), "jail %q enforces nothing: its bans are decided and recorded only", j.Name)
		}
	}
	if c.Deny != nil && c.Deny.Observe {
		doc.warn(keyPath("deny", "mode"), "[deny] enforces nothing: its bans are decided and recorded only")
	}
}

// warnEnforcement is about bans that no action enforces, and actions that
// enforce no bans.
func warnEnforcement(doc *document, c *Config) {
	used := map[string]bool{}
	check := func(at path, observe, passive bool, names []string) {
		for _, name := range names {
			used[name] = true
		}
		if passive && !observe {
			doc.warn(at, "no action enforces these bans: they are only logged")
		}
	}
	for _, j := range c.Jails {
		check(keyPath("jails", j.Name, "actions"), j.Observe, j.Passive, j.Actions)
	}
	if c.Deny != nil {
		check(keyPath("deny", "actions"), c.Deny.Observe, c.Deny.Passive, c.Deny.Actions)
	}
	for _, a := range c.Actions {
		if !used[a.Name] {
			doc.warn(keyPath("actions", a.Name), "no jail uses this action")
		}
	}
}

// warnPlane is about clients that no action can keep away: packets of those
// behind a proxy carry the proxy's address.
func warnPlane(doc *document, c *Config) {
	if len(c.TrustedProxies) == 0 || c.Observe {
		return
	}
	forwarded := slices.ContainsFunc(c.Logs, func(l Log) bool { return l.has(parser.FieldForward) })
	kernel := slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Type == TypeNftables })
	if forwarded && kernel {
		doc.warn(keyPath("trusted_proxies"), "clients behind these are banned at their own address, which the kernel sees "+
			"only where they come directly: through the proxies they still get in")
	}
}

// warnAgents is about agents that can't be seen, or that nearly all have.
func warnAgents(doc *document, c *Config) {
	blind := map[string]string{} // logs without agents, and their formats
	for _, l := range c.Logs {
		if !l.has(parser.FieldAgent) {
			blind[l.Name] = l.FormatName()
		}
	}
	check := func(at path, logs []string) {
		for _, l := range logs {
			if format, yes := blind[l]; yes {
				doc.warn(at, "format %q of log %q has no user agent: this matches nothing there", format, l)
			}
		}
	}
	all := make([]string, len(c.Logs))
	for i, l := range c.Logs {
		all[i] = l.Name
	}
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		if len(j.Where.Match.Agents) > 0 {
			check(where.key("agent"), j.Logs)
		}
		if len(j.Where.Not.Agents) > 0 {
			check(where.key("not").key("agent"), j.Logs)
		}
	}
	for _, w := range c.Wanted {
		check(keyPath("wanted", w.Name, "agent"), all)
	}
	if c.Deny != nil {
		at := keyPath("deny", "agents")
		check(at, all)
		for i, a := range c.Deny.Agents {
			if len(a) < 3 {
				doc.warn(at.elem(i), "%q occurs in the user agents of ordinary clients", a)
			}
		}
	}
}

// warnPaths is about patterns that no path can match, as paths are resolved
// before they are compared.
func warnPaths(doc *document, c *Config) {
	check := func(at path, patterns []detector.PathPattern) {
		for i, p := range patterns {
			if s := p.String(); !strings.HasPrefix(s, "~") && hasUnresolved(s) {
				doc.warn(at.elem(i), "%q never matches: //, /./ and /../ are resolved before paths are compared", s)
			}
		}
	}
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		check(where.key("path"), j.Where.Match.Paths)
		check(where.key("not").key("path"), j.Where.Not.Paths)
	}
}

func hasUnresolved(p string) bool {
	p += "/" // the last segment counts as well
	return strings.Contains(p[:len(p)-1], "//") || strings.Contains(p, "/./") || strings.Contains(p, "/../")
}
