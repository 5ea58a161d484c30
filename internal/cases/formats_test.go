package cases

import (
	"strings"
	"testing"
)

// The whole first column is the address, whatever stands in front or behind.
func wholeAddress(t *testing.T) {
	line := func(addr, agent string) string {
		return "shop.example.org:443 " + addr + ` - - [12/Mar/2026:08:00:01 +0000] "POST /login HTTP/1.1" 401 0 "-" "` + agent + "\"\n"
	}
	conf := failures(`format = "vhost_combined"`, "1")
	o := run(t, conf, line("198.51.100.172", "72 203.0.113.1 - -")+line("198.51.100.172", "2"))
	o.wants(t, "198.51.100.172/32")
	o = run(t, conf, line("2001:db8:77:1287::1:1", "x")+line("2001:db8:77:1287::1:1", "x")+line("9034", "x")+line("172", "x"))
	o.wants(t, "2001:db8:77:1287::/64")
	o.says(t, "unparsed      2")
	// No free pattern finds an address: there is no such key.
	refuses(t, failures(`pattern = '.*<HOST> - -'`, "1"), `jails.toml:4: logs.a.pattern: unknown key (known: files, journal, syslog, stdin, fifo, from_users, allow_from, timezone, header, peer, format, fields, max_line, from, max_files, allow_insecure, container, users_checked, after_unparsed)`)
}

// A line feed in a user name, written as it is, makes a half line and a whole
// one of somebody else.
func lineFeedInUserName(t *testing.T) {
	forged := strings.Repeat("198.51.100.10 - root\n203.0.113.99 - admin [12/Mar/2026:08:00:01 +0100] \"GET /secret/ HTTP/1.1\" 401 3 \"-\" \"x\"\n", 3)
	o := run(t, failures("", "2"), forged)
	o.says(t, "unparsed      3 (50.00 %)")
	o.says(t, "access.log:1: malformed time")

	o = run(t, failures(`after_unparsed = "skip"`, "2"), forged)
	o.wants(t)
	o.says(t, "unparsed      6 (100.00 %)")
	o.says(t, "access.log:2: follows a line that doesn't parse")
}

// Without a trusted proxy the header means nothing.
func headerOfAStranger(t *testing.T) {
	line := `{"level":"info","ts":1773302401.5,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"203.0.113.9","remote_port":"41","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"POST","host":"example.org","uri":"/login","headers":{"X-Forwarded-For":["198.51.100.1"],"User-Agent":["x"]}},"status":401}` + "\n"
	o := run(t, failures(`format = "caddy"`, "2"), strings.Repeat(line, 3))
	o.wants(t, "203.0.113.9/32")
}

// Which header names the client is the user's choice, and the proxy is never
// banned in his place.
func clientBehindTwoProxies(t *testing.T) {
	conf := `trusted_proxies = ["198.51.100.0/24", "172.16.0.0/12"]` + failures("format = \"json\"\n"+
		`fields = { peer = "ClientAddr", time = "StartUTC", method = "RequestMethod", target = "RequestPath", status = "DownstreamStatus", forward = "request_Cf-Connecting-Ip" }`, "2")
	line := func(second string) string {
		return `{"ClientAddr":"198.51.100.20:10884","ClientHost":"198.51.100.20","DownstreamStatus":401,"RequestMethod":"POST","RequestPath":"/login",` +
			`"request_Cf-Connecting-Ip":"203.0.113.44","request_X-Forwarded-For":"192.0.2.1, 203.0.113.44","StartUTC":"2026-03-12T08:00:0` + second + `Z","time":"2026-03-12T09:00:0` + second + "+01:00\"}\n"
	}
	o := run(t, conf, line("1")+line("2")+line("3"))
	o.wants(t, "203.0.113.44/32")

	// Traefik's own resolving, which is a list where it trusts several.
	preset := `trusted_proxies = ["198.51.100.0/24", "172.16.0.0/12"]` + failures(`format = "traefik"`, "2")
	list := `{"ClientAddr":"172.20.0.3:41388","ClientHost":"203.0.113.44,198.51.100.21","DownstreamStatus":401,"RequestMethod":"POST","RequestPath":"/login","StartUTC":"2026-03-12T08:00:09Z"}` + "\n"
	o = run(t, preset, strings.Repeat(list, 3)+strings.Replace(strings.Repeat(list, 3), "203.0.113.44,", "", 3))
	o.wants(t, "203.0.113.44/32")
}

// The address of a connection had another name in older logs of Caddy, which
// has its port: such a log says where it is.
func olderCaddy(t *testing.T) {
	o := run(t, failures(`format = "caddy"`, "0"), `{"level":"info","ts":1773302400.9599843,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"203.0.113.9","remote_port":"10251","proto":"HTTP/1.1","method":"HEAD","host":"example.org","uri":"/.env","headers":{"User-Agent":["curl/8.2.1"]}},"user_id":"","duration":4.9e-05,"size":0,"status":404}`+"\n")
	o.wants(t, "203.0.113.9/32")
	o = run(t, failures(`format = "caddy"`, "0"), `{"ts":1773302401.1,"request":{"remote_addr":"[2001:db8::9]:10252","method":"GET","host":"example.org","uri":"/.env"},"status":404}`+"\n")
	o.wants(t, "2001:db8::/64")
}

