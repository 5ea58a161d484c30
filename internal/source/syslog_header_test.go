package source

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

const line1 = `203.0.113.7 - - [30/Nov/2026:05:19:53 +0000] "GET / HTTP/1.1" 200 612 "-" "curl: 8"`

func TestSyslogMessage(t *testing.T) {
	const six = `2001:db8:: - - [30/Nov/2026:05:19:53 +0000] "GET / HTTP/1.1" 200 612`
	tests := []struct{ name, in, want string }{
		{"nginx", "<190>Nov 30 05:19:53 www1 nginx: " + line1, line1},
		{"nginx with nohostname", "<190>Nov 30 05:19:53 nginx: " + line1, line1},
		{"nginx, a day of one digit", "<190>Nov  3 05:19:53 shop_2: " + line1, line1},
		{"pid", "<134>Nov 30 05:19:53 lb haproxy[4242]: " + line1, line1},
		{"path as a tag", "<134>Nov 30 05:19:53 docker/0a1b[7]: " + line1, line1},
		{"rsyslog", "<190>2026-11-30T05:19:53.123456+01:00 www1 nginx: " + line1, line1},
		{"no time", "<190>nginx: " + line1, line1},
		{"nothing but a priority", "<190>" + line1, line1},
		{"no header", line1, line1},
		{"time, and no tag", "<190>Nov 30 05:19:53 " + line1, line1},
		{"IPv6 address without a tag", "<190>Nov 30 05:19:53 " + six, six},
		{"IPv6 address behind a tag", "<190>Nov 30 05:19:53 nginx: " + six, six},
		{"IPv6 address behind a host and a tag", "<190>Nov 30 05:19:53 www1 nginx: " + six, six},
		{"a tag inside of the line", "<190>Nov 30 05:19:53 www1 nginx: a nginx: b", "a nginx: b"},
		{"nothing behind the tag", "<190>Nov 30 05:19:53 www1 nginx:", ""},
		{"5424", "<165>1 2026-11-30T05:19:53.003Z www1 nginx 99 ID47 - " + line1, line1},
		{"5424 with nothing known", "<165>1 - - - - - - " + line1, line1},
		{"5424 with a mark", "<165>1 - - - - - - \ufeff" + line1, line1},
		{"5424 with data", `<165>1 2026-11-30T05:19:53Z h a - - [x@1 k="]\"\\"][y@1] ` + line1, line1},
		{"5424 without a message", `<165>1 2026-11-30T05:19:53Z h a - - [x@1 k="v"]`, ""},
		{"5424, the line looks like data", "<165>1 - h a - - - [x] " + line1, "[x] " + line1},
		{"5424, broken data", `<165>1 - h a - - [x@1 k="v ` + line1, `1 - h a - - [x@1 k="v ` + line1},
		{"5424, too few fields", "<165>1 - h", "1 - h"},
		{"no priority there is", "<192>Nov 30 05:19:53 nginx: x", "<192>Nov 30 05:19:53 nginx: x"},
		{"no priority", "<>x", "<>x"},
		{"priority without end", "<1900>x", "<1900>x"},
		{"empty", "", ""},
		{"only a bracket", "<", "<"},
	}
	for _, tt := range tests {
		if got := string(syslogMessage([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: %q\ngot  %q\nwant %q", tt.name, tt.in, got, tt.want)
		}
	}
}

// A message is the end of what was sent. Behind a header as nginx and RFC 5424
// have it, it is the line, whatever that is.
func FuzzSyslogMessage(f *testing.F) {
	for _, s := range []string{line1, "", "nginx: x", "Nov 30 05:19:53 a b: c", "1 - - - - - - x", "<190>x", "\ufeffx", "[x@1]", "- x", ": x", "x:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if got := syslogMessage([]byte(line)); !strings.HasSuffix(line, string(got)) {
			t.Fatalf("%q makes %q", line, got)
		}
		for _, header := range []string{
			"<190>Nov 30 05:19:53 nginx: ", "<190>Nov  3 05:19:53 www1.example.com nginx: ", "<6>Nov  3 05:19:53 h a[1]: ",
			"<165>1 2026-11-30T05:19:53.003Z www1 nginx 99 ID47 - \ufeff", `<0>1 - - - - - [a b="]"] ` + "\ufeff",
		} {
			if got := syslogMessage([]byte(header + line)); string(got) != line {
				t.Fatalf("%q: got %q", header+line, got)
			}
		}
	})
}

