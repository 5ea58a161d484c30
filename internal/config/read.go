package config

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/detector"
)

// maxAllow is how many entries allow may have: they go to the kernel at once.
const maxAllow = 20_000

// read walks the document. Its result is of use only if no problem was
// recorded.
func read(top *section, env []string) *Config {
	c := &Config{}
	c.StateDir = readDir(top, "state_dir", DefaultStateDir, "STATE_DIRECTORY", env)
	c.RuntimeDir = readDir(top, "runtime_dir", DefaultRuntimeDir, "RUNTIME_DIRECTORY", env)
	readLists(top, c) // before the first list of addresses, which may be in the state folder
	if n, ok := top.get("trusted_proxies"); ok {
		c.TrustedProxies = n.addresses(addressList{key: trustedProxies}, c)
	}
	if n, ok := top.get("allow"); ok {
		c.Allow = n.addresses(addressList{key: "allow", allowed: true}, c)
	}
	if len(c.Allow) > maxAllow {
		top.doc.bad(keyPath("allow"), "has %d addresses and ranges: %d at most", len(c.Allow), maxAllow)
	}
	if n, ok := top.get("status_group"); ok {
		c.StatusGroup = n.group()
	}
	if n, ok := top.get("admin_group"); ok {
		c.AdminGroup = n.group()
	}
	readMetrics(top, c)
	c.MaxMemory = DefaultMaxMemory
	if n, ok := top.get("max_memory"); ok {
		c.MaxMemory, _ = n.size(1<<20, 1<<40)
	}
	c.MaxBans = DefaultMaxBans
	if n, ok := top.get("max_bans"); ok {
		c.MaxBans, _ = n.whole(1, 10_000_000)
	}
	c.MaxBansPerMinute = DefaultMaxBansPerMinute
	if n, ok := top.get("max_bans_per_minute"); ok {
		c.MaxBansPerMinute, _ = n.whole(0, 10_000_000)
	}
	if n, ok := top.get("mode"); ok {
		c.Observe = n.observe()
	}

	c.Remember = DefaultRemember
	if n, ok := top.get("remember"); ok {
		c.Remember = n.remember()
	}
	if n, ok := top.get("shared_history"); ok {
		c.SharedHistory, _ = n.flag()
	}

	c.ProtectSessions = true
	if n, ok := top.get("protect_sessions"); ok {
		c.ProtectSessions, _ = n.flag()
	}

	readBreaker(top, c)
	refs := references{shared: c.SharedHistory}
	c.Logs, refs.logs = readLogs(top)
	checkPeers(top.doc, c)
	c.Actions, refs.actions = readActions(top, env)
	defaults := readDefaults(top, &refs, c.Remember)
	var names []string
	c.Jails, names = readJails(top, &refs, defaults)
	c.Deny = readDeny(top, &refs, defaults, c)
	c.Wanted = readWanted(top, c)
	c.Notify = readNotify(top, env)
	top.finish()

	override(top.doc, env, c.Jails, names)
	markPassive(c)
	checkMemory(top.doc, c)
	if c.Observe {
		c.ObserveAll()
	}
	return c
}

// markPassive notes which rules keep nobody away, whatever they decide.
func markPassive(c *Config) {
	for i := range c.Jails {
		c.Jails[i].Passive = !c.enforces(c.Jails[i].Actions)
	}
	if c.Deny != nil {
		c.Deny.Passive = !c.enforces(c.Deny.Actions)
	}
}

// enforces reports whether one of the actions named does more than log.
func (c *Config) enforces(names []string) bool {
	return slices.ContainsFunc(c.Actions, func(a Action) bool {
		return a.Type != TypeLog && slices.Contains(names, a.Name)
	})
}

// checkMemory refuses limits whose windows would not fit into max_memory.
func checkMemory(doc *document, c *Config) {
	if len(doc.problems) > 0 {
		return // numbers may be missing or wrong
	}
	check := func(at path, limit int, window time.Duration) {
		if need := detector.MinMemory(limit, window); need > c.MaxMemory {
			const mib = 1 << 20
			doc.bad(at.key("limit"), "a limit of %d in %s needs max_memory of at least %s", limit, FormatDuration(window),
				formatSize((need+mib-1)/mib*mib))
		}
	}
	for _, j := range c.Jails {
		at := keyPath("jails", j.Name)
		check(at, j.Limit, j.Window)
		for i, o := range j.Overrides {
			check(at.key("override").elem(i), o.Limit, j.Window)
		}
	}
	for _, w := range c.Wanted {
		if w.Window > 0 { // without one there is no limit, and nothing to keep
			check(keyPath("wanted", w.Name), w.Limit, w.Window)
		}
	}
}

// references are the names that may be referred to, and what rules depend on
// besides.
type references struct {
	logs, actions []string
	shared        bool // there is one history of offences for all
}

// ObserveAll has every jail decide and record, and enforce nothing.
func (c *Config) ObserveAll() {
	c.Observe = true
	for i := range c.Jails {
		c.Jails[i].Observe = true
	}
	if c.Deny != nil {
		c.Deny.Observe = true
	}
}

// observe reads a mode.
func (n node) observe() bool {
	mode, _ := n.oneOf("enforce", "observe")
	return mode == "observe"
}

// readDir reads the path of a folder of ours, and prefers the one that the
// service manager has made for us. It may have made several, for whatever
// reason; ours is the first.
func readDir(top *section, key, otherwise, variable string, env []string) string {
	dir := otherwise
	if n, ok := top.get(key); ok {
		if s, ok := n.text(); ok {
			if !filepath.IsAbs(s) {
				n.bad("must be an absolute path")
			}
			dir = filepath.Clean(s)
		}
	}
	first := firstDir(env, variable)
	if first == "" {
		return dir
	}
	if !filepath.IsAbs(first) {
		list, _ := lookupEnv(env, variable)
		n := envNode(top.doc, variable, list)
		n.bad("must be an absolute path, or several separated by colons")
	}
	return first
}

// firstDir is the first of the folders that a variable lists, "" if it isn't
// set.
func firstDir(env []string, variable string) string {
	list, ok := lookupEnv(env, variable)
	if !ok || list == "" {
		return ""
	}
	first, _, _ := strings.Cut(list, ":")
	return filepath.Clean(first)
}

// group reads the name of a Unix group. Whether there is one of that name is
// the daemon's business: the configuration may be checked on another machine.
func (n node) group() string {
	s, ok := n.text()
	if ok && (s == "" || strings.ContainsAny(s, ": \t\n/")) {
		n.bad("must be the name of a group")
	}
	return s
}
