package config

import (
	"strings"
	"testing"
)

// enforced is base with an action, so that it is warned of nothing.
const enforced = base + fw // 8 lines

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		name, doc, want string
	}{
		{"none", enforced, ""},
		{"none with proxies", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(enforced, "[jails", "format = \"nginx\"\n[jails", 1),
			`1: trusted_proxies: clients behind these are banned at their own address, which the kernel sees only where they come directly: through the proxies they still get in`},
		{"proxies, and nothing that reaches the kernel", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1),
			`5: jails.web.actions: no action enforces these bans: they are only logged`},
		{"proxies without header", "trusted_proxies = \"10.0.0.0/8\"\n" + enforced,
			`2: logs.nginx.format: format "combined" has no forwarding header: requests through trusted proxies count for nobody`},
		{"proxies without header, format given", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(enforced, "[jails", "format = \"common\"\n[jails", 1),
			`4: logs.nginx.format: format "common" has no forwarding header: requests through trusted proxies count for nobody`},
		{"rewritten peer", strings.Replace(enforced, "[jails", "peer = \"rewritten\"\n[jails", 1),
			`3: logs.nginx.peer: the server writes the addresses that a proxy reports: the kernel sees these clients only where they come directly, and a ban stops them only there`},
		{"no path", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] $status'\n[jails", 1) + jail + "where = { path = \"/x\", status = 404, method = \"GET\" }\n",
			`14: jails.x.where.path: format "own format" of log "nginx" has no path: this matches nothing there
14: jails.x.where.method: format "own format" of log "nginx" has no method: this matches nothing there`},
		{"the connection's peer, and no proxy", strings.Replace(enforced, "[jails", "format = '$realip_remote_addr [$time_local] \"$request\" \"$http_x_forwarded_for\"'\n[jails", 1),
			`3: logs.nginx.format: this logs the address of the connection, as behind a proxy, but no proxy is trusted: the proxy itself would be banned: set trusted_proxies`},
		{"the connection's peer, Apache", strings.Replace(enforced, "[jails", "format = '%{c}a %t \"%r\"'\n[jails", 1),
			`3: logs.nginx.format: this logs the address of the connection, as behind a proxy, but no proxy is trusted: the proxy itself would be banned: set trusted_proxies`},
		{"method and path after redirects", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] \"$request_method $uri$is_args$args\"'\n[jails", 1) + jail + "where = { path = \"/x\", not = { method = \"GET\" } }\n",
			`14: jails.x.where.path: log "nginx" has the path as it is after internal redirects: with try_files, index or error_page it is that of the page served: log the request ($request) or $request_uri
14: jails.x.where.not.method: log "nginx" has the method as it is after internal redirects: error_page and ErrorDocument make it GET, so a POST that fails isn't seen as one: log the request ($request, %r or %<m)`},
		{"method after redirects, Apache", strings.Replace(enforced, "[jails", "format = '%h %t \"%m %U%q %H\"'\n[jails", 1) + jail + "where = { method = \"POST\", path = \"/x\" }\n",
			`14: jails.x.where.method: log "nginx" has the method as it is after internal redirects: error_page and ErrorDocument make it GET, so a POST that fails isn't seen as one: log the request ($request, %r or %<m)`},
		{"path after redirects, Apache", strings.Replace(enforced, "[jails", "format = '%h %t \"%<m %>U\"'\n[jails", 1) + jail + "where = { method = \"POST\", path = \"/x\" }\n",
			`14: jails.x.where.path: log "nginx" has the path as it is after internal redirects: with try_files, index or error_page it is that of the page served: log the request ($request) or $request_uri`},
		{"method and path of the request", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] \"$request_method $uri\" \"$request\"'\n[jails", 1) + jail + "where = { method = \"POST\", path = \"/x\" }\n", ""},
		{"method and path after redirects, no condition", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] \"$request_method $uri\" $status'\n[jails", 1) + jail + "where = { status = 404 }\n", ""},
		{"edge, and no proxy", base + "[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n", `8: actions.edge.type: no client is known to come through Cloudflare: set trusted_proxies, and a log format with the forwarding header
8: actions.edge.type: bans here outlive a dead daemon: they are taken out at their time only while some tailban with this list runs. Name the zones, to have a rule there that lapses by itself`},
		{"edge behind a proxy", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1) + "[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n", `10: actions.edge.type: bans here outlive a dead daemon: they are taken out at their time only while some tailban with this list runs. Name the zones, to have a rule there that lapses by itself`},
		{"edge and kernel behind a proxy", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(enforced, "[jails", "format = \"nginx\"\n[jails", 1) + "[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n", `12: actions.edge.type: bans here outlive a dead daemon: they are taken out at their time only while some tailban with this list runs. Name the zones, to have a rule there that lapses by itself`},
		{"edge and a short ban", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1), "\"1h\"", "\"29s\"", 1) + "[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n", `8: jails.web.ban: a ban of 29s is half over before action "edge" has it at Cloudflare: at least twice sync_every, 30s
10: actions.edge.type: bans here outlive a dead daemon: they are taken out at their time only while some tailban with this list runs. Name the zones, to have a rule there that lapses by itself`},
		{"edge with zones", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1) + "[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\nzones = [\"f0e0d0c0b0a000998877665544332211\"]\n", ""},
		{"edge with access rules", "trusted_proxies = \"10.0.0.0/8\"\n" + strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1) + "[actions.edge]\ntype = \"cloudflare\"\nmode = \"access_rules\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n",
			`11: actions.edge.mode: bans here outlive a dead daemon: access rules have no end at Cloudflare, and are taken out at their time only while some tailban is there. Have a timer on another machine run tailban cloudflare sweep`},
		{"no action", base, `3: jails.web.actions: no action enforces these bans: they are only logged`},
		{"empty actions", enforced + jail + "actions = []\n", `13: jails.x.actions: no action enforces these bans: they are only logged`},
		{"action that logs", enforced + "[actions.l]\ntype = \"log\"\n" + jail + "actions = [\"l\"]\n", `15: jails.x.actions: no action enforces these bans: they are only logged`},
		{"one of two enforces", enforced + "[actions.l]\ntype = \"log\"\n", ""},
		{"deny without action", enforced + "[deny]\nagents = \"sqlmap\"\nban = \"1d\"\nactions = []\n", `12: deny.actions: no action enforces these bans: they are only logged`},
		{"log without jail", strings.Replace(enforced, "[jails.web]", "[jails.web]\nlog = \"nginx\"", 1) + "[logs.b]\nfiles = \"/b\"\n", `10: logs.b: no jail looks at this log`},
		{"a pattern over another log's file", enforced + "[logs.b]\nfiles = [\"/b.log\", \"/var/log/nginx/*.log\"]\n",
			`10: logs.b.files: /var/log/nginx/access.log is also in logs.nginx, which names it: for this log it is not read, and the daemon says that it is not well: narrow the pattern`},
		{"compressed", strings.Replace(enforced, "access.log", "access.log.*.gz", 1),
			`2: logs.nginx.files: compressed files (.gz) are never followed: name the log that they were made of; tailban replay reads those of gzip`},
		{"two stars", strings.Replace(enforced, "access.log", "**/*.log", 1),
			`2: logs.nginx.files: ** is no more than *, and leads into no folders below: write a pattern for each depth, like /srv/*/*.log`},
		{"patterns that may overlap", strings.Replace(enforced, "access.log", "*.log", 1) + "[logs.b]\nfiles = \"/var/log/*/access.log\"\n", ""},
		{"a pattern that looks like a file of another's", strings.Replace(enforced, "access.log", "*.log", 1) + "[logs.b]\nfiles = \"/var/log/nginx/[ab].log\"\n", ""},
		{"action without jail", strings.Replace(enforced, "[jails.web]", "[jails.web]\nactions = \"fw\"", 1) + "[actions.l]\ntype = \"log\"\n", `10: actions.l: no jail uses this action`},
		{"action of deny only", strings.Replace(enforced, "[jails.web]", "[jails.web]\nactions = \"fw\"", 1) + "[actions.b]\ntype = \"nftables\"\ntable = \"b\"\n[deny]\nagents = \"sqlmap\"\nban = \"1d\"\nactions = \"b\"\n", ""},
		{"all observe", "mode = \"observe\"\n" + base + jail + "mode = \"observe\"\n", `1: mode: nothing is enforced: bans are decided and recorded only`},
		{"one observes", enforced + jail + "mode = \"observe\"\n", `13: jails.x.mode: jail "x" enforces nothing: its bans are decided and recorded only`},
		{"deny observes", enforced + "[deny]\nagents = \"sqlmap\"\nban = \"1d\"\nmode = \"observe\"\n", `12: deny.mode: [deny] enforces nothing: its bans are decided and recorded only`},
		{"wide allow", "allow = [\n\"10.0.0.0/15\",\n\"10.0.0.0/16\",\n\"2001:db0::/31\",\n\"2001:db8::/32\", \"cloudflare\"]\n" + enforced,
			"2: allow: 10.0.0.0/15 is wide: nobody in it is ever banned\n4: allow: 2001:db0::/31 is wide: nobody in it is ever banned"},
		{"agents in a log without", strings.Replace(enforced, "[jails", "format = \"common\"\n[jails", 1) + jail + "where = { agent = \"curl\", not = { agent = \"good\" } }\n[deny]\nagents = \"sqlmap\"\nban = \"1d\"\n" + want,
			`14: jails.x.where.agent: format "common" of log "nginx" has no user agent: this matches nothing there
14: jails.x.where.not.agent: format "common" of log "nginx" has no user agent: this matches nothing there
16: deny.agents: format "common" of log "nginx" has no user agent: this matches nothing there
19: wanted.up.agent: format "common" of log "nginx" has no user agent: this matches nothing there`},
		{"denied and allowed", "allow = [\"203.0.113.0/24\", \"cloudflare\"]\n" + enforced + "[deny]\nban = \"1d\"\nfrom = [\"203.0.113.0/25\", \"203.0.112.0/22\", \"104.16.0.0/14\"]\n",
			`12: deny.from: allowed as well, which goes first, so not denied: 203.0.113.0/25 and 1 more`},
		{"a ladder that nobody climbs", enforced + jail + "remember = \"1h\"\n" + "[jails.y]\nlimit = 1\nwindow = \"1s\"\nban = [\"1h\", \"6h\", \"1d\"]\nremember = \"6h\"\n",
			`17: jails.y.ban: an offence is forgotten after 6h, before its ban of 6h is over: the next one begins with 1h again`},
		{"a denial's ladder that nobody climbs", enforced + "[deny]\nagents = \"sqlmap\"\nban = [\"1d\", \"60d\"]\n",
			`11: deny.ban: an offence is forgotten after 30d, before its ban of 60d is over: the next one begins with 1d again`},
		{"a long ban that does not grow", enforced + "[deny]\nagents = \"sqlmap\"\nban = \"60d\"\n", ""},
		{"status excluded in a log without", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] \"$request\"'\n[jails", 1) + jail + "where.not = { status = 404 }\n",
			`14: jails.x.where.not.status: format "own format" of log "nginx" has no status: the jail counts nothing there`},
		{"protocol in a log without", strings.Replace(enforced, "[jails", "format = '$remote_addr [$time_local] $status'\n[jails", 1) + jail + "where = { protocol = \"HTTP/1.1\", not = { protocol = \"HTTP/3.0\" } }\n",
			`14: jails.x.where.protocol: format "own format" of log "nginx" has no protocol: this matches nothing there
14: jails.x.where.not.protocol: format "own format" of log "nginx" has no protocol: this matches nothing there`},
		{"method excluded", enforced + jail + "where = { method = \"POST\", not = { method = [\"GET\", \"POST\"] } }\n",
			`13: jails.x.where.not.method: excludes all that where.method includes: the jail never counts anything`},
		{"path excluded", enforced + jail + "where = { path = [\"/a/b\", \"/a/*\", \"~x\"], not = { path = [\"/a*\", \"~x\"] } }\n",
			`13: jails.x.where.not.path: excludes all that where.path includes: the jail never counts anything`},
		{"status excluded", enforced + jail + "where = { status = [404, \"5xx\"], not = { status = \"400-599\" } }\n",
			`13: jails.x.where.not.status: excludes all that where.status includes: the jail never counts anything`},
		{"agent excluded", enforced + jail + "where = { agent = \"EvilBot/2\", not = { agent = \"evilbot\" } }\n",
			`13: jails.x.where.not.agent: excludes all that where.agent includes: the jail never counts anything`},
		{"protocol excluded", enforced + jail + "where = { protocol = \"HTTP/3\", not = { protocol = \"HTTP/3.0\" } }\n",
			`13: jails.x.where.not.protocol: excludes all that where.protocol includes: the jail never counts anything`},
		{"not all excluded", enforced + jail + "where = { method = [\"POST\", \"PUT\"], path = [\"/a\", \"/b/*\"], status = \"4xx\", agent = \"bot\", protocol = [\"HTTP/1.0\", \"HTTP/1.1\"], " +
			"not = { method = \"PUT\", path = [\"/a\", \"/b/c/*\", \"~.\"], status = 404, agent = \"goodbot\", protocol = \"HTTP/1.0\" } }\n", ""},
		{"encoded paths", enforced + jail + "where.path = [\"/a%20b\", \"/100%\", \"~%2f\"]\n",
			`13: jails.x.where.path: "/a%20b" hardly matches: %XX is decoded before paths are compared, so write the character itself`},
		{"wanted that never pass", enforced + strings.Replace(want, "limit = 9", "limit = 0", 1),
			`12: wanted.up.limit: with a limit of 0 none of its requests passes: this does nothing`},
		{"an agent that could prove itself", enforced + "[wanted.up]\nagent = \"UptimeRobot/2\"\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n" +
			"[wanted.googlebot]\nagent = \"Google\"\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n" +
			"[wanted.status]\nagent = \"Better Uptime Bot\"\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n",
			`11: wanted.up.agent_only: anybody can send this agent, and where uptimerobot comes from is known: from = ["uptimerobot"] in the place of agent_only lets only that pass
16: wanted.googlebot.agent_only: anybody can send this agent, and where googlebot comes from is known: from = ["googlebot"] in the place of agent_only lets only that pass
21: wanted.status.agent_only: anybody can send this agent, and where better-uptime comes from is known: from = ["better-uptime"] in the place of agent_only lets only that pass`},
		{"domains of many", enforced + "[wanted.up]\nagent = \"UptimeRobot\"\ndomains = [\"up.example\", \"COM.\", \"googleusercontent.com\", \"gae.googleusercontent.com\"]\n" + jail + "where = { false_crawler = true }\n",
			`11: wanted.up.domains: "com" is a whole top-level domain: whoever has a name in it passes
11: wanted.up.domains: whoever rents a machine there has a name in "googleusercontent.com", and passes: name the part of it that is the machine's alone`},
		{"an agent that does", enforced + "[wanted.up]\nagent = \"UptimeRobot\"\nfrom = \"uptimerobot\"\n" + jail + "where = { false_crawler = true }\n", ""},
		{"false crawlers where none can be", enforced + jail + "where = { false_crawler = true }\n[jails.y]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\nwhere = { not = { false_crawler = true } }\n" + want,
			`13: jails.x.where.false_crawler: no [wanted] machine has from or domains, so that no claim is false: the jail never counts anything
18: jails.y.where.not.false_crawler: no [wanted] machine has from or domains, so that no claim is false: this excludes nothing`},
		{"false crawlers in a log without agents, and excluded", strings.Replace(enforced, "[jails", "format = \"common\"\n[jails", 1) + jail + "where = { false_crawler = true, not = { false_crawler = true } }\n[wanted.up]\nagent = \"Up\"\nfrom = \"203.0.113.7\"\n",
			`14: jails.x.where.false_crawler: format "common" of log "nginx" has no user agent: this matches nothing there
14: jails.x.where.not.false_crawler: format "common" of log "nginx" has no user agent: this matches nothing there
14: jails.x.where.not.false_crawler: excludes all that where.false_crawler includes: the jail never counts anything
16: wanted.up.agent: format "common" of log "nginx" has no user agent: this matches nothing there`},
		{"agents of ordinary clients", enforced + "[deny]\nagents = [\"SafarI\", \"sqlmap\"]\nban = \"1d\"\n[wanted.up]\nagent = [\"x-check\",\n\"Mozilla/5.0\"]\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n",
			`10: deny.agents: "SafarI" occurs in the user agents of ordinary clients
14: wanted.up.agent: "Mozilla/5.0" occurs in the user agents of ordinary clients: they all pass, up to the limit`},
		{"ordinary clients that lie", enforced + "[wanted.up]\nagent = \"Mozilla\"\nfrom = \"203.0.113.7\"\n" + jail + "where = { false_crawler = true }\n",
			`10: wanted.up.agent: "Mozilla" occurs in the user agents of ordinary clients: to false_crawler they all lie`},
		{"ordinary clients that nobody asks about", enforced + "[wanted.up]\nagent = \"Mozilla\"\nfrom = \"203.0.113.7\"\n", ""},
		{"a machine without its ranges", enforced + "[wanted.up]\nagent = [\n\"Googlebot\",\n\"bingbot\",\n\"GPTBot\"]\nfrom = \"googlebot\"\n[wanted.gpt]\nagent = \"GPTBot\"\nfrom = \"gptbot\"\n" + jail + "where = { false_crawler = true }\n",
			`12: wanted.up.agent: no from has the ranges of bingbot: to false_crawler bingbot itself lies`},
		{"ranges that may be a machine's", enforced + "[wanted.up]\nagent = \"bingbot\"\nfrom = [\"googlebot\", \"203.0.113.0/24\"]\n" + jail + "where = { false_crawler = true }\n", ""},
		{"a machine without its ranges, which is an ordinary client", enforced + "[wanted.up]\nagent = \"bingbot\"\nfrom = \"googlebot\"\n", ""},
		{"a crawler as a proxy", "trusted_proxies = [\"cloudflare\", \"googlebot\"]\n" + strings.Replace(base, "[jails", "format = \"nginx\"\n[jails", 1),
			`1: trusted_proxies: googlebot is a crawler, and passes on nobody's requests: what a header from there says of the client would be believed
5: jails.web.actions: no action enforces these bans: they are only logged`},
		{"a proxy as a crawler", enforced + "[wanted.up]\nagent = \"Up\"\nfrom = [\"uptimerobot\", \"fastly\"]\n",
			`11: wanted.up.from: fastly passes on requests of others: this proves only that somebody came through it`},
		{"short agent", enforced + "[deny]\nagents = [\n\"sqlmap\",\n\"Mo\"]\nban = \"1d\"\n", `12: deny.agents: "Mo" occurs in the user agents of ordinary clients`},
		{"paths that never match", enforced + jail + "where = { path = [\"/ok\", \"/.*\", \"/c/.\", \"/a//b\", \"~//\"], not = { path = \"/a/../b\" } }\n",
			`13: jails.x.where.path: "/c/." never matches: //, /./ and /../ are resolved before paths are compared
13: jails.x.where.path: "/a//b" never matches: //, /./ and /../ are resolved before paths are compared
13: jails.x.where.not.path: "/a/../b" never matches: //, /./ and /../ are resolved before paths are compared`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, w := range accept(t, tt.doc).Warnings() {
				got = append(got, strings.TrimPrefix(w.String(), "jails.toml:"))
			}
			if s := strings.Join(got, "\n"); s != tt.want {
				t.Errorf("warnings of\n%s\ngot\n%s\nwant\n%s", tt.doc, s, tt.want)
			}
		})
	}
}