// Proxies and the machine itself are never banned, and who can't tell clients
// apart is told so.
func proxyWithoutHeader(t *testing.T) {
	var b strings.Builder
	for _, addr := range []string{"198.51.100.20", "198.51.100.21", "127.0.0.1", "::1", "127.7.7.7"} {
		b.WriteString(strings.Repeat(addr+" - - [12/Mar/2026:08:00:01 +0000] \"POST /login HTTP/1.1\" 401 0 \"-\" \"x\"\n", 4))
	}
	o := run(t, `trusted_proxies = "198.51.100.0/24"`+failures("", "1"), b.String())
	o.wants(t)
	const want = `jails.toml:2: logs.a.format: format "combined" has no forwarding header: requests through trusted proxies count for nobody`
	if len(o.warnings) != 1 || o.warnings[0] != want {
		t.Errorf("warnings %q, want %q", o.warnings, want)
	}
}

// Bytes that are no UTF-8 are bytes.
func notUTF8(t *testing.T) {
	conf := failures("", "0")
	line := func(addr, user, agent string) string {
		return addr + " - " + user + ` [12/Mar/2026:08:00:01 +0000] "GET /` + agent + ` HTTP/1.1" 401 0 "-" "` + agent + "\"\n"
	}
	o := run(t, conf, line("203.0.113.38", "\xe9\xff", "x")+line("203.0.113.39", "-", "\xc3\x28\xff\xfe")+line("203.0.113.40", "-", "plain"))
	o.wants(t, "203.0.113.38/32", "203.0.113.39/32", "203.0.113.40/32")
	o.says(t, "unparsed      0")
}

// A carriage return in front of the line feed is no part of the line.
func carriageReturns(t *testing.T) {
	line := func(addr, agent string) string {
		return addr + ` - - [12/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 401 0 "-" "` + agent + `"`
	}
	conf := failures("", "9") + "[deny]\nagents = \"sqlmap\"\nban = \"1d\"\n"
	o := run(t, conf, line("203.0.113.41", "sqlmap")+"\r\n"+line("203.0.113.42", "sqlmap")+"\n"+line("203.0.113.43", "sqlmap")+"\r")
	o.wants(t, "203.0.113.41/32", "203.0.113.42/32", "203.0.113.43/32")
	// Where the last field has no quotes, it ends with the line.
	o = run(t, failures(`format = '$remote_addr [$time_local] $status'`, "0"), "203.0.113.44 [12/Mar/2026:08:00:01 +0000] 401\r\n")
	o.wants(t, "203.0.113.44/32")
}

// A byte order mark at the beginning, of a log and of the configuration.
func byteOrderMark(t *testing.T) {
	conf := "\ufeff" + strings.ReplaceAll(strings.TrimLeft(failures("", "0"), "\n"), "\n", "\r\n")
	line := func(addr string) string {
		return addr + ` - - [12/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 401 0 "-" "x"` + "\n"
	}
	o := run(t, conf, "\ufeff"+line("203.0.113.45")+line("203.0.113.46"))
	o.wants(t, "203.0.113.45/32", "203.0.113.46/32")
	o.says(t, "unparsed      0")
}

// What follows a line of any length is read.
func veryLongLines(t *testing.T) {
	line := func(addr, path string) string {
		return addr + ` - - [12/Mar/2026:08:00:01 +0000] "GET /` + path + ` HTTP/1.1" 401 0 "-" "x"` + "\n"
	}
	o := run(t, failures("", "0"), line("203.0.113.31", strings.Repeat("A", 70_000))+strings.Repeat("B", 3_000_000)+"\n"+
		line("203.0.113.33", strings.Repeat("C", 300_000))+line("203.0.113.32", "login"))
	// The third is longer than max_line: its status is not known.
	o.wants(t, "203.0.113.31/32", "203.0.113.32/32")
	o.says(t, "unparsed      1 ")
}

// IPv6 clients are counted by /64, of which one who is allowed is left alone.
func neighboursInANetwork(t *testing.T) {
	line := func(addr string) string {
		return addr + ` - - [12/Mar/2026:08:00:01 +0000] "POST /login HTTP/1.1" 401 0 "-" "x"` + "\n"
	}
	lines := line("2001:db8:5:6::1") + line("2001:db8:5:6::2") + line("2001:db8:5:6::3") + line("2001:db8:5:7::1")
	o := run(t, failures("", "2"), lines)
	o.wants(t, "2001:db8:5:6::/64")
	o = run(t, `allow = "2001:db8:5:6::1"`+failures("", "2"), lines+strings.Repeat(line("2001:db8:5:6::3"), 2))
	o.wants(t, "2001:db8:5:6::3/128")
}

// A ban is of a length that the firewall takes, or refused at the start.
func longBans(t *testing.T) {
	with := func(ban string) string { return strings.Replace(failures("", "1"), `"1h"`, ban, 1) }
	line := `203.0.113.51 - - [12/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 401 0 "-" "x"` + "\n"
	o := run(t, with(`"28d"`), line+line)
	o.wants(t, "203.0.113.51/32")
	refuses(t, with(`"366d"`), `jails.toml:9: jails.failures.ban = "366d": must be from 1s to 365d`)
	refuses(t, with(`"-1"`), `jails.toml:9: jails.failures.ban = "-1": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`)
}
