package parser

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// readOnly is a clf without its quick way.
type readOnly struct{ clf }

func (f *readOnly) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	return f.read(line, cut, ev)
}

// Whatever the line, the quick way reads it as the other one does, or leaves
// it to that.
func FuzzCLFQuick(f *testing.F) {
	const at = ` - - [05/Mar/2026:10:00:01 +0100] `
	for _, line := range []string{
		`192.0.2.1` + at + `"GET /a?b HTTP/1.1" 200 12 "-" "x" "-"`,
		`2001:db8::9` + at + `"POST /in HTTP/2.0" 401 5 "https://a.example/" "curl/8" "198.51.100.1, 198.51.100.2"`,
		`::ffff:192.0.2.1` + at + `"HEAD / HTTP/1.0" 304 - "-" "x" "-"`,
		`192.0.2.1%eth0` + at + `"GET  HTTP/1.1" 200 0 "" "" ""`,
		`192.0.2.01` + at + `"GET / HTTP/3.0" 200 123456789012345678 "-" "x" "-" more`,
		`256.0.2.1` + at + `"GET /a b HTTP/1.1 HTTP/1.1" 200 1234567890123456789 "-" "x"`,
		`192.0.2.1` + at + `"GET HTTP/1.1" 200 12`,
		`192.0.2.1` + at + `"POSTS / HTTP/1.1" 200 12 `,
		`192.0.2.1` + at + `"GET / HTTP/1.1" 20x 12`,
		`192.0.2.1` + at + `"GET /\" HTTP/1.1" 200 12 "\"" "\\" "a"b`,
		`192.0.2.1` + at + `"HTTP/1.1" 200 12 "-"  "-"`,
		`192.0.2.1` + at + `"GET   HTTP/1.1" 200 12 "-""-"`,
		`1234::` + at + `"GET /x HTTP/1.1" 200 12 - -`,
		`192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`,
		`192.0.2.1` + ` - - [05/Mar/2026:10:00:61 +0100] ` + `"GET / HTTP/1.1" 200 5 "-" "x"`,
		`192.0.2.1` + at + `"-" 400 0 "-" "-" "-"`,
		`192.0.2.1` + at + `"" 400 0 "-" "-" "-"`,
		`192.0.2.1` + at + `"\x16\x03\x01" 400 0 "-" "-" "-"`,
	} {
		f.Add([]byte(line), false)
		f.Add([]byte(line), true)
		f.Add([]byte(line[:len(line)-1]), false)
	}
	var quick, all [clfForward + 1]clf
	for i := range quick {
		quick[i].fields, all[i].fields = clfFields(i), clfFields(i)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut bool) {
		for i := range quick {
			var got, want Event
			gotErr := quick[i].Parse(line, cut, &got)
			wantErr := (&readOnly{all[i]}).Parse(line, cut, &want)
			if gotErr != wantErr || gotErr == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("%v, %v\n%#v\n%#v", gotErr, wantErr, got, want)
			}
			if got.Peer != want.Peer {
				t.Fatalf("peer %v, want %v", got.Peer, want.Peer)
			}
		}
	})
}

// All that differ in up to two bytes from a protocol are tried.
func TestKnownProtocol(t *testing.T) {
	known := []string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"}
	var text [8]byte
	try := func() {
		if got, want := knownProtocol(binary.LittleEndian.Uint64(text[:])), slices.Contains(known, string(text[:])); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	}
	for i := range text {
		for j := i + 1; j < len(text); j++ {
			for x := range 256 {
				for y := range 256 {
					copy(text[:], "HTTP/1.1")
					text[i], text[j] = byte(x), byte(y)
					try()
				}
			}
		}
	}
}
