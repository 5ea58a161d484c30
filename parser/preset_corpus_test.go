package parser

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// zoneHAProxy is the zone of the real HAProxy logs.
var zoneHAProxy = time.FixedZone("", 3600)

// Lines of real servers in the formats of this file, against what happened on
// the wire.
func TestRealServersPresets(t *testing.T) {
	dir := corpus.Path(t, "corpus", "access", "real")
	resolver := NewResolver(prefixes("198.51.100.7/32", "10.0.0.0/8", "fd00::/8"))
	truth := readTruth(t, filepath.Join(dir, "truth.jsonl"))
	nginx := JSONFields{Peer: "remote_addr", Forward: "xff", Time: "time", Request: "request", Status: "status",
		Bytes: "bytes", Host: "host", Referer: "referer", Agent: "ua", User: "remote_user"}
	nginxMsec := nginx
	nginxMsec.Time, nginxMsec.TimeForm = "msec", "s"
	apache := JSONFields{Peer: "a", Forward: "xff", Time: "t", Request: "r", Status: "s", Agent: "ua"}
	for _, tt := range []struct {
		file   string
		format func() (Format, error)
		known  map[int]string // lines that are not as they should be, and why
	}{
		{"caddy/json.log", named("caddy"), nil},
		{"nginx/json.log", jsonOf(nginx), nil},
		{"nginx/json.log", jsonOf(nginxMsec), nil},
		{"nginx/json_default_escape.log", jsonOf(nginx), nil},
		{"apache/json.log", jsonOf(apache), nil},
		{"apache/vhost_combined.log", named("vhost_combined"), nil},
		{"haproxy/httplog.log", named("haproxy"), nil},
		{"haproxy/httplog_captures.log", named("haproxy"), nil},
		{"haproxy/httplog_rfc5424.log", named("haproxy"), nil},
		{"haproxy/httplog_accept_proxy.log", named("haproxy"), nil},
		{"haproxy/clf.log", named("combined"), map[int]string{28: "cut by HAProxy in the request, which combined refuses"}},
		{"haproxy/json.log", jsonOf(JSONFields{Peer: "c", Forward: "xff", Time: "t", Request: "r", Status: "st", Agent: "ua"}),
			map[int]string{94: "header cut by HAProxy's capture; its last hops are lost"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			format, err := tt.format()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, tt.file)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("not here: %v", err)
			}
			lines := readLines(t, path)
			parsed, partial := 0, 0
			for i, line := range lines {
				want, ok := truth[tt.file][i+1]
				if !ok {
					t.Fatalf("no truth for line %d", i+1)
				}
				var ev Event
				if err := format.Parse(line, false, &ev); err != nil {
					if why := tt.known[i+1]; why != "" {
						t.Logf("line %d: %v: %s", i+1, err, why)
						continue
					}
					t.Errorf("line %d (%s): %v: %.200q", i+1, want.Desc, err, line)
					continue
				}
				parsed++
				if ev.Partial {
					partial++
				}
				checkTruth(t, i+1, &ev, want)
				if format.Fields().Has(FieldForward) && !ev.Partial && tt.known[i+1] == "" {
					checkClient(t, i+1, resolver, &ev, want)
				}
			}
			t.Logf("%s: %d of %d lines parsed, %d of them cut by the server", tt.file, parsed, len(lines), partial)
		})
	}
}

func checkTruth(t *testing.T, line int, ev *Event, want truthLine) {
	t.Helper()
	if ev.Peer.String() != want.Peer {
		t.Errorf("line %d (%s): peer %v, want %s", line, want.Desc, ev.Peer, want.Peer)
	}
	// Some servers write the time of the end of a request, others that of its
	// beginning; timeouts among them take ten seconds.
	if d := time.Unix(0, ev.Time).Sub(time.Unix(0, int64(want.Sent*1e9))); d < -2*time.Second || d > 12*time.Second {
		t.Errorf("line %d (%s): time is off by %v", line, want.Desc, d)
	}
}

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

func named(name string) func() (Format, error) {
	return func() (Format, error) { return NewPreset(name, zoneHAProxy) }
}

func jsonOf(f JSONFields) func() (Format, error) {
	return func() (Format, error) { return NewJSON(f) }
}

