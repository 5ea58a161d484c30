package term

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"plain", `curl/8.5 "quoted" 'too'`, `curl/8.5 "quoted" 'too'`},
		{"empty", "", ""},
		{"letters", "Grüße, мир, 你好, שלום, 🦊", "Grüße, мир, 你好, שלום, 🦊"},
		{"backslash", `a\x1bb`, `a\\x1bb`},
		{"layout", "a\tb\nc\rd", `a\tb\nc\rd`},
		{"colour", "\x1b[31mred\x00\x7f", `\x1b[31mred\x00\x7f`},
		{"C1", "\u0085\u009b31m", `\u{85}\u{9b}31m`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"not UTF-8", "a\xff\xc3(\xe2\x82", `a\xff\xc3(\xe2\x82`},
		{"replacement character", "\ufffd", "\ufffd"},
		{"direction", "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e", `\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}`},
		{"isolates", "\u2066\u2067\u2068\u2069", `\u{2066}\u{2067}\u{2068}\u{2069}`},
		{"separators", "a\u2028b\u2029c", `a\u{2028}b\u{2029}c`},
		{"spaces", "a\u00a0b\u3000c\u2800", `a\u{a0}b\u{3000}c\u{2800}`},
		{"nothing to see", "a\u200b\u00ad\ufeff\u3164\ufe0fb", `a\u{200b}\u{ad}\u{feff}\u{3164}\u{fe0f}b`},
		{"tags", "\U000e0041", `\u{e0041}`},
		{"private, none", "\ue000\U0010ffff", `\u{e000}\u{10ffff}`},
		{"marks", "e\u0301\u0302\u0303\u0304\u0305", "e\u0301\u0302\u0303\u0304\\u{305}"},
		{"mark at the start", "\u0301e", `\u{301}e`},
		{"mark on an escape", "\x01\u0301", `\x01\u{301}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := Escape(test.in); got != test.want {
				t.Errorf("Escape(%q) = %s, want %s", test.in, got, test.want)
			}
			if got := string(Append([]byte("> "), test.in)); got != "> "+test.want {
				t.Errorf("Append is %s", got)
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", `\`, `\\x1b`, "\x1b[0m", "\xff\u202e\u2028", "e\u0301\u0301\u0301\u0301\u0301", `\u{301}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Escape(s)
		if !utf8.ValidString(out) {
			t.Errorf("not UTF-8: %q", out)
		}
		for _, r := range out {
			if !strconv.IsPrint(r) {
				t.Errorf("%U of %q can't be printed", r, s)
			}
		}
		if back := unescape(t, out); back != s {
			t.Errorf("%q is shown as %q, which is %q", s, out, back)
		}
	})
}

// unescape is the way back, which shows that there is one.
func unescape(t *testing.T, s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		switch {
		case strings.HasPrefix(s, `\\`):
			b.WriteByte('\\')
		case strings.HasPrefix(s, `\t`):
			b.WriteByte('\t')
		case strings.HasPrefix(s, `\n`):
			b.WriteByte('\n')
		case strings.HasPrefix(s, `\r`):
			b.WriteByte('\r')
		case strings.HasPrefix(s, `\x`):
			n, err := strconv.ParseUint(s[2:4], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteByte(byte(n))
			s = s[2:]
		case strings.HasPrefix(s, `\u{`):
			end := strings.IndexByte(s, '}')
			n, err := strconv.ParseUint(s[3:end], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteRune(rune(n))
			s = s[end-1:]
		default:
			t.Fatalf("no escape of ours: %q", s)
		}
		s = s[2:]
	}
	return b.String()
}
