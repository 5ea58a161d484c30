package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// base is the least that is accepted. What the tests put behind it begins on
// line 7.
const base = `[logs.nginx]
files = "/var/log/nginx/access.log"
[jails.web]
limit = 50
window = "60s"
ban = "1h"
`

const (
	fw   = "[actions.fw]\ntype = \"nftables\"\n" // two lines
	jail = "[jails.x]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\n"
	want = "[wanted.up]\nagent = \"Up\"\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n"
)

// TestBad has a document for every rule, and exactly what is said about it.
func TestBad(t *testing.T) {
	for _, tt := range []struct {
		name string
		top  string // before base, one line
		tail string // behind base
		want string // problems, without the file's name
	}{
		// the file
		{name: "syntax", top: "mode = ", want: `1: expected value but found '\n' instead`},
		{name: "syntax at a line end", tail: "[deny\n", want: `7: expected '.' or ']' to end table name, but got '\n' instead`},
		{name: "no quotes", tail: jail + "mode = observe", want: `11: expected value but found "observe" instead (text, durations and sizes need quotes: "60s")`},
		{name: "no quotes around a duration", tail: jail + "mode = 60s", want: `11: expected a top-level item to end with a newline, comment, or EOF, but got 's' instead (text, durations and sizes need quotes: "60s")`},
		{name: "escape", tail: jail + `where.path = "~\d"`, want: `11: invalid escape in string '\d' (between single quotes a backslash is only a backslash)`},
		{name: "key twice", tail: jail + "ban = \"2s\"", want: `11: key 'jails.x.ban' has already been defined`},
		{name: "table twice", tail: "[jails.web]", want: `7: key 'jails.web' has already been defined`},
		{name: "too deep", top: "a = " + strings.Repeat("[", 1000), want: `1: tables or lists are nested too deeply`},
		{name: "control character", top: "a = \"\x01\"", want: `1: TOML files cannot contain control characters: '0x01'`},

		// keys
		{name: "unknown key", tail: jail + "limt = 1", want: `11: jails.x.limt: unknown key, did you mean "limit"?`},
		{name: "swapped letters", top: `mdoe = "observe"`, want: `1: mdoe: unknown key, did you mean "mode"?`},
		{name: "wrong case", top: `Mode = "observe"`, want: `1: Mode: unknown key, did you mean "mode"?`},
		{name: "nothing near", tail: "[deny]\nagents = \"x\"\nban = \"1d\"\nreason = 1", want: `10: deny.reason: unknown key (known: ban, remember, mode, actions, agents, from)`},
		{name: "unknown table", tail: "[jail.x]", want: `7: jail: unknown key, did you mean "jails"?`},
		{name: "quoted key", tail: "[deny]\nagents = \"x\"\nban = \"1d\"\n\"a b\" = 1", want: `10: deny."a b": unknown key (known: ban, remember, mode, actions, agents, from)`},
		{name: "no condition", tail: jail + `where = { status = 404, not = { methods = "GET" } }`, want: `11: jails.x.where.not.methods: unknown key, did you mean "method"?`},
		{name: "not in not", tail: jail + `where.not = { not = { path = "/" }, path = "/" }`, want: `11: jails.x.where.not.not: unknown key (known: method, path, status, agent, protocol)`},

		// names
		{name: "name", tail: strings.Replace(jail, "x", "Web", 1), want: `7: jails.Web: a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter`},
		{name: "name with a digit first", tail: "[logs.1]\nfiles = \"/x\"", want: `7: logs.1: a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter`},
		{name: "empty name", tail: "[actions.\"\"]\ntype = \"log\"", want: `7: actions."": a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter`},
		{name: "long name", tail: "[actions." + strings.Repeat("a", 33) + "]\ntype = \"log\"", want: `7: actions.` + strings.Repeat("a", 33) + `: a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter`},
		{name: "reserved name", tail: strings.Replace(jail, "x", "deny", 1), want: `7: jails.deny: this name is reserved for the [deny] table`},
		{name: "no table", tail: "[jails]\nx = 5", want: `8: jails.x = 5: must be a table: [jails.x]`},
		{name: "array of tables", tail: "[[deny]]\nagents = \"x\"", want: `7: deny = {…}: must be a table: [deny]`},

		// top
		{name: "mode", top: `mode = "dry-run"`, want: `1: mode = "dry-run": must be "enforce" or "observe"`},
		{name: "mode's type", top: `mode = true`, want: `1: mode = true: must be text in quotes`},
		{name: "memory", top: `max_memory = "64 MiB"`, want: `1: max_memory = "64 MiB": must be a size like "64MiB" (units KiB, MiB, GiB, kB, MB, GB), or a whole number of bytes`},
		{name: "little memory", top: `max_memory = "64KiB"`, want: `1: max_memory = "64KiB": must be from 1MiB to 1024GiB`},
		{name: "memory's type", top: `max_memory = 1.5`, want: `1: max_memory = 1.5: must be a size like "64MiB" (units KiB, MiB, GiB, kB, MB, GB), or a whole number of bytes`},
		{name: "no bans", top: `max_bans = 0`, want: `1: max_bans = 0: must be a whole number, 1 or more`},
		{name: "many bans", top: `max_bans = 10_000_001`, want: `1: max_bans = 10000001: must be at most 10000000`},
		{name: "state", top: `state_dir = "lib/tailban"`, want: `1: state_dir = "lib/tailban": must be an absolute path`},

		// addresses
		{name: "provider", top: `trusted_proxies = ["cloudflair"]`, want: `1: trusted_proxies = "cloudflair": unknown provider, did you mean "cloudflare"?`},
		{name: "no provider", top: `trusted_proxies = "fastly"`, want: `1: trusted_proxies = "fastly": unknown provider (known: cloudflare)`},
		{name: "everything", top: `trusted_proxies = ["0.0.0.0/0", "::/0"]`, want: `1: trusted_proxies = "0.0.0.0/0": is every address there is
1: trusted_proxies = "::/0": is every address there is`},
		{name: "wide", top: `allow = ["10.0.0.0/7", "2001::/15"]`, want: `1: allow = "10.0.0.0/7": is too wide: /8 at most
1: allow = "2001::/15": is too wide: /16 at most`},
		{name: "host bits", top: `allow = ["192.0.2.1/24", "2001:db8::1/48"]`, want: `1: allow = "192.0.2.1/24": has bits set behind the mask, is "192.0.2.0/24" meant?
1: allow = "2001:db8::1/48": has bits set behind the mask, is "2001:db8::/48" meant?`},
		{name: "host name of a proxy", top: `trusted_proxies = "office.example.net"`, want: `1: trusted_proxies = "office.example.net": host names can be in allow only`},
		{name: "host name twice", top: `allow = ["a.example", "A.Example."]`, want: `1: allow = "A.Example.": is listed twice`},
		{name: "long host name", top: `allow = ["` + strings.Repeat("a.", 127) + `b", "` + strings.Repeat("a", 64) + `.example"]`,
			want: `1: allow = "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.…: is longer than a host name can be (253 characters, 63 between dots)
1: allow = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…: is longer than a host name can be (253 characters, 63 between dots)`},
		{name: "many host names", top: "allow = [" + hostNames(33) + "]", want: `1: allow = "h32.example": is one host name too many (32 at most): write their addresses, or name a file of them`},
		{name: "relative file of addresses", top: `allow = "file:monitors.txt"`, want: `1: allow = "file:monitors.txt": must be an absolute path behind "file:"`},
		{name: "no file of addresses", top: `trusted_proxies = "file:/nowhere/proxies.txt"`, want: `1: trusted_proxies = "file:/nowhere/proxies.txt": cannot be read: no such file or directory`},
		{name: "folder of addresses", top: `allow = "file:/"`, want: `1: allow = "file:/": is no regular file`},
		{name: "device of addresses", top: `allow = "file:/dev/zero"`, want: `1: allow = "file:/dev/zero": is no regular file`},
		{name: "port", top: `allow = ["192.0.2.1:80", "[::1]:80"]`, want: `1: allow = "192.0.2.1:80": must be an address without a port
1: allow = "[::1]:80": must be an address without a port`},
		{name: "zone", top: `allow = "fe80::1%eth0"`, want: `1: allow = "fe80::1%eth0": addresses with a zone are not supported`},
		{name: "no address", top: `allow = ["10.0.0.300", "10.0.0.0/33"]`, want: `1: allow = "10.0.0.300": must be an address, a range like "10.0.0.0/8", or a provider (known: cloudflare)
1: allow = "10.0.0.0/33": must be an address, a range like "10.0.0.0/8", or a provider (known: cloudflare)`},
		{name: "address twice", top: `allow = ["192.0.2.1", "192.0.2.1/32", "::ffff:192.0.2.1"]`, want: `1: allow = "192.0.2.1/32": is listed twice
1: allow = "::ffff:192.0.2.1": is listed twice`},
		{name: "provider twice", top: `trusted_proxies = ["cloudflare", "cloudflare"]`, want: `1: trusted_proxies = "cloudflare": is listed twice`},
		{name: "address's type", top: `allow = [1]`, want: `1: allow = 1: must be text in quotes`},

		// logs
		{name: "no files", tail: "[logs.b]", want: `7: logs.b.files: required: an absolute path, or a list of them`},
		{name: "empty files", tail: "[logs.b]\nfiles = []", want: `8: logs.b.files = []: must not be empty`},
		{name: "relative file", tail: "[logs.b]\nfiles = [\n\"/ok\",\n\"access.log\"]", want: `10: logs.b.files = "access.log": must be an absolute path`},
		{name: "folder", tail: "[logs.b]\nfiles = \"/var/log/\"", want: `8: logs.b.files = "/var/log/": must name files, not a folder: is "/var/log/*.log" meant?`},
		{name: "pattern", tail: "[logs.b]\nfiles = \"/var/log/[a\"", want: `8: logs.b.files = "/var/log/[a": is no valid pattern: "[" begins a list of characters that "]" ends, "\\" takes the next one literally`},
		{name: "file twice", tail: "[logs.b]\nfiles = [\"/a\", \"//a\"]", want: `8: logs.b.files = "//a": is listed twice`},
		{name: "file of another log", tail: "[logs.b]\nfiles = \"/var/log/nginx/access.log\"", want: `8: logs.b.files = "/var/log/nginx/access.log": is also in logs.nginx: every line would count twice`},
		{name: "after an unparsed line", tail: "[logs.b]\nfiles = \"/b\"\nafter_unparsed = true", want: `9: logs.b.after_unparsed = true: must be text in quotes`},
		{name: "what after an unparsed line", tail: "[logs.b]\nfiles = \"/b\"\nafter_unparsed = \"drop\"", want: `9: logs.b.after_unparsed = "drop": must be "count" or "skip"`},
		{name: "NUL in a file", tail: "[logs.b]\nfiles = \"/a\\u0000\"", want: `8: logs.b.files = "/a\x00": must not contain control characters`},
		{name: "format", tail: "[logs.b]\nfiles = \"/b\"\nformat = \"combinde\"", want: `9: logs.b.format = "combinde": unknown format, did you mean "combined"?`},
		{name: "line", tail: "[logs.b]\nfiles = \"/b\"\nmax_line = 1023", want: `9: logs.b.max_line = 1023: must be from 1KiB to 16MiB`},

		// jails
		{name: "limit's type", tail: jail[:10] + "limit = \"fifty\"\nwindow = \"1s\"\nban = \"1s\"", want: `8: jails.x.limit = "fifty": must be a whole number, 0 or more`},
		{name: "negative limit", tail: jail[:10] + "limit = -1\nwindow = \"1s\"\nban = \"1s\"", want: `8: jails.x.limit = -1: must be a whole number, 0 or more`},
		{name: "high limit", tail: jail[:10] + "limit = 1000001\nwindow = \"1s\"\nban = \"1s\"", want: `8: jails.x.limit = 1000001: must be at most 100000`},
		{name: "limit beyond the memory", tail: jail[:10] + "limit = 100000\nwindow = \"1s\"\nban = \"1s\"", want: `8: jails.x.limit: a limit of 100000 in 1s needs max_memory of at least 251MiB`},
		{name: "fraction", tail: jail[:10] + "limit = 1.5\nwindow = \"1s\"\nban = \"1s\"", want: `8: jails.x.limit = 1.5: must be a whole number, 0 or more`},
		{name: "required", tail: "[jails.x]", want: `7: jails.x.limit: required, here or in [defaults]
7: jails.x.window: required, here or in [defaults]
7: jails.x.ban: required, here or in [defaults]`},
		{name: "bare duration", tail: "[jails.x]\nlimit = 1\nwindow = 60\nban = \"1s\"", want: `9: jails.x.window = 60: must be in quotes and have a unit, like "60s"`},
		{name: "duration", tail: "[jails.x]\nlimit = 1\nwindow = \"1 minute\"\nban = true", want: `9: jails.x.window = "1 minute": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)
10: jails.x.ban = true: must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`},
		{name: "long", tail: "[jails.x]\nlimit = 1\nwindow = \"8d\"\nban = \"366d\"", want: `9: jails.x.window = "8d": must be from 1s to 1w
10: jails.x.ban = "366d": must be from 1s to 365d`},
		{name: "short", tail: "[jails.x]\nlimit = 1\nwindow = \"0s\"\nban = \"0m\"", want: `9: jails.x.window = "0s": must be from 1s to 1w
10: jails.x.ban = "0m": must be from 1s to 365d`},
		{name: "overflow", tail: "[jails.x]\nlimit = 1\nwindow = \"1s\"\nban = \"99999999999999999999w\"", want: `10: jails.x.ban = "99999999999999999999w": is longer than 292 years`},
		{name: "ladder", tail: "[jails.x]\nlimit = 1\nwindow = \"1s\"\nban = [\n\"1h\",\n\"1d\",\n\"23h\",\n\"2y\", \"2d\"]", want: `13: jails.x.ban = "23h": is shorter than a step before it (1d): a further offence can't shorten the ban
14: jails.x.ban = "2y": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`},
		{name: "no step", tail: "[jails.x]\nlimit = 1\nwindow = \"1s\"\nban = []", want: `10: jails.x.ban = []: must not be empty`},
		{name: "many steps", tail: "[defaults]\nban = [" + strings.Repeat(`"1s",`, 17) + "]", want: `8: defaults.ban = ["1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s"…: has 17 steps: 16 at most, the last holds for all further offences`},
		{name: "remember", top: `remember = "59m"`, want: `1: remember = "59m": must be from 1h to 365d`},
		{name: "jail's remember", tail: jail + `remember = "366d"`, want: `11: jails.x.remember = "366d": must be from 1h to 365d`},
		{name: "remember's type", tail: "[defaults]\nremember = 30", want: `8: defaults.remember = 30: must be in quotes and have a unit, like "30s"`},
		{name: "remember where all is shared", top: `shared_history = true`, tail: jail + "remember = \"1d\"\n[defaults]\nremember = \"1d\"", want: `12: jails.x.remember = "1d": with shared_history there is one history for all jails: put this at the top level
14: defaults.remember = "1d": with shared_history there is one history for all jails: put this at the top level`},
		{name: "shared", top: `shared_history = "yes"`, want: `1: shared_history = "yes": must be true or false, without quotes`},

		// overrides
		{name: "override", tail: jail + "override = [\n{ from = \"203.0.113.0/24\" },\n{ limit = 5 },\n{ from = \"203.0.113.1/24\", limit = -1 },\n{ form = \"::/0\", limit = 1, from = \"2001:db8::/65\" },\n\"203.0.113.0/24\",\n{ from = \"office.example.net\", limit = 1 },\n{ from = \"203.0.113.0/24\", limit = 1 },\n{ from = 5, limit = 1 }, { from = [\"192.0.2.1:80\"], limit = 1 }, { from = \"192.0.2.1:80\", limit = 1 }]",
			want: `12: jails.x.override.limit: required: the limit of clients in that network
13: jails.x.override.from: required: an address, or a range like "203.0.113.0/24"
14: jails.x.override.from = "203.0.113.1/24": has bits set behind the mask, is "203.0.113.0/24" meant?
14: jails.x.override.limit = -1: must be a whole number, 0 or more
15: jails.x.override.from = "2001:db8::/65": is narrower than /64, by which IPv6 clients are counted
15: jails.x.override.form: unknown key, did you mean "from"?
16: jails.x.override = "203.0.113.0/24": must be a table like { from = "203.0.113.0/24", limit = 500 }
17: jails.x.override.from = "office.example.net": must be one address, or one range like "203.0.113.0/24"
18: jails.x.override.from = "203.0.113.0/24": is listed twice
19: jails.x.override.from = 5: must be text in quotes
19: jails.x.override.from = ["192.0.2.1:80"]: must be text in quotes
19: jails.x.override.from = "192.0.2.1:80": must be an address without a port`},
		{name: "no override", tail: jail + `override = []`, want: `11: jails.x.override = []: must not be empty`},
		{name: "many overrides", tail: jail + "override = [" + overrides(101) + "]", want: `11: jails.x.override = [{…}, {…}, {…}, {…}, {…}, {…}, {…}, {…}, {…}, {…}, {…}, {…}…: has 101 networks: 100 at most`},
		{name: "default override", tail: "[defaults]\noverride = []", want: `8: defaults.override = []: other limits have no default: put them into the jail whose limit they replace`},
		{name: "override beyond the memory", tail: jail + "override = [\n{ from = \"192.0.2.1\", limit = 9 },\n{ from = \"203.0.113.0/24\", limit = 100000 }]", want: `13: jails.x.override.limit: a limit of 100000 in 1s needs max_memory of at least 251MiB`},
		{name: "unknown log", tail: jail + `log = "ngnix"`, want: `11: jails.x.log = "ngnix": there is no log of this name, did you mean "nginx"?`},
		{name: "no log", tail: jail + `log = []`, want: `11: jails.x.log = []: must not be empty`},
		{name: "log twice", tail: jail + `log = ["nginx", "nginx"]`, want: `11: jails.x.log = "nginx": is listed twice`},
		{name: "unknown action", tail: jail + "actions = [\n\"log\",\n\"cdn\",\n]", want: `13: jails.x.actions = "cdn": there is no action of this name (known: log)`},
		{name: "jail's mode", tail: jail + `mode = "off"`, want: `11: jails.x.mode = "off": must be "enforce" or "observe"`},
		{name: "default condition", tail: "[defaults]\nwhere = { path = \"/\" }", want: `8: defaults.where = {…}: conditions have no default: put them into the jail`},
		{name: "default limit", tail: "[defaults]\nlimit = \"x\"\n[jails.x]\nwindow = \"1s\"\nban = \"1s\"", want: `8: defaults.limit = "x": must be a whole number, 0 or more`},
		{name: "default log", tail: "[defaults]\nlog = \"a\"", want: `8: defaults.log = "a": there is no log of this name (known: nginx)`},

		// conditions
		{name: "path", tail: jail + `where.path = ["sign-in", "/a?b", "/*/x"]`, want: `11: jails.x.where.path = "sign-in": a path begins with "/", a regular expression with "~"
11: jails.x.where.path = "/a?b": paths are matched without query and fragment: a pattern with ? or # never matches
11: jails.x.where.path = "/*/x": "*" stands at the end only ("/x/*"): use "~" and a regular expression`},
		{name: "regular expression", tail: jail + "[jails.x.where]\npath = '~('", want: "12: jails.x.where.path = \"~(\": not a regular expression (RE2 syntax): error parsing regexp: missing closing ): `(`"},
		{name: "path twice", tail: jail + `where.path = ["/a", "/a"]`, want: `11: jails.x.where.path = "/a": is listed twice`},
		{name: "method", tail: jail + `where.method = ["post", "GET /"]`, want: `11: jails.x.where.method = "post": is compared with regard to case, is "POST" meant?
11: jails.x.where.method = "GET /": must be a method like "POST"`},
		{name: "protocol", tail: jail + `where.protocol = ["http/1.1", "HTTP/1.1.1", "HTTP/", "HTTP/2", "HTTP/1x1", "h2"]`, want: `11: jails.x.where.protocol = "http/1.1": must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"
11: jails.x.where.protocol = "HTTP/1.1.1": must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"
11: jails.x.where.protocol = "HTTP/": must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"
11: jails.x.where.protocol = "HTTP/1x1": must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"
11: jails.x.where.protocol = "h2": must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"`},
		{name: "status", tail: jail + `where.status = [404, 99, "6xx", "5xx", "500-599", true]`, want: `11: jails.x.where.status = 99: a status is a number (404), a class ("4xx") or a range ("500-599"), between 100 and 599
11: jails.x.where.status = "6xx": a status is a number (404), a class ("4xx") or a range ("500-599"), between 100 and 599
11: jails.x.where.status = "500-599": is listed twice
11: jails.x.where.status = true: a status is a number (404), a class ("4xx") or a range ("500-599"), between 100 and 599`},
		{name: "no status", tail: jail + `where.status = []`, want: `11: jails.x.where.status = []: must not be empty`},
		{name: "empty agent", tail: jail + `where.agent = ""`, want: `11: jails.x.where.agent = "": must not be empty`},
		{name: "empty not", tail: jail + `where.not = {}`, want: `11: jails.x.where.not: must not be empty`},
		{name: "where's type", tail: jail + `where = "/"`, want: `11: jails.x.where = "/": must be a table: [jails.x.where]`},

		// deny and wanted
		{name: "deny", tail: "[deny]", want: `7: deny.ban: required, here or in [defaults]
7: deny.agents: required, or else from: who is banned at first sight`},
		{name: "nobody denied", tail: "[deny]\nban = \"1d\"\nagents = []", want: `9: deny.agents = []: must not be empty`},
		{name: "no address denied", tail: "[deny]\nban = \"1d\"\nfrom = []", want: `9: deny.from = []: must not be empty`},
		{name: "denied addresses", tail: "[deny]\nban = \"1d\"\nfrom = [\"192.0.2.1/24\", \"evil.example.net\", \"0.0.0.0/0\"]", want: `9: deny.from = "192.0.2.1/24": has bits set behind the mask, is "192.0.2.0/24" meant?
9: deny.from = "evil.example.net": host names can be in allow only
9: deny.from = "0.0.0.0/0": is every address there is`},
		{name: "wanted", tail: "[wanted.up]", want: `7: wanted.up.agent: required: text that occurs in the user agent
7: wanted.up.agent_only: must be true: proof by address or DNS is not supported yet
7: wanted.up.limit: required
7: wanted.up.window: required`},
		{name: "proof", tail: strings.Replace(want, "true", "false", 1), want: `9: wanted.up.agent_only = false: must be true: proof by address or DNS is not supported yet`},
		{name: "proof's type", tail: strings.Replace(want, "true", `"yes"`, 1), want: `9: wanted.up.agent_only = "yes": must be true or false, without quotes`},

		// actions
		{name: "no type", tail: "[actions.fw]\nports = \"all\"", want: `7: actions.fw.type: required: "nftables" or "log"`},
		{name: "type", tail: "[actions.fw]\ntype = \"iptables\"", want: `8: actions.fw.type = "iptables": must be "nftables" or "log"`},
		{name: "ports of a log", tail: "[actions.l]\ntype = \"log\"\nports = [80]", want: `9: actions.l.ports = [80]: is for type = "nftables" only`},
		{name: "ports", tail: fw + `ports = [80, 0, 65536, "http", 80]`, want: `9: actions.fw.ports = 0: must be from 1 to 65535
9: actions.fw.ports = 65536: must be from 1 to 65535
9: actions.fw.ports = "http": must be a port number, or "all" in place of the list
9: actions.fw.ports = 80: is listed twice`},
		{name: "no ports", tail: fw + `ports = []`, want: `9: actions.fw.ports = []: must not be empty: "all" means every port`},
		{name: "table", tail: fw + `table = "tail-ban"`, want: `9: actions.fw.table = "tail-ban": must be 1 to 31 lower-case letters, digits and _, not beginning with a digit`},
		{name: "table of another action", tail: fw + "[actions.b]\ntype = \"nftables\"\ntable = \"tailban\"", want: `11: actions.b.table: uses table "tailban", which actions.fw uses as well`},
		{name: "default table of another action", tail: fw + "[actions.b]\ntype = \"nftables\"", want: `9: actions.b: uses table "tailban", which actions.fw uses as well`},
		{name: "reconcile", tail: fw + `reconcile = "2h"`, want: `9: actions.fw.reconcile = "2h": must be from 1s to 1h`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := base + tt.tail
			if tt.top != "" {
				doc = tt.top + "\n" + doc
			}
			check(t, doc, nil, "jails.toml:"+strings.ReplaceAll(tt.want, "\n", "\njails.toml:"))
		})
	}
}

// hostNames lists n of them.
func hostNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\"h%d.example\",", i)
	}
	return b.String()
}

// overrides lists n networks.
func overrides(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{ from = \"192.0.2.%d\", limit = 5 },", i)
	}
	return b.String()
}

// check parses the document and compares all problems.
func check(t *testing.T, doc string, env []string, want string) {
	t.Helper()
	c, err := Parse("jails.toml", []byte(doc), env)
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatalf("Parse: %v, %v; want problems", c, err)
	}
	if c != nil {
		t.Errorf("a configuration beside problems: %+v", c)
	}
	if got := ps.Error(); got != want {
		t.Errorf("problems of\n%s\ngot\n%s\nwant\n%s", doc, got, want)
	}
}
