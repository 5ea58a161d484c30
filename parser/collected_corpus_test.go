package parser

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// zoneHAProxy is the zone of the real HAProxy logs.
var zoneHAProxy = time.FixedZone("", 3600)

// ownFormats is for collected logs that a format as their users have it reads
// more of than a preset.
var ownFormats = map[string]any{
	"vhost_combined": `%v ` + apacheCommon,
	"nginx_custom":   `$remote_addr [$time_local] "$request" $status $body_bytes_sent`,
	"bunkerweb":      `$host $remote_addr - $request_id $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`,
	"nginx_proxy_manager": `[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] ` +
		`[Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer"`,
	"nginx_json": JSONFields{Peer: "ip", Time: "date", Target: "path", Status: "status", Host: "host", Referer: "referrer", Agent: "user_agent"},
	"aws_waf":    JSONFields{Peer: "httpRequest.clientIp", Time: "timestamp", TimeForm: "ms", Method: "httpRequest.httpMethod", Target: "httpRequest.uri"},
	"cloudflare_logpush": JSONFields{Peer: "ClientIP", Time: "EdgeStartTimestamp", Method: "ClientRequestMethod", Target: "ClientRequestURI",
		Status: "EdgeResponseStatus", Host: "ClientRequestHost", Agent: "ClientRequestUserAgent"},
}

// misread is collected logs in which the peer is not where a preset takes it to
// be, although that reads most lines.
var misread = map[string]bool{
	"lighttpd": true, // the forwarding header first, then the peer
}

// oracles find the address and the time of a line in another way.
var oracles = map[string]func(line []byte) (peer, at string){
	"common": oracleCLF, "combined": oracleCLF, "nginx": oracleCLF, "gunicorn": oracleCLF, "lighttpd": oracleCLF, "ingress-nginx": oracleCLF, "traefik-clf": oracleCLF,
	"vhost_combined": oracleRegexp(`^\S+ (\S+) .*? ?\[([^]]+)\] "`),
	"haproxy":        oracleRegexp(`(?:^|: )(\S+):\d+ \[([^]]+)\] `),
	"squid":          oracleRegexp(`^\S+ +\d+ (\S+) (?:.*)()`),
	"caddy":          oracleCaddy, "traefik": oracleTraefik,
}

var oracleCLF = oracleRegexp(`^(\S+) .*? ?\[([^]]+)\] "`)

// Collected logs, each file read by the preset that reads most of it or by its
// own format: what parses has the address and the time that another reading of
// the line finds, and the shares are those in docs/formats.md.
func TestCollectedLogs(t *testing.T) {
	root := corpus.Path(t, "corpus", "access")
	doc, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, dir := range dirs {
		if !dir.IsDir() || dir.Name() == "real" {
			continue
		}
		row := measureCollected(t, filepath.Join(root, dir.Name()))
		rows++
		if !strings.Contains(string(doc), "\n"+row+"\n") {
			t.Errorf("docs/formats.md lacks:\n%s", row)
		}
	}
	_, table, _ := strings.Cut(string(doc), "\n| collected logs |")
	if got := strings.Count(table, "\n|") - 1; got != rows {
		t.Errorf("the table in docs/formats.md has %d rows, there are %d folders", got, rows)
	}
}

// collectedFormat returns the format that reads most of a log, if one does, and
// what the documentation calls it.
func collectedFormat(t *testing.T, folder string, lines [][]byte) (Format, string) {
	name, n := Detect(lines)
	if own := ownFormats[folder]; own != nil {
		format, err := (&realLog{format: own}).make()
		if err != nil {
			t.Fatal(err)
		}
		hits := 0
		for _, line := range lines {
			var ev Event
			if format.Parse(line, false, &ev) == nil {
				hits++
			}
		}
		if _, ok := own.(JSONFields); hits > n && ok {
			return format, "`json` with fields"
		} else if hits > n {
			return format, "its own format"
		}
	}
	if n == 0 || misread[folder] {
		return nil, ""
	}
	format, err := NewPreset(name, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return format, "`" + name + "`"
}

// measureCollected reads the logs in a folder and returns its row of the table.
func measureCollected(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs in %s: %v", dir, err)
	}
	var names []string
	records, parsed := 0, 0
	for _, file := range files {
		lines := readLines(t, file)
		format, name := collectedFormat(t, filepath.Base(dir), lines)
		hits := 0
		for i, line := range lines {
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			records++
			var ev Event
			if format == nil {
				continue
			}
			if err := format.Parse(line, false, &ev); err != nil {
				if !errors.Is(err, ErrNotMine) {
					t.Logf("%s:%d: %s: %v: %.80q", filepath.Base(file), i+1, name, err, line)
				}
				continue
			}
			hits++
			if oracle := oracles[strings.Trim(name, "`")]; oracle != nil {
				peer, at := oracle(line)
				if a, ok := parsePeer([]byte(peer)); !ok || a != ev.Peer {
					t.Errorf("%s:%d: peer %v, want %q", filepath.Base(file), i+1, ev.Peer, peer)
				}
				if at != "" && !sameTime(at, ev.Time) {
					t.Errorf("%s:%d: time %v, want %q", filepath.Base(file), i+1, time.Unix(0, ev.Time).UTC(), at)
				}
			}
		}
		if parsed += hits; hits > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		names = []string{"not read"}
	}
	return fmt.Sprintf("| %s | %s | %d of %d |", filepath.Base(dir), strings.Join(names, ", "), parsed, records)
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
