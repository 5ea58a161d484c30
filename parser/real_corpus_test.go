package parser

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// realLog is a log that a real server wrote to odd requests, and what is
// expected of it.
type realLog struct {
	file   string
	format any // a preset's name, a format's text, or JSONFields; nil: no access log

	refused   string         // why such a format is refused; its lines are not read
	bad       map[int]string // lines that don't parse, and why
	forged    map[int]string // lines that a client wrote, with the address they lead to
	rewritten map[int]string // lines in which the server itself put another address; see realRewritten
	cutHeader map[int]bool   // lines whose header the server cut
	why       string         // of no access log
}

const (
	apacheCombined  = apacheCommon + ` "%{Referer}i" "%{User-Agent}i"`
	gunicornXFF     = `%({x-forwarded-for}i)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %(h)s`
	nginxEscapeNone = `log_format none escape=none '` + nginxCombined + `';`
)

func realLogs() []realLog {
	nginx := JSONFields{Peer: "remote_addr", Forward: "xff", Time: "time", Request: "request", Status: "status",
		Bytes: "bytes", Host: "host", Referer: "referer", Agent: "ua", User: "remote_user"}
	nginxMsec := nginx
	nginxMsec.Time, nginxMsec.TimeForm = "msec", "s"
	squid := realRewritten()
	return []realLog{
		{file: "nginx/combined.log", format: "combined"},
		{file: "nginx/combined.log", format: nginxCombined},
		{file: "nginx/main.log", format: "nginx"},
		{file: "nginx/main.log", format: nginxMain},
		{file: "nginx/iso.log", format: `$time_iso8601 $remote_addr "$request" $status`},
		{file: "nginx/vhost.log", format: `$host ` + nginxCombined},
		{file: "nginx/proxy_protocol.log", format: `$proxy_protocol_addr ` + nginxCombined},
		{file: "nginx/realip_recursive.log", format: `$remote_addr $realip_remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`},
		{file: "nginx/json.log", format: nginx},
		{file: "nginx/json.log", format: nginxMsec},
		{file: "nginx/json.log", format: `escape=json {"time":"$time_iso8601","msec":$msec,"remote_addr":"$remote_addr","remote_user":"$remote_user","xff":"$http_x_forwarded_for",` +
			`"request":"$request","status":$status,"bytes":$body_bytes_sent,"referer":"$http_referer","ua":"$http_user_agent","host":"$host"}`},
		{file: "nginx/json_default_escape.log", format: nginx},
		{file: "nginx/json_default_escape.log", format: `{"time":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","status":"$status","ua":"$http_user_agent","xff":"$http_x_forwarded_for"}`},
		{file: "nginx/escape_none.log", format: nginxEscapeNone,
			refused: "log format, byte 44 ($remote_user): with escape=none it can hold a line feed, and so a client can write whole lines of this log; use escape=default, or leave it out"},
		{file: "nginx/error.log", why: "an error log: it has no lines for requests that went well"},

		{file: "apache/combined.log", format: "combined"},
		{file: "apache/combined.log", format: apacheCombined},
		{file: "apache/proxy_protocol.log", format: apacheCombined},
		{file: "apache/common.log", format: "common"},
		{file: "apache/common.log", format: apacheCommon},
		{file: "apache/vhost_combined.log", format: "vhost_combined"},
		{file: "apache/vhost_combined.log", format: `%v:%p ` + apacheCombined},
		{file: "apache/json.log", format: JSONFields{Peer: "a", Forward: "xff", Time: "t", Request: "r", Status: "s", Agent: "ua"}},
		{file: "apache/json.log", format: `{"t":"%{%Y-%m-%dT%H:%M:%S%z}t","a":"%h","r":"%r","s":%>s,"ua":"%{User-Agent}i","xff":"%{X-Forwarded-For}i"}`},
		// Header and user name can both hold the " - " between them.
		{file: "apache/xff.log", format: `%{X-Forwarded-For}i %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %a`,
			refused: `log format, byte 0 (%{X-Forwarded-For}i): where it ends cannot be told: it can hold the " " behind it; put quotes around %{X-Forwarded-For}i`},
		{file: "apache/error.log", why: "an error log"},
		{file: "apache/error_remoteip.log", why: "an error log"},

		{file: "caddy/json.log", format: "caddy"},
		{file: "caddy/console.log", why: "made for a terminal: JSON behind text with colours"},
		{file: "caddy/stderr.log", why: "errors of requests that the access log has as well"},

		{file: "haproxy/httplog.log", format: "haproxy"},
		{file: "haproxy/httplog_captures.log", format: "haproxy"},
		{file: "haproxy/httplog_rfc5424.log", format: "haproxy"},
		{file: "haproxy/httplog_accept_proxy.log", format: "haproxy"},
		{file: "haproxy/clf.log", format: "combined", bad: map[int]string{28: "cut by HAProxy in the request"}},
		{file: "haproxy/json.log", format: JSONFields{Peer: "c", Forward: "xff", Time: "t", Request: "r", Status: "st", Agent: "ua"}, cutHeader: map[int]bool{94: true}},
		{file: "haproxy/tcplog.log", why: "connections without their requests"},
		{file: "haproxy/default_nolog_format.log", why: "connections without their requests"},

		{file: "gunicorn/default.log", format: "gunicorn", bad: gunicornHalves(9, 85, 87),
			forged: map[int]string{10: "198.51.100.99", 86: "198.51.100.99", 88: "198.51.100.99"}},
		{file: "gunicorn/xff.log", format: gunicornXFF,
			refused: "log format, byte 0 (%(): this is a format of gunicorn's, whose values are not escaped as Apache's are; have it write its default, with a dash for %(u)s, and give format = \"gunicorn\""},

		{file: "squid/native.log", format: "squid"},
		{file: "squid/common.log", format: "squid-common"},
		{file: "squid/combined.log", format: "squid-combined"},
		{file: "squid/native_follow_xff.log", format: "squid", rewritten: squid},
		{file: "squid/common_follow_xff.log", format: "squid-common", rewritten: squid},
		{file: "squid/combined_follow_xff.log", format: "squid-combined", rewritten: squid},
	}
}