func framesOf(in string, limit int) (out []string, err error) {
	f := newFrames(strings.NewReader(in), limit)
	for {
		p, cut, err := f.next()
		if err != nil {
			return out, err
		}
		text := string(p)
		if cut {
			text += "…"
		}
		out = append(out, text)
	}
}

func TestFrames(t *testing.T) {
	tests := []struct {
		name, in string
		want     string // joined by |
		err      string
	}{
		{"lines", "<1>a\n<2>b\r\n", "<1>a|<2>b", "EOF"},
		{"last line without end", "<1>a\n<2>b", "<1>a|<2>b", "EOF"},
		{"lines without priority", "203.0.113.7 x\n7\n", "203.0.113.7 x|7", "EOF"},
		{"a number first", "7", "7", "EOF"},
		{"lines that look counted", "<1>a\n4 <2>b\n", "<1>a|4 <2>b", "EOF"},
		{"counted", "4 <1>a5 <1>bc", "<1>a|<1>bc", "EOF"},
		{"counted, with line feeds inside", "6 <1>a\nb4 <1>c", "<1>a\nb|<1>c", "EOF"},
		{"counted, with line feeds behind", "5 <1>a\n\n4 <1>b", "<1>a|<1>b", "EOF"},
		{"counted, then not", "4 <1>a<1>b\n", "<1>a", "neither a length nor a message"},
		{"counted, no end", "9 <1>a", "", "unexpected EOF"},
		{"counted, no length", "4 <1>a12", "<1>a", "unexpected EOF"},
		{"a length of nothing", "4 <1>a0 ", "<1>a", "neither a length nor a message: a length of 0"},
		{"a length beyond all", "4 <1>a99999999 <", "<1>a", "neither a length nor a message: a length of 99999999"},
		{"a length without end", "4 <1>a999999999 <", "<1>a", "neither a length nor a message"},
		{"a long line", "<1>" + strings.Repeat("x", 30) + "\n<1>b\n", "<1>xxxxxxxxxxxxxxxxx…|<1>b", "EOF"},
		{"a long message", "33 <1>" + strings.Repeat("x", 30) + "4 <1>b", "<1>xxxxxxxxxxxxxxxxx…|<1>b", "EOF"},
		{"nothing", "", "", "EOF"},
	}
	for _, tt := range tests {
		got, err := framesOf(tt.in, 20)
		if strings.Join(got, "|") != tt.want || err.Error() != tt.err {
			t.Errorf("%s: %q, %v; want %q, %s", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// What is written in either way comes out again, in whatever pieces.
func FuzzFrames(f *testing.F) {
	f.Add("abc", "12 <1>x", 3)
	f.Add("", "\n", 1)
	f.Fuzz(func(t *testing.T, a, b string, size int) {
		clean := func(s string) string { return "<1>" + strings.TrimRight(s, "\r\n\x00") }
		counted := clean(a)
		var in bytes.Buffer
		for _, m := range []string{counted, clean(b), counted} {
			in.WriteString(strconv.Itoa(len(m)) + " " + m)
		}
		got, err := framesOf(in.String(), 1<<20)
		if want := []string{counted, clean(b), counted}; err.Error() != "EOF" || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("counted: %q, %v; want %q", got, err, want)
		}
		// Any input at all ends, and nothing is longer than the limit.
		got, _ = framesOf(a+b, max(1, size&63))
		for _, m := range got {
			if len(strings.TrimSuffix(m, "…")) > 63 {
				t.Fatalf("%q is too long", m)
			}
		}
	})
}
