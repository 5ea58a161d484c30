package parser

import (
	"bufio"
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

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
