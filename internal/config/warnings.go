package config

import (
	"slices"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// warn records what is allowed but likely not meant. c has no problems.
func warn(doc *document, c *Config) {
	warnLogs(doc, c)
	warnObserve(doc, c)
	warnEnforcement(doc, c)
	warnPlane(doc, c)
	warnFields(doc, c)
	warnRedirected(doc, c)
	warnPaths(doc, c)
	warnExcluded(doc, c)
	warnForgotten(doc, c)
	warnDenied(doc, c)
	warnWanted(doc, c)
	warnAgents(doc, c)
	warnStrangers(doc, c)
	warnKinds(doc, c)
	warnNotify(doc, c)
	warnSources(doc, c)
	warnCloudflare(doc, c)
}

// warnLogs is about logs that can't do what is asked of them.
func warnLogs(doc *document, c *Config) {
	for _, l := range c.Logs {
		at := keyPath("logs", l.Name)
		used := slices.ContainsFunc(c.Jails, func(j detector.Jail) bool { return slices.Contains(j.Logs, l.Name) })
		if !used {
			doc.warn(at, "no jail looks at this log")
		}
		warnSource(doc, &l)
		warnShared(doc, c, &l)
		warnFiles(doc, &l)
		if len(c.TrustedProxies) > 0 && !l.logged.Has(parser.FieldForward) {
			doc.warn(at.key("format"), "format %q has no forwarding header: "+
				"requests through trusted proxies count for nobody", l.FormatName())
		}
		if len(c.TrustedProxies) == 0 && l.traits.Connection && !l.Rewritten {
			doc.warn(at.key("format"), "this logs the address of the connection, as behind a proxy, but no proxy is trusted: "+
				"the proxy itself would be banned: set trusted_proxies")
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
	if c.Observe || slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Edge() }) {
		return // what no jail uses is told elsewhere
	}
	for _, l := range c.Logs {
		if l.Rewritten && slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Kernel() }) {
			doc.warn(keyPath("logs", l.Name, "peer"), "the server writes the addresses that a proxy reports: the kernel sees "+
				"these clients only where they come directly, and a ban stops them only there")
		}
	}
	if len(c.TrustedProxies) == 0 {
		return
	}
	forwarded := slices.ContainsFunc(c.Logs, func(l Log) bool { return l.logged.Has(parser.FieldForward) })
	kernel := slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Kernel() })
	if forwarded && kernel {
		doc.warn(keyPath("trusted_proxies"), "clients behind these are banned at their own address, which the kernel sees "+
			"only where they come directly: through the proxies they still get in")
	}
}

// warnFields is about conditions on what a log's format doesn't have.
func warnFields(doc *document, c *Config) {
	const nothing = "this matches nothing there"
	lacks := func(at path, logs []string, field parser.Fields, what, so string) {
		for _, l := range c.Logs {
			if slices.Contains(logs, l.Name) && !l.logged.Has(field) {
				doc.warn(at, "format %q of log %q has no %s: %s", l.FormatName(), l.Name, what, so)
			}
		}
	}
	all := make([]string, len(c.Logs))
	for i, l := range c.Logs {
		all[i] = l.Name
	}
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		for _, x := range []struct {
			at      path
			c       *detector.Conditions
			negated bool
		}{{where, &j.Where.Match, false}, {where.key("not"), &j.Where.Not, true}} {
			if len(x.c.Agents) > 0 {
				lacks(x.at.key("agent"), j.Logs, parser.FieldAgent, "user agent", nothing)
			}
			if x.c.FalseCrawler {
				lacks(x.at.key("false_crawler"), j.Logs, parser.FieldAgent, "user agent", nothing)
			}
			if len(x.c.Paths) > 0 {
				lacks(x.at.key("path"), j.Logs, parser.FieldPath, "path", nothing)
			}
			if len(x.c.Methods) > 0 {
				lacks(x.at.key("method"), j.Logs, parser.FieldMethod, "method", nothing)
			}
			if len(x.c.Protocols) > 0 {
				lacks(x.at.key("protocol"), j.Logs, parser.FieldProto, "protocol", nothing)
			}
			if len(x.c.Status) > 0 {
				so := nothing
				if x.negated { // as nothing is known to have another status
					so = "the jail counts nothing there"
				}
				lacks(x.at.key("status"), j.Logs, parser.FieldStatus, "status", so)
			}
		}
	}
	for _, w := range c.Wanted {
		lacks(keyPath("wanted", w.Name, "agent"), all, parser.FieldAgent, "user agent", nothing)
		if w.Limit == 0 && w.Window > 0 {
			doc.warn(keyPath("wanted", w.Name, "limit"), "with a limit of 0 none of its requests passes: this does nothing")
		}
	}
	if c.Deny != nil && len(c.Deny.Agents) > 0 {
		lacks(keyPath("deny", "agents"), all, parser.FieldAgent, "user agent", nothing)
	}
}