// Lines that say nothing about a request lead to no event and no address but
// the right one.
func TestRealServersOtherLines(t *testing.T) {
	dir := corpus.Path(t, "corpus", "access", "real")
	truth := readTruth(t, filepath.Join(dir, "truth.jsonl"))
	for file, name := range map[string]string{
		"haproxy/tcplog.log":               "haproxy",
		"haproxy/default_nolog_format.log": "haproxy",
		"caddy/console.log":                "caddy",
		"caddy/stderr.log":                 "caddy",
	} {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		format, err := NewPreset(name, zoneHAProxy)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range readLines(t, path) {
			var ev Event
			if err := format.Parse(line, false, &ev); err == nil {
				t.Errorf("%s:%d: accepted: %.200q", file, i+1, line)
			}
			if want, ok := truth[file][i+1]; ok && ev.Peer.IsValid() && ev.Peer.String() != want.Peer {
				t.Errorf("%s:%d: peer %v, want %s", file, i+1, ev.Peer, want.Peer)
			}
		}
	}
}

// Collected logs: the share that parses is printed. What parses has the
// address and the time that another reading of the line finds.
func TestCollectedPresets(t *testing.T) {
	root := corpus.Path(t, "corpus", "access")
	for _, dir := range []struct {
		name, format string
		oracle       func(line []byte) (peer, at string)
	}{
		{"traefik_json", "traefik", oracleTraefik},
		{"caddy_json", "caddy", oracleCaddy},
		{"nginx_json", "nginx-json", oracleNothing},
		{"haproxy", "haproxy", oracleRegexp(`(?:^|: )(\S+):\d+ \[([^]]+)\] `)},
		{"traefik_clf", "traefik-clf", oracleRegexp(`^(\S+) - .*? ?\[([^]]+)\] "`)},
		{"ingress_nginx", "ingress-nginx", oracleRegexp(`^(\S+) - .*? ?\[([^]]+)\] "`)},
		{"lighttpd", "lighttpd", oracleNothing},
		{"vhost_combined", "vhost_combined", oracleRegexp(`^\S+ (\S+) .*? ?\[([^]]+)\] "`)},
	} {
		files, err := filepath.Glob(filepath.Join(root, dir.name, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			format, err := NewPreset(dir.format, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			lines := readLines(t, file)
			parsed, other := 0, 0
			for i, line := range lines {
				var ev Event
				switch err := format.Parse(line, false, &ev); {
				case err == nil:
					parsed++
					peer, at := dir.oracle(line)
					if a, ok := parsePeer([]byte(peer)); !ok || a != ev.Peer {
						t.Errorf("%s:%d: peer %v, want %q", filepath.Base(file), i+1, ev.Peer, peer)
					}
					if !sameTime(at, ev.Time) {
						t.Errorf("%s:%d: time %v, want %q", filepath.Base(file), i+1, time.Unix(0, ev.Time).UTC(), at)
					}
				case errors.Is(err, ErrNotMine):
					other++
				default:
					t.Logf("%s:%d: %v: %.80q", filepath.Base(file), i+1, err, line)
				}
			}
			guess, n := Detect(lines)
			t.Logf("%-45s %3d of %3d parsed as %s, %d no records; guessed: %s (%d)",
				filepath.Base(file), parsed, len(lines), dir.format, other, guess, n)
		}
	}
}

func oracleTraefik(line []byte) (peer, at string) {
	var l struct{ ClientAddr, StartUTC string }
	if json.Unmarshal(line, &l) != nil {
		return "", ""
	}
	return l.ClientAddr, l.StartUTC
}

func oracleCaddy(line []byte) (peer, at string) {
	var l struct {
		TS      json.Number `json:"ts"`
		Request struct {
			Remote string `json:"remote_ip"`
		} `json:"request"`
	}
	if json.Unmarshal(line, &l) != nil {
		return "", ""
	}
	return l.Request.Remote, l.TS.String()
}

// oracleNothing is for logs in formats that only look alike: no line of theirs
// may parse.
func oracleNothing([]byte) (peer, at string) { return "", "" }

func oracleRegexp(expr string) func([]byte) (peer, at string) {
	re := regexp.MustCompile(expr)
	return func(line []byte) (peer, at string) {
		m := re.FindSubmatch(line)
		if m == nil {
			return "", ""
		}
		return string(m[1]), string(m[2])
	}
}

// sameTime reports whether the standard library reads the instant in s, which
// is in UTC if it has no offset.
func sameTime(s string, ns int64) bool {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return math.Abs(f-float64(ns)/1e9) < 1e-6
	}
	for _, layout := range []string{time.RFC3339Nano, goCLF, "02/Jan/2006:15:04:05.000"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.UnixNano() == ns
		}
	}
	return false
}
