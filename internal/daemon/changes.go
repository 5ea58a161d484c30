package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
)

// needRestart lists what differs from how the daemon was started and can't be
// changed while it runs.
func needRestart(started, c *config.Config) []string {
	var out []string
	for _, x := range []struct {
		key, was, is string
	}{
		{"state_dir", started.StateDir, c.StateDir},
		{"runtime_dir", started.RuntimeDir, c.RuntimeDir},
		{"status_group", started.StatusGroup, c.StatusGroup},
		{"admin_group", started.AdminGroup, c.AdminGroup},
	} {
		if x.was != x.is {
			out = append(out, fmt.Sprintf("%s: %q, now %q", x.key, x.was, x.is))
		}
	}
	return out
}

// setting is a key of the configuration and what it says, as a person would
// write it.
type setting struct{ key, text string }

// changes says what another configuration changes: "jails.web: limit 50 → 40".
func changes(was, c *config.Config) []string {
	out := []string{}
	for _, group := range []struct {
		name string
		of   func(*config.Config) map[string][]setting
	}{
		{"logs", logSettings}, {"jails", jailSettings}, {"wanted", wantedSettings}, {"actions", actionSettings}, {"notify", notifySettings},
	} {
		before, after := group.of(was), group.of(c)
		for _, name := range slices.Sorted(maps.Keys(both(before, after))) {
			out = appendChange(out, group.name+"."+name+": ", before[name], after[name])
		}
	}
	after := topSettings(c)
	for i, x := range topSettings(was) {
		out = appendChange(out, "", []setting{x}, after[i:i+1])
	}
	return out
}

