package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/lists"
)

// everything uses each key.
const everything = `
trusted_proxies = ["cloudflare", "10.0.0.0/8", "::ffff:192.0.2.0/120"]
allow           = ["203.0.113.7", "Office.Example.net.", "2001:db8::/48", "::ffff:198.51.100.1"]
state_dir       = "/srv/tailban/"
runtime_dir     = "/run/edge"
status_group    = "ops"
admin_group     = "wheel"
metrics         = "192.0.2.1:10911"
metrics_exposed = true
max_memory      = "128MiB"
max_bans        = 5_000
max_bans_per_minute = 600
remember        = "60d"
protect_sessions = false

[breaker]
max_share = 1
cool_down = "30m"

[defaults]
log     = "nginx"
limit   = 5
window  = "1m30s"
ban     = ["2h", "1d", "1d"]
mode    = "observe"
actions = "quiet"

[logs.nginx]
files    = ["/var/log/nginx/access.log", "/var/log/nginx/*-access.log"]
format   = "nginx"
max_line = 4096
from     = "start"
max_files = 10
allow_insecure = true
users_checked  = true
container = "cri"

[logs.apache]
files  = "/var/log/apache2/access.log"

[jails.z-first]

[jails.all]
log     = ["apache", "nginx"]
limit   = 0
window  = "7d"
ban     = "365d"
remember = "1h"
mode    = "enforce"
actions = ["firewall", "quiet"]
override = [{ from = "203.0.113.0/24", limit = 500 }, { from = "2001:db8::/64", limit = 0 }, { limit = 7, from = "::ffff:192.0.2.1" }]

[jails.all.where]
method = ["GET", "POST"]
path   = ["/sign-in", "/x/*", '~^/api/\d']
status = [404, "5xx", "400-403"]
agent  = ["curl", "wget"]
not    = { path = "/health", status = 200, method = "HEAD", agent = "good" }

[jails.inline]
where = { path = "/a" }

[deny]
agents = ["sqlmap", "nikto"]
from   = ["198.51.100.0/24", "2001:db8:1::/48", "cloudflare"]
remember = "365d"
ban    = "1d"

[wanted.uptime]
agent      = "UptimeRobot"
agent_only = true
limit      = 200
window     = "60s"

[actions.firewall]
type      = "nftables"
ports     = "all"
table     = "edge_1"
reconcile = "5m"
verdict   = "reject"
protect_table = true
cut_connections = true
merge = 16

[actions.quiet]
type = "log"

[actions.plain]
type = "nftables"
verdict = "drop"
protect_table = false
`

