package parser

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// zoneHAProxy is the zone of the real HAProxy logs.
var zoneHAProxy = time.FixedZone("", 3600)

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