func both(a, b map[string][]setting) map[string][]setting {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// appendChange compares what two configurations say of one thing. Settings
// come in the same order in both.
func appendChange(out []string, name string, before, after []setting) []string {
	switch {
	case before == nil:
		return append(out, name+"new")
	case after == nil:
		return append(out, name+"gone")
	}
	var diffs []string
	for i, x := range after {
		if y := before[i]; x != y {
			diffs = append(diffs, diffText(x.key, y.text, x.text))
		}
	}
	if len(diffs) == 0 {
		return out
	}
	return append(out, name+strings.Join(diffs, ", "))
}

// longText is from what length on a setting is not shown in a list of changes.
const longText = 40

func diffText(key, before, after string) string {
	if max(len(before), len(after)) > longText {
		return key + " changed"
	}
	return fmt.Sprintf("%s %s → %s", key, orNone(before), orNone(after))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func jailSettings(c *config.Config) map[string][]setting {
	m := map[string][]setting{}
	for i := range c.Jails {
		j := &c.Jails[i]
		logs := strings.Join(j.Logs, ", ")
		if len(j.Logs) == len(c.Logs) {
			logs = "all"
		}
		m[j.Name] = []setting{
			{"log", logs}, {"where", fmt.Sprintf("%+v", j.Where)}, {"limit", strconv.Itoa(j.Limit)}, {"override", fmt.Sprint(j.Overrides)},
			{"window", config.FormatDuration(j.Window)}, {"ban", config.FormatLadder(j.Ban)}, {"remember", j.Remember.String()},
			{"mode", modeText(j.Observe)}, {"actions", strings.Join(j.Actions, ", ")},
		}
		if j.Where.Match.Empty() && j.Where.Not.Empty() {
			m[j.Name][1].text = ""
		}
	}
	if d := c.Deny; d != nil {
		m[detector.DenyName] = []setting{
			{"agent", strings.Join(d.Agents, ", ")}, {"from", fmt.Sprint(d.From)}, {"ban", config.FormatLadder(d.Ban)},
			{"remember", d.Remember.String()}, {"mode", modeText(d.Observe)}, {"actions", strings.Join(d.Actions, ", ")},
		}
	}
	return m
}

func modeText(observe bool) string {
	if observe {
		return control.ModeObserve
	}
	return control.ModeEnforce
}

func logSettings(c *config.Config) map[string][]setting {
	m := map[string][]setting{}
	for i := range c.Logs {
		l := &c.Logs[i]
		fields := ""
		if l.Fields != nil {
			fields = fmt.Sprintf("%q", *l.Fields)
		}
		m[l.Name] = []setting{
			{"files", strings.Join(l.Files, ", ")}, {"from", l.Source()}, {"format", l.Format}, {"header", l.Header}, {"timezone", l.Zone.String()},
			{"peer", strconv.FormatBool(l.Rewritten)}, {"fields", fields}, {"max_line", strconv.Itoa(l.MaxLine)},
			{"max_files", strconv.Itoa(l.MaxFiles)}, {"allow_insecure", strconv.FormatBool(l.AllowInsecure)}, {"container", l.Container},
			{"users_checked", strconv.FormatBool(l.UsersChecked)},
			{"after_unparsed", strconv.FormatBool(l.SkipAfterUnparsed)},
		}
		if l.Zone == nil {
			m[l.Name][4].text = ""
		}
	}
	return m
}

func wantedSettings(c *config.Config) map[string][]setting {
	m := map[string][]setting{}
	for _, w := range c.Wanted {
		limit, window := "none", "none"
		if w.Window > 0 {
			limit, window = strconv.Itoa(w.Limit), config.FormatDuration(w.Window)
		}
		m[w.Name] = []setting{{"agent", strings.Join(w.Agents, ", ")}, {"from", fromText(&w)}, {"domains", strings.Join(w.Domains, ", ")}, {"limit", limit}, {"window", window}}
	}
	return m
}

// fromText tells where a machine comes from.
func fromText(w *detector.Wanted) string {
	var parts []string
	for _, s := range w.From {
		if s.Name != "" {
			parts = append(parts, s.Name+":")
		}
		for _, p := range s.Prefixes {
			parts = append(parts, p.String())
		}
	}
	return strings.Join(parts, " ")
}

func actionSettings(c *config.Config) map[string][]setting {
	m := map[string][]setting{}
	for _, a := range c.Actions {
		ports := fmt.Sprint(a.Ports)
		if a.AllPorts {
			ports = "all"
		}
		verdict := config.VerdictDrop
		if a.Reject {
			verdict = config.VerdictReject
		}
		m[a.Name] = []setting{
			{"type", a.Type}, {"table", a.Table}, {"chain", a.Chain}, {"sets", a.Sets}, {"variant", a.Variant}, {"ports", ports}, {"verdict", verdict},
			{"protect_table", strconv.FormatBool(a.Protect)}, {"reconcile", a.Reconcile.String()},
			{"cut_connections", strconv.FormatBool(a.CutConnections)}, {"merge", strconv.Itoa(a.Merge)},
		}
		c := config.Command{}
		if a.Command != nil {
			c = *a.Command
		}
		m[a.Name] = append(m[a.Name], // arguments may hold what is nobody else's business
			setting{"ban", hidden(strings.Join(c.Ban, " "))}, setting{"unban", hidden(strings.Join(c.Unban, " "))}, setting{"check", hidden(strings.Join(c.Check, " "))}, setting{"list", hidden(strings.Join(c.List, " "))},
			setting{"list_target", c.ListTarget}, setting{"list_seconds", c.ListSeconds}, setting{"expires", strconv.FormatBool(c.Expires)},
			setting{"batch", strconv.Itoa(c.Batch)}, setting{"timeout", c.Timeout.String()}, setting{"concurrency", strconv.Itoa(c.Concurrency)})
		m[a.Name] = append(m[a.Name], edgeSettings(&a)...)
	}
	return m
}

func edgeSettings(a *config.Action) []setting {
	c := config.Cloudflare{}
	if a.Cloudflare != nil {
		c = *a.Cloudflare
	}
	return []setting{
		{"account", c.Account}, {"mode", c.Mode()}, {"token_file", c.Token.Path}, {"list", c.List}, {"create_list", strconv.FormatBool(c.Create)},
		{"instance", c.Instance}, {"zones", strings.Join(c.Zones, ", ")}, {"lease", c.Lease.String()}, {"rule_action", c.RuleAction}, {"api_base", c.API}, {"sync_every", c.SyncEvery.String()}, {"capacity", strconv.Itoa(c.Capacity)},
		{"requests", strconv.Itoa(c.Requests)}, {"changes", strconv.Itoa(c.Changes)},
	}
}

// notifySettings has no address: it may be a secret.
func notifySettings(c *config.Config) map[string][]setting {
	m := map[string][]setting{}
	for i := range c.Notify {
		o := &c.Notify[i]
		m[o.Name] = []setting{
			{"format", o.Format}, {"url_file", o.URL.Path}, {"key_file", o.Key.Path}, {"token_file", o.Token.Path},
			{"events", fmt.Sprint(o.Kinds)}, {"interval", config.FormatDuration(o.Interval)}, {"per_hour", strconv.Itoa(o.PerHour)},
			{"url", hidden(o.URL.Text)},
		}
	}
	return m
}

// listsText tells how often ranges are fetched, and from where.
func listsText(c *config.Config) string {
	if c.Refresh == 0 {
		return ""
	}
	text := "refresh " + config.FormatDuration(c.Refresh)
	for _, l := range c.Refreshed() {
		text += fmt.Sprint(" ", l.Name, l.Sources)
	}
	return text
}

// hidden tells texts apart without showing them: as text too long to be shown.
func hidden(s string) string {
	if s == "" {
		return ""
	}
	return strings.Repeat(" ", longText+1) + s
}

func topSettings(c *config.Config) []setting {
	return []setting{
		{"trusted_proxies", fmt.Sprint(c.TrustedProxies)}, {"allow", fmt.Sprint(c.Allow, c.AllowHosts)},
		{"max_memory", strconv.FormatInt(c.MaxMemory, 10)}, {"max_bans", strconv.Itoa(c.MaxBans)}, {"max_bans_per_minute", strconv.Itoa(c.MaxBansPerMinute)}, {"mode", modeText(c.Observe)},
		{"breaker", fmt.Sprint(c.BreakerShare, " ", c.BreakerCoolDown)},
		{"remember", c.Remember.String()}, {"shared_history", strconv.FormatBool(c.SharedHistory)},
		{"protect_sessions", strconv.FormatBool(c.ProtectSessions)},
		{"lists", listsText(c)},
		{"metrics", c.Metrics.String()}, {"metrics_exposed", strconv.FormatBool(c.Metrics.Exposed)},
	}
}