func TestEverything(t *testing.T) {
	c := accept(t, everything)
	provider, _ := lists.Lookup("cloudflare")
	cloudflare := provider.Prefixes
	want := &Config{
		TrustedProxies: append(append([]netip.Prefix{}, cloudflare...), prefixes("10.0.0.0/8", "192.0.2.0/24")...),
		Allow:          prefixes("203.0.113.7/32", "2001:db8::/48", "198.51.100.1/32"),
		Providers: []Provider{{
			Key: "trusted_proxies", Name: "cloudflare", Prefixes: cloudflare, Snapshot: provider.Date,
		}, {
			Key: "deny.from", Name: "cloudflare", Prefixes: cloudflare, Snapshot: provider.Date,
		}},
		AllowHosts: []string{"office.example.net"},
		Logs: []Log{
			{Name: "nginx", Files: []string{"/var/log/nginx/access.log", "/var/log/nginx/*-access.log"}, Format: "nginx", MaxLine: 4096, FromStart: true, MaxFiles: 10, AllowInsecure: true, UsersChecked: true, Container: "cri"},
			{Name: "apache", Files: []string{"/var/log/apache2/access.log"}, Format: "combined", MaxLine: 256 << 10, MaxFiles: 4096},
		},
		Jails: []detector.Jail{
			{
				Name: "z-first", Logs: []string{"nginx"}, Limit: 5, Window: 90 * time.Second, Ban: ladder(2*time.Hour, 24*time.Hour, 24*time.Hour),
				Remember: 1440 * time.Hour,
				Observe:  true, Passive: true, Actions: []string{"quiet"},
			},
			{
				Name: "all", Logs: []string{"apache", "nginx"}, Limit: 0, Window: 168 * time.Hour, Ban: ladder(8760 * time.Hour),
				Remember: time.Hour,
				Overrides: []detector.Override{
					{From: prefixes("203.0.113.0/24")[0], Limit: 500}, {From: prefixes("2001:db8::/64")[0], Limit: 0},
					{From: prefixes("192.0.2.1/32")[0], Limit: 7},
				},
				Actions: []string{"firewall", "quiet"},
				Where: detector.Where{
					Match: detector.Conditions{
						Methods: []string{"GET", "POST"},
						Paths:   patterns(t, "/sign-in", "/x/*", `~^/api/\d`),
						Status:  []detector.StatusRange{{From: 404, To: 404}, {From: 500, To: 599}, {From: 400, To: 403}},
						Agents:  []string{"curl", "wget"},
					},
					Not: detector.Conditions{
						Methods: []string{"HEAD"},
						Paths:   patterns(t, "/health"),
						Status:  []detector.StatusRange{{From: 200, To: 200}},
						Agents:  []string{"good"},
					},
				},
			},
			{
				Name: "inline", Logs: []string{"nginx"}, Limit: 5, Window: 90 * time.Second, Ban: ladder(2*time.Hour, 24*time.Hour, 24*time.Hour),
				Remember: 1440 * time.Hour,
				Observe:  true, Passive: true, Actions: []string{"quiet"},
				Where: detector.Where{Match: detector.Conditions{Paths: patterns(t, "/a")}},
			},
		},
		Wanted: []detector.Wanted{{Name: "uptime", Agents: []string{"UptimeRobot"}, Limit: 200, Window: time.Minute}},
		Deny: &detector.Deny{
			Agents: []string{"sqlmap", "nikto"}, From: append(prefixes("198.51.100.0/24", "2001:db8:1::/48"), cloudflare...),
			Ban: ladder(24 * time.Hour), Remember: 8760 * time.Hour, Observe: true, Passive: true, Actions: []string{"quiet"},
		},
		Actions: []Action{
			{Name: "firewall", Type: TypeNftables, Table: "edge_1", AllPorts: true, Reject: true, Protect: true, Reconcile: 5 * time.Minute, CutConnections: true, Merge: 16},
			{Name: "quiet", Type: TypeLog},
			{Name: "plain", Type: TypeNftables, Table: "tailban", Ports: []uint16{80, 443}, Reconcile: 30 * time.Second},
		},
		StateDir:   "/srv/tailban",
		RuntimeDir: "/run/edge", StatusGroup: "ops", AdminGroup: "wheel",
		Metrics:   Metrics{Address: netip.MustParseAddrPort("192.0.2.1:10911"), Exposed: true},
		MaxMemory: 128 << 20,
		MaxBans:   5000,

		MaxBansPerMinute: 600,
		BreakerShare:     1,
		BreakerCoolDown:  30 * time.Minute,

		Remember: 1440 * time.Hour,
	}
	if diff := diffConfig(want, c); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLeast(t *testing.T) {
	want := &Config{
		Logs: []Log{{Name: "nginx", Files: []string{"/var/log/nginx/access.log"}, Format: "combined", MaxLine: 256 << 10, MaxFiles: 4096}},
		Jails: []detector.Jail{{
			Name: "web", Logs: []string{"nginx"}, Limit: 50, Window: time.Minute, Ban: ladder(time.Hour),
			Remember: 720 * time.Hour, Passive: true, Actions: []string{"log"},
		}},
		Actions:          []Action{{Name: "log", Type: TypeLog}},
		StateDir:         "/var/lib/tailban",
		RuntimeDir:       "/run/tailban",
		MaxMemory:        64 << 20,
		MaxBans:          100_000,
		MaxBansPerMinute: 10_000,
		BreakerShare:     0.2,
		BreakerCoolDown:  time.Hour,
		Remember:         720 * time.Hour,

		ProtectSessions: true,
	}
	if diff := diffConfig(want, accept(t, base)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Where nothing is said, a jail sees every log and uses every action.
func TestJailTakesAll(t *testing.T) {
	c := accept(t, base+"[logs.b]\nfiles = \"/b\"\n"+fw+"[actions.l]\ntype = \"log\"\n")
	j := c.Jails[0]
	if diff := cmp.Diff([]string{"nginx", "b"}, j.Logs); diff != "" {
		t.Errorf("logs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fw", "l"}, j.Actions); diff != "" {
		t.Errorf("actions (-want +got)\n%s", diff)
	}
}

// Jails must not share lists: a change to one would be a change to all.
func TestJailsShareNothing(t *testing.T) {
	c := accept(t, "[defaults]\nban = \"1s\"\n"+strings.ReplaceAll(base+jail, "ban =", "# "))
	c.Jails[0].Logs[0], c.Jails[0].Actions[0], c.Jails[0].Ban[0] = "changed", "changed", 1
	if j := c.Jails[1]; j.Logs[0] != "nginx" || j.Actions[0] != "log" || j.Ban[0] == 1 {
		t.Errorf("jails share their lists: %+v", j)
	}
}

func TestObserveAll(t *testing.T) {
	c := accept(t, "mode = \"observe\"\n"+base+jail+"mode = \"enforce\"\n[deny]\nagents = \"sqlmap\"\nban = \"1d\"\n")
	if !c.Observe || !c.Jails[0].Observe || !c.Jails[1].Observe || !c.Deny.Observe {
		t.Errorf("something is enforced: %+v", c)
	}
}

// TestAllAtOnce has a dozen mistakes in one file, all of which are reported, in
// the order of lines, and none that only follows from another.
func TestAllAtOnce(t *testing.T) {
	check(t, `allow = [
  "203.0.113.7",
  "203.0.113.0/7",
  "exa_mple..org",
]
[jails.web]
log = ["b", "c"]
limit = "fifty"
window = 60
ban = "1y"
wher = { path = "/" }
[logs.b]
files = "access.log"
format = "combine"
[actions.fw]
type = "nftables"
ports = [80, 99999]
[jails.ok]
log = "b"
limit = 1
window = "1s"
ban = "1s"
actions = ["fw", "firewall"]
`, []string{"TAILBAN_LIMIT_WEB=-1"}, `jails.toml:3: allow = "203.0.113.0/7": is too wide: /8 at most
jails.toml:4: allow = "exa_mple..org": must be an address, a range like "10.0.0.0/8", or a provider (tailban lists --all shows those that there are)
jails.toml:7: jails.web.log = "c": there is no log of this name (known: b)
jails.toml:8: jails.web.limit = "fifty": must be a whole number, 0 or more
jails.toml:9: jails.web.window = 60: must be in quotes and have a unit, like "60s"
jails.toml:10: jails.web.ban = "1y": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)
jails.toml:11: jails.web.wher: unknown key, did you mean "where"?
jails.toml:13: logs.b.files = "access.log": must be an absolute path
jails.toml:14: logs.b.format = "combine": unknown format, did you mean "combined"?
jails.toml:17: actions.fw.ports = 99999: must be from 1 to 65535
jails.toml:23: jails.ok.actions = "firewall": there is no action of this name (known: fw)
TAILBAN_LIMIT_WEB = -1: must be a whole number, 0 or more`)
}

// A reference to something that is there, but wrong, is no second mistake.
func TestNoEcho(t *testing.T) {
	check(t, base+jail+"log = \"b\"\nactions = \"fw\"\n[logs]\nb = 1\n[actions]\nfw = 1", nil,
		`jails.toml:14: logs.b = 1: must be a table: [logs.b]
jails.toml:16: actions.fw = 1: must be a table: [actions.fw]`)
}

func TestEmpty(t *testing.T) {
	const want = `jails.toml: logs: required: add a table like [logs.nginx] with the files to follow
jails.toml: jails: required: add a table like [jails.web] with limit, window and ban`
	check(t, "", nil, want)
	check(t, "# nothing\n", nil, want)
	check(t, "[logs]\n[jails]\n", nil, strings.NewReplacer("toml: l", "toml:1: l", "toml: j", "toml:2: j").Replace(want))
	check(t, "logs = 1\njails = 2\n", nil, `jails.toml:1: logs = 1: must be a table: [logs]
jails.toml:2: jails = 2: must be a table: [jails]`)
}

func TestTooLarge(t *testing.T) {
	doc := base + strings.Repeat("#", maxFile-len(base))
	accept(t, doc)
	check(t, doc+"#", nil, "jails.toml: is larger than 1MiB")
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jails.toml")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ps Problems

	_, err := Load(file, nil)
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &ps) || !strings.Contains(err.Error(), file) {
		t.Errorf("no file: %v", err)
	}
	if _, err = Load(filepath.Dir(file), nil); err == nil || errors.As(err, &ps) {
		t.Errorf("a folder: %v", err)
	}
	write(base)
	if c, err := Load(file, nil); err != nil || len(c.Jails) != 1 {
		t.Errorf("a good file: %+v, %v", c, err)
	}
	write(base + strings.Repeat("#", maxFile))
	if _, err = Load(file, nil); !errors.As(err, &ps) || err.Error() != file+": is larger than 1MiB" {
		t.Errorf("a large file: %v", err)
	}
	write("mode = 1\n" + base)
	if _, err = Load(file, nil); !errors.As(err, &ps) || err.Error() != file+":1: mode = 1: must be text in quotes" {
		t.Errorf("a bad file: %v", err)
	}
}

// What is shipped must work as it is, also with its suggestions taken.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("../../jails.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	c := accept(t, string(data))
	for _, w := range c.Warnings() {
		t.Errorf("warning: %s", w)
	}
	var names []string
	for _, j := range c.Jails {
		names = append(names, j.Name)
	}
	if diff := cmp.Diff([]string{"web", "sign-in", "scanner", "probe"}, names); diff != "" {
		t.Errorf("jails (-want +got)\n%s", diff)
	}
	if j := c.Jails[0]; j.Limit != 50 || j.Window != time.Minute || !slices.Equal(j.Ban, ladder(time.Hour)) {
		t.Errorf("jail web: %+v", j)
	}

	lines := strings.Split(string(data), "\n")
	for i, l := range lines {
		// Commented-out settings have no space after the sign.
		if len(l) > 1 && l[0] == '#' && l[1] != ' ' {
			lines[i] = l[1:]
		}
	}
	all := accept(t, strings.Replace(strings.Join(lines, "\n"), `"combined"`, `"nginx"`, 1))
	if len(all.TrustedProxies) == 0 || len(all.Allow) == 0 || !all.Observe || all.Deny == nil || len(all.Wanted) == 0 {
		t.Errorf("something is still commented out: %+v", all)
	}
	for _, w := range all.Warnings() {
		if w.Key != "mode" {
			t.Errorf("warning: %s", w)
		}
	}
}

func TestBuiltin(t *testing.T) {
	c := Builtin()
	want := []detector.Jail{{Name: "web", Logs: []string{"log"}, Limit: 50, Window: time.Minute, Ban: ladder(time.Hour), Remember: 720 * time.Hour}}
	if diff := cmp.Diff(want, c.Jails); diff != "" {
		t.Errorf("jails (-want +got)\n%s", diff)
	}
	if len(c.Logs) != 1 || c.Logs[0].Name != "log" || c.Logs[0].Format != "" || c.Logs[0].Files != nil || c.Logs[0].MaxLine != 256<<10 {
		t.Errorf("logs: %+v", c.Logs)
	}
	if c.Actions != nil || c.MaxMemory != 64<<20 || c.MaxBans != 100_000 || c.Remember != 720*time.Hour || c.StateDir == "" || c.Warnings() != nil {
		t.Errorf("%+v", c)
	}
	c.Jails[0].Limit = 1
	if Builtin().Jails[0].Limit != 50 {
		t.Error("a caller's change shows in the next one")
	}
}

func TestProblemString(t *testing.T) {
	for _, tt := range []struct {
		p    Problem
		want string
	}{
		{Problem{"jails.toml", 12, "jails.web.limit", `"fifty"`, "must be a whole number, 0 or more"}, `jails.toml:12: jails.web.limit = "fifty": must be a whole number, 0 or more`},
		{Problem{"jails.toml", 12, "a", "", "m"}, `jails.toml:12: a: m`},
		{Problem{"jails.toml", 0, "", "", "m"}, `jails.toml: m`},
		{Problem{"", 0, "TAILBAN_BAN_WEB", `"x"`, "m"}, `TAILBAN_BAN_WEB = "x": m`},
	} {
		if got := tt.p.String(); got != tt.want {
			t.Errorf("%#v: %s, want %s", tt.p, got, tt.want)
		}
	}
}

func TestProblemsSorted(t *testing.T) {
	env, late, early := Problem{Key: "A"}, Problem{File: "f", Line: 9}, Problem{File: "f", Line: 2}
	list, other := Problem{File: "a", Line: 1}, Problem{File: "b", Line: 1}
	got := Problems{env, other, list, late, early, late, {File: "f"}}.sorted("f")
	if diff := cmp.Diff(Problems{{File: "f"}, early, late, list, other, env}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLongValuesAreCut(t *testing.T) {
	check(t, `mode = "`+strings.Repeat("é", 100)+"\"\n"+base, nil,
		`jails.toml:1: mode = "`+strings.Repeat("é", 58)+`…: must be "enforce" or "observe"`)
}

// Actions by iptables know each other's chains, so that they don't fight about the
// first place.
func TestIptablesSiblings(t *testing.T) {
	c := accept(t, `
[logs.site]
files = "/var/log/site.log"
[jails.web]
limit = 1
window = "60s"
ban = "1h"
[actions.a]
type = "iptables"
[actions.b]
type = "iptables"
chain = "B"
sets = "b"
[actions.c]
type = "nftables"
`)
	got := ""
	for _, a := range c.Actions {
		got += fmt.Sprint(a.Name, a.Siblings, " ")
	}
	if got != "a[B] b[TAILBAN] c[] " {
		t.Errorf("siblings: %s", got)
	}
}
