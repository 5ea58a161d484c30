package parser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

type truthLine struct {
	File   string  `json:"file"`
	LineNo int     `json:"lineno"`
	Peer   string  `json:"peer"`
	Client *string `json:"client"`
	Desc   string  `json:"desc"`
	Sent   float64 `json:"sent"`
}

// Lines that real servers wrote, against what happened on the wire.
func TestRealServers(t *testing.T) {
	dir := corpus.Path(t, "corpus", "access", "real")
	resolver := NewResolver(prefixes("198.51.100.7/32", "10.0.0.0/8", "fd00::/8"))
	formats := map[string]string{
		"nginx/combined.log":  "combined",
		"nginx/main.log":      "nginx",
		"apache/combined.log": "combined",
		"apache/common.log":   "common",
	}
	truth := readTruth(t, filepath.Join(dir, "truth.jsonl"))
	for file, name := range formats {
		t.Run(file, func(t *testing.T) {
			format, err := NewFormat(name)
			if err != nil {
				t.Fatal(err)
			}
			lines := readLines(t, filepath.Join(dir, file))
			parsed := 0
			for i, line := range lines {
				want, ok := truth[file][i+1]
				if !ok {
					t.Fatalf("no truth for line %d", i+1)
				}
				var ev Event
				if err := format.Parse(line, false, &ev); err != nil {
					t.Errorf("line %d (%s): %v", i+1, want.Desc, err)
					continue
				}
				parsed++
				if ev.Peer.String() != want.Peer {
					t.Errorf("line %d (%s): peer %v, want %s", i+1, want.Desc, ev.Peer, want.Peer)
				}
				// nginx writes the time of the end of a request, Apache that
				// of its beginning; timeouts among them take ten seconds.
				if d := time.Unix(0, ev.Time).Sub(time.Unix(0, int64(want.Sent*1e9))); d < -2*time.Second || d > 12*time.Second {
					t.Errorf("line %d (%s): time is off by %v", i+1, want.Desc, d)
				}
				if !format.Fields().Has(FieldForward) {
					continue
				}
				// The truth names private addresses as clients; the order of
				// exceptions has them count for nobody.
				wantClient := ""
				if want.Client != nil && canBeClient(mustAddr(t, *want.Client)) {
					wantClient = *want.Client
				}
				client, how := resolver.Resolve(ev.Peer, ev.Forward)
				got := ""
				if how == Direct || how == Forwarded {
					got = client.String()
				}
				if got != wantClient {
					t.Errorf("line %d (%s): client %q (%s), want %q", i+1, want.Desc, got, how, wantClient)
				}
			}
			t.Logf("%s: %d of %d lines parsed", file, parsed, len(lines))
		})
	}
}

// Collected combined logs: whatever parses starts with the address that the
// event has; the share is printed.
func TestCollectedCombined(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus.Path(t, "corpus", "access", "combined"), "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, file := range files {
		lines := readLines(t, file)
		name, _ := Detect(lines)
		if name == "" {
			t.Logf("%-45s   0 of %4d parsed", filepath.Base(file), len(lines))
			continue
		}
		format, err := NewFormat(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed, other := 0, 0
		for i, line := range lines {
			var ev Event
			err := format.Parse(line, false, &ev)
			if errors.Is(err, ErrNotMine) {
				other++
				continue
			}
			if err != nil {
				t.Logf("%s:%d: %v: %.120q", filepath.Base(file), i+1, err, line)
				continue
			}
			parsed++
			word, rest, _ := bytes.Cut(line, []byte(" "))
			if a, ok := ParseAddr(word); !ok || a != ev.Peer {
				t.Errorf("%s:%d: peer %v, line begins with %q", filepath.Base(file), i+1, ev.Peer, word)
			}
			if !hasTime(rest, ev.Time) {
				t.Errorf("%s:%d: time %v is not in the line", filepath.Base(file), i+1, time.Unix(0, ev.Time))
			}
		}
		t.Logf("%-45s %4d of %4d parsed as %s, %d no records", filepath.Base(file), parsed, len(lines), name, other)
	}
}

// hasTime reports whether the standard library finds the instant in b.
func hasTime(b []byte, ns int64) bool {
	for i := range b {
		if b[i] == '[' && i+1+len(goCLF) <= len(b) {
			if at, err := time.Parse(goCLF, string(b[i+1:i+1+len(goCLF)])); err == nil && at.UnixNano() == ns {
				return true
			}
		}
	}
	return false
}

func mustAddr(t *testing.T, s string) netip.Addr {
	t.Helper()
	a, ok := ParseAddr([]byte(s))
	if !ok {
		t.Fatalf("%q is no address", s)
	}
	return a
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

func readLines(t *testing.T, path string) [][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out [][]byte
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		out = append(out, bytes.Clone(sc.Bytes()))
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