// gunicornHalves is lines that end in the user's name, with its line feed.
func gunicornHalves(lines ...int) map[int]string {
	m := map[int]string{}
	for _, n := range lines {
		m[n] = "the beginning of a line that goes on in the next"
	}
	return m
}

// realRewritten is the lines for which Squid, told to follow the header, logs
// what is no client: it reads octal and hexadecimal numbers and believes in
// private addresses. Its other lines have the peer or the client.
func realRewritten() map[int]string {
	return map[int]string{85: "203.0.113.54", 86: "127.0.0.1", 89: "0.0.0.0", 90: "127.0.0.1"}
}

// realServers is the servers all of whose logs must be listed.
var realServers = []string{"nginx", "apache", "caddy", "haproxy", "gunicorn", "squid"}

// Every log of real servers, in the format that its user would give: each line
// leads to the peer, the time and the client that the wire saw, and no line to
// any other address, but for those that the list names.
func TestRealServers(t *testing.T) {
	dir := corpus.Path(t, "corpus", "access", "real")
	truth := readTruth(t, filepath.Join(dir, "truth.jsonl"))
	unlisted := map[string]bool{}
	for _, server := range realServers {
		files, err := filepath.Glob(filepath.Join(dir, server, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			unlisted[server+"/"+filepath.Base(file)] = true
		}
	}
	for _, log := range realLogs() {
		delete(unlisted, log.file)
		t.Run(log.file, func(t *testing.T) {
			lines, truth := readLines(t, filepath.Join(dir, log.file)), truth[log.file]
			switch {
			case log.format == nil:
				checkNoAccessLog(t, lines, log.why)
			case log.refused != "":
				if _, err := log.make(); err == nil || err.Error() != log.refused {
					t.Errorf("error %v, want %s", err, log.refused)
				}
			default:
				log.check(t, lines, truth)
			}
		})
	}
	if len(unlisted) > 0 {
		t.Errorf("logs that realLogs does not list: %s", strings.Join(slices.Sorted(maps.Keys(unlisted)), ", "))
	}
}

func (l *realLog) make() (Format, error) {
	switch f := l.format.(type) {
	case JSONFields:
		return NewJSON(f)
	case string:
		return New(f, Options{Zone: zoneHAProxy})
	}
	return nil, nil
}

func (l *realLog) check(t *testing.T, lines [][]byte, truth map[int]truthLine) {
	format, err := l.make()
	if err != nil {
		t.Fatal(err)
	}
	resolver := NewResolver(prefixes("198.51.100.7/32", "10.0.0.0/8", "fd00::/8"))
	parsed, partial := 0, 0
	for i, line := range lines {
		n := i + 1
		want, ok := truth[n]
		if !ok {
			t.Fatalf("no truth for line %d", n)
		}
		var ev Event
		err := format.Parse(line, false, &ev)
		if (err != nil) != (l.bad[n] != "") {
			t.Errorf("line %d (%s): %v, want %q: %.200q", n, want.Desc, err, l.bad[n], line)
		}
		if !l.rightPeer(n, &ev, want) && (err == nil || ev.Peer.IsValid()) {
			t.Errorf("line %d (%s): peer %v, want %s", n, want.Desc, ev.Peer, want.Peer)
		}
		if err != nil {
			continue
		}
		parsed++
		if ev.Partial {
			partial++
		}
		// Some servers write the time of the end of a request, others that of its
		// beginning; timeouts among them take ten seconds.
		if d := time.Unix(0, ev.Time).Sub(time.Unix(0, int64(want.Sent*1e9))); d < -2*time.Second || d > 12*time.Second {
			t.Errorf("line %d (%s): time is off by %v", n, want.Desc, d)
		}
		if format.Fields().Has(FieldForward) && !ev.Partial && !l.cutHeader[n] {
			checkClient(t, n, resolver, &ev, want)
		}
	}
	t.Logf("%d of %d lines parsed, %d of them cut by the server, %d forged", parsed, len(lines), partial, len(l.forged))
}

// rightPeer reports whether a line leads to the address that it should.
func (l *realLog) rightPeer(n int, ev *Event, want truthLine) bool {
	got := ev.Peer.String()
	if a, ok := l.forged[n]; ok {
		return got == a
	}
	if l.rewritten == nil {
		return got == want.Peer
	}
	if a, ok := l.rewritten[n]; ok {
		return got == a
	}
	return got == want.Peer || want.Client != nil && got == *want.Client
}

// checkClient checks what a resolver makes of an event. The truth names private
// addresses as clients; for us these are nobody.
func checkClient(t *testing.T, line int, r *Resolver, ev *Event, want truthLine) {
	t.Helper()
	wantClient := ""
	if want.Client != nil && canBeClient(mustAddr(t, *want.Client)) {
		wantClient = *want.Client
	}
	client, how := r.Resolve(ev.Peer, ev.Forward)
	got := ""
	if how == Direct || how == Forwarded {
		got = client.String()
	}
	if got != wantClient {
		t.Errorf("line %d (%s): client %q (%s) of %q, want %q", line, want.Desc, got, how, ev.Forward, wantClient)
	}
}

// checkNoAccessLog checks that no preset takes a line for a request.
func checkNoAccessLog(t *testing.T, lines [][]byte, why string) {
	for _, name := range FormatNames() {
		format, err := NewPreset(name, zoneHAProxy)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range lines {
			var ev Event
			if err := format.Parse(line, false, &ev); err == nil {
				t.Errorf("line %d accepted as %s, but it is no access log (%s): %.200q", i+1, name, why, line)
			}
		}
	}
}

type truthLine struct {
	File   string  `json:"file"`
	LineNo int     `json:"lineno"`
	Peer   string  `json:"peer"`
	Client *string `json:"client"`
	Desc   string  `json:"desc"`
	Sent   float64 `json:"sent"`
}

func readTruth(t *testing.T, path string) map[string]map[int]truthLine {
	t.Helper()
	out := map[string]map[int]truthLine{}
	for _, l := range readLines(t, path) {
		var tl truthLine
		if err := json.Unmarshal(l, &tl); err != nil {
			t.Fatal(err)
		}
		if out[tl.File] == nil {
			out[tl.File] = map[int]truthLine{}
		}
		out[tl.File][tl.LineNo] = tl
	}
	return out
}
