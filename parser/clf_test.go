package parser

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func show(ev *Event) string {
	return fmt.Sprintf("%s %s %q %q %q %d %d ref=%q ua=%q user=%q fwd=%q partial=%v", ev.Peer, time.Unix(0, ev.Time).UTC().Format("01-02T15:04:05"),
		ev.Method, ev.Target, ev.Proto, ev.Status, ev.Bytes, ev.Referer, ev.Agent, ev.User, ev.Forward, ev.Partial)
}

func TestCLF(t *testing.T) {
	const at = "[05/Mar/2026:10:00:01 +0100] "
	tests := []struct {
		name, format, line, want string
	}{
		{"common", "common", `192.0.2.1 - - ` + at + `"GET /a?b HTTP/1.1" 200 12`,
			`192.0.2.1 03-05T09:00:01 "GET" "/a?b" "HTTP/1.1" 200 12 ref="" ua="" user="" fwd="" partial=false`},
		{"common, dash for bytes", "common", `192.0.2.1 - - ` + at + `"HEAD / HTTP/1.0" 304 -`,
			`192.0.2.1 03-05T09:00:01 "HEAD" "/" "HTTP/1.0" 304 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"combined", "combined", `2001:db8::9 - bob ` + at + `"POST /in HTTP/2.0" 401 5 "https://a.example/" "curl/8"`,
			`2001:db8::9 03-05T09:00:01 "POST" "/in" "HTTP/2.0" 401 5 ref="https://a.example/" ua="curl/8" user="bob" fwd="" partial=false`},
		{"nginx main", "nginx", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x" "198.51.100.1, 198.51.100.2"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="198.51.100.1, 198.51.100.2" partial=false`},
		{"more fields behind", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x" 0.005 .`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},
		{"user with blanks, brackets and a fake time", "combined", `192.0.2.1 - a [01/Jan/2020:00:00:00 +0000] b ` + at + `"GET / HTTP/1.1" 401 5 "-" "x"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 401 5 ref="" ua="x" user="a [01/Jan/2020:00:00:00 +0000] b" fwd="" partial=false`},
		{"user - with a fake time", "combined", `192.0.2.1 - - [01/Jan/2020:00:00:00 +0000] ` + at + `"GET / HTTP/1.1" 401 5 "-" "x"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 401 5 ref="" ua="x" user="- [01/Jan/2020:00:00:00 +0000]" fwd="" partial=false`},
		{"nginx quotes", "combined", `192.0.2.1 - a\x22b ` + at + `"GET /\x22 HTTP/1.1" 401 5 "-" "\x22 200 1 \x22-\x22"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/\\x22" "HTTP/1.1" 401 5 ref="" ua="\\x22 200 1 \\x22-\\x22" user="a\\x22b" fwd="" partial=false`},
		{"Apache quotes", "combined", `192.0.2.1 - a] \"b ` + at + `"GET /\"x\\ HTTP/1.1" 401 5 "-" "a\\\" \"b\\"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/\\\"x\\\\" "HTTP/1.1" 401 5 ref="" ua="a\\\\\\\" \\\"b\\\\" user="a] \\\"b" fwd="" partial=false`},
		{"blanks in the target", "combined", `192.0.2.1 - - ` + at + `"GET /a b c HTTP/1.1" 400 5 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/a b c" "HTTP/1.1" 400 5 ref="" ua="" user="" fwd="" partial=false`},
		{"unusual method", "combined", `192.0.2.1 - - ` + at + `"G!T'.x /a HTTP/1.1" 200 5 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "G!T'.x" "/a" "HTTP/1.1" 200 5 ref="" ua="" user="" fwd="" partial=false`},
		{"HTTP/0.9", "combined", `192.0.2.1 - - ` + at + `"GET /a" 200 5 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/a" "" 200 5 ref="" ua="" user="" fwd="" partial=false`},
		{"TLS bytes", "combined", `192.0.2.1 - - ` + at + `"\x16\x03\x01\x00 \xC8" 400 157 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "" "\\x16\\x03\\x01\\x00 \\xC8" "" 400 157 ref="" ua="" user="" fwd="" partial=false`},
		{"empty request", "combined", `192.0.2.1 - - ` + at + `"" 408 0 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "" "" "" 408 0 ref="" ua="" user="" fwd="" partial=false`},
		{"dash request and status", "combined", `192.0.2.1 - - ` + at + `"-" - - "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"empty user in quotes", "combined", `192.0.2.1 - "" ` + at + `"GET / HTTP/1.1" 401 5 "-" "-"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 401 5 ref="" ua="" user="\"\"" fwd="" partial=false`},
		{"raw bytes: NUL, invalid UTF-8", "combined", "192.0.2.1 - - " + at + "\"GET /\x00\xff HTTP/1.1\" 400 5 \"-\" \"\xc3(\"",
			`192.0.2.1 03-05T09:00:01 "GET" "/\x00\xff" "HTTP/1.1" 400 5 ref="" ua="\xc3(" user="" fwd="" partial=false`},
		{"CRLF", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"` + "\r",
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},
		{"byte order mark", "combined", "\xEF\xBB\xBF" + `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},
		{"hole of a truncated file", "combined", "\x00\x00\x00\x00" + `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},
		{"mapped peer", "combined", `::ffff:192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`,
			`192.0.2.1 03-05T09:00:01 "GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},

		{"empty", "combined", "", "not a record"},
		{"only CR", "combined", "\r", "not a record"},
		{"comment", "combined", "#Fields: date", "not a record"},
		{"NULs only", "combined", "\x00\x00", "not a record"},
		{"host name", "combined", `www.example.net - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`, "malformed address"},
		{"leading blank", "combined", ` 192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`, "malformed address"},
		{"address and port", "combined", `192.0.2.1:80 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`, "malformed address"},
		{"second half of a split line", "combined", `192.0.2.1 - admin`, "malformed time"},
		{"no time", "combined", `192.0.2.1 - - "GET / HTTP/1.1" 200 5 "-" "x"`, "malformed time"},
		{"bad time", "combined", `192.0.2.1 - - [05/Mar/2026:25:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`, "malformed time"},
		{"time too near", "combined", `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`, "malformed user"},
		{"no user", "combined", `192.0.2.1 - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`, "malformed user"},
		{"open request", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1 200 5 `, "malformed request"},
		{"request ends escaped", "combined", `192.0.2.1 - - ` + at + `"GET /\" 200 5`, "malformed request"},
		{"bad status", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 2000 5 "-" "x"`, "malformed status"},
		{"no status", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1"`, "malformed status"},
		{"bad bytes", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 x "-" "x"`, "malformed bytes"},
		{"common read as combined", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5`, "malformed referer"},
		{"no agent", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" `, "malformed agent"},
		{"glued field", "combined", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"y`, "malformed agent"},
		{"combined read as nginx", "nginx", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x"`, "malformed forwarding header"},
		{"open header", "nginx", `192.0.2.1 - - ` + at + `"GET / HTTP/1.1" 200 5 "-" "x" "198.51.100.1`, "malformed forwarding header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := NewFormat(tt.format)
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			got := ""
			if err := f.Parse([]byte(tt.line), false, &ev); err != nil {
				got = err.Error()
			} else {
				got = show(&ev)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A line cut at the reader's limit counts as soon as address, time and the
// beginning of the request are there, wherever the cut is.
func TestCLFCut(t *testing.T) {
	line := `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" 404 12 "-" "agent" "198.51.100.1"`
	request := strings.Index(line, `"GET`)
	for n := range len(line) {
		f := &clf{fields: clfForward}
		var ev Event
		err := f.Parse([]byte(line[:n]), true, &ev)
		if n <= request {
			if err == nil {
				t.Errorf("cut at %d: accepted without a request", n)
			}
			continue
		}
		if err != nil {
			t.Errorf("cut at %d: %v", n, err)
			continue
		}
		if !ev.Partial || ev.Peer.String() != "192.0.2.1" {
			t.Errorf("cut at %d: %s", n, show(&ev))
		}
		if ev.Forward != nil {
			t.Errorf("cut at %d: half a header taken for a whole one: %q", n, ev.Forward)
		}
		if ev.Bytes != -1 && ev.Bytes != 12 {
			t.Errorf("cut at %d: half a number: %d", n, ev.Bytes)
		}
		if ev.Status != 0 && ev.Status != 404 {
			t.Errorf("cut at %d: half a status: %d", n, ev.Status)
		}
	}
	var ev Event
	if err := (&clf{}).Parse([]byte(line[:request+20]), false, &ev); err == nil {
		t.Error("a whole line without an end was accepted")
	}
}

func TestCLFAllocatesNothing(t *testing.T) {
	line := []byte(`2001:db8::9 - a b [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" 404 12 "-" "agent\x22" "198.51.100.1"`)
	f := &clf{fields: clfForward}
	var ev Event
	if n := testing.AllocsPerRun(100, func() { _ = f.Parse(line, false, &ev) }); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
	bad := []byte(`x - - nothing`)
	if n := testing.AllocsPerRun(100, func() { _ = f.Parse(bad, false, &ev) }); n != 0 {
		t.Errorf("%v allocations a malformed line", n)
	}
}

func TestDetect(t *testing.T) {
	const line = `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5`
	for want, text := range map[string]string{
		"common":   line,
		"combined": line + ` "-" "x"`,
		"nginx":    line + ` "-" "x" "-"`,
		"":         "what is this",
	} {
		lines := bytes.Split([]byte(text+"\nnoise\n"+text), []byte("\n"))
		if got, _ := Detect(lines); got != want {
			t.Errorf("Detect(%q) = %q, want %q", text, got, want)
		}
	}
	// A field in the header's place is one if it holds addresses, mostly.
	for last, want := range map[string]string{
		"203.0.113.7": "nginx", "203.0.113.7, [2001:db8::1]:80": "nginx", "0.012": "combined", "en": "combined", "unknown": "combined",
	} {
		text := []byte(line + ` "-" "x" "` + last + `"`)
		if got, n := Detect([][]byte{text, text, []byte(line + ` "-" "x" "-"`)}); got != want || n != 3 {
			t.Errorf("%s: Detect = %q, %d, want %q", text, got, n, want)
		}
	}
}

// Whatever is in the line: no panic; fields lie inside the line; the address
// is the line's first word and nothing else; a field that a client writes
// never changes the address.
func FuzzCLF(f *testing.F) {
	const at = ` [05/Mar/2026:10:00:01 +0100] `
	f.Add("-", "GET / HTTP/1.1", "-", "x", "198.51.100.1", false)
	f.Add("a [b] ", `\x16\x03`, `\"`, `\\`, ",", true)
	f.Fuzz(func(t *testing.T, user, request, referer, agent, forward string, apache bool) {
		esc := escapeNginx
		if apache {
			esc = escapeApache
		}
		for _, s := range []*string{&user, &request, &referer, &agent, &forward} {
			*s = esc(*s)
		}
		if user == "" {
			user = "-"
		}
		line := `192.0.2.1 - ` + user + at + `"` + request + `" 404 12 "` + referer + `" "` + agent + `" "` + forward + `"`
		for _, name := range clfNames() {
			p, err := NewFormat(name)
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			if err := p.Parse([]byte(line), false, &ev); err != nil {
				t.Fatalf("%s: %v: %q", name, err, line)
			}
			if ev.Peer.String() != "192.0.2.1" || ev.Status != 404 || ev.Bytes != 12 || ev.Time != 1772701201e9 {
				t.Fatalf("%s: %q gave %s", name, line, show(&ev))
			}
			if name != "common" && string(dashNil([]byte(agent))) != string(ev.Agent) {
				t.Fatalf("agent %q, want %q", ev.Agent, agent)
			}
			if name == "nginx" && string(dashNil([]byte(forward))) != string(ev.Forward) {
				t.Fatalf("forward %q, want %q", ev.Forward, forward)
			}
			if user != "-" && string(ev.User) != user {
				t.Fatalf("user %q, want %q", ev.User, user)
			}
			for cut := range len(line) { // must not panic
				_ = p.Parse([]byte(line[:cut]), true, &ev)
			}
		}
	})
}

// FuzzCLFRaw feeds bytes as they come.
func FuzzCLFRaw(f *testing.F) {
	f.Add([]byte(`192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x" "-"`), false)
	f.Fuzz(func(t *testing.T, line []byte, cut bool) {
		for _, name := range clfNames() {
			p, err := NewFormat(name)
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			err = p.Parse(line, cut, &ev)
			var bad *MalformedError
			switch {
			case err == nil:
				word, _ := field(trimLine(line))
				want, ok := ParseAddr(word)
				if !ok || want != ev.Peer {
					t.Fatalf("%q: peer %v is not the first word", line, ev.Peer)
				}
			case !errors.Is(err, ErrNotMine) && !errors.As(err, &bad):
				t.Fatalf("%q: error of an unknown kind: %v", line, err)
			}
		}
	})
}

// escapeNginx writes a value as ngx_http_log_module does by default.
func escapeNginx(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' || c < 32 || c > 126 {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escapeApache writes a value as httpd does.
func escapeApache(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if j := strings.IndexByte("\"\\\b\n\r\t\v", c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\bnrtv`[j])
		} else if c < 32 || c > 126 {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func BenchmarkCLF(b *testing.B) {
	line := []byte(`203.0.113.10 - - [29/Nov/2026:16:51:36 -0330] "GET /blog/2024/03/some-page-title HTTP/1.1" 200 5316 "https://www.example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0" "198.51.100.4"`)
	f := &clf{fields: clfForward}
	var ev Event
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Parse(line, false, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

// clfNames lists the presets that are combined's family and nothing more.
func clfNames() []string { return []string{"common", "combined", "nginx"} }
