package lists

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// shown writes a file's entries with their lines.
func shown(f *File) string {
	var parts []string
	for _, e := range f.Entries {
		parts = append(parts, fmt.Sprintf("%d:%s", e.Line, e.Text))
	}
	return strings.TrimSpace(f.Created + " " + strings.Join(parts, " "))
}

// The forms in which ranges are published.
func TestRead(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"lines", "203.0.113.7\n2001:db8::/48\n", "1:203.0.113.7 2:2001:db8::/48"},
		{"CRLF, a mark in front, comments", "\ufeff# monitors\r\n203.0.113.7\r\n\r\n 203.0.113.8 # next\r\n", "2:203.0.113.7 4:203.0.113.8"},
		{"no line end", "203.0.113.7", "1:203.0.113.7"},
		{"nothing", "", ""},
		{"what is no address", "hello\n", "1:hello"},
		{"Google", `{
  "creationTime": "2026-10-09T14:46:27.000000",
  "prefixes": [{
    "ipv6Prefix": "2001:db8:10::/64"
  }, {
    "ipv4Prefix": "203.0.113.0/27"
  }]
}`, "2026-10-09 4:2001:db8:10::/64 6:203.0.113.0/27"},
		{"on one line, with a zone", `{"creationTime":"2026-10-07T00:00:00Z","prefixes":[{"ipv4Prefix":"203.0.113.0/27","service":"x"}]}`, "2026-10-07 1:203.0.113.0/27"},
		{"a time that is none", `{"creationTime":"yesterday","prefixes":[{"ipv4Prefix":"203.0.113.0/27"}]}`, "1:203.0.113.0/27"},
		{"a short time", `{"creationTime":"x","prefixes":[{"ipv4Prefix":"203.0.113.0/27"}]}`, "1:203.0.113.0/27"},
		{"texts", "\n[\"203.0.113.7\",\n\"203.0.113.8\"]\r\n", "2:203.0.113.7 3:203.0.113.8"},
		{"Amazon", `{"syncToken": "1", "prefixes": [{"ip_prefix": "203.0.113.0/24", "region": "x"}],
			"ipv6_prefixes": [{"ipv6_prefix": "2600::/32"}]}`, "1:203.0.113.0/24 2:2600::/32"},
		{"Fastly", `{"addresses": ["203.0.113.0/24"], "ipv6_addresses": ["2001:db8::/32"]}`, "1:203.0.113.0/24 1:2001:db8::/32"},
		{"Cloudflare", `{"result": {"ipv4_cidrs": ["203.0.113.0/24"], "ipv6_cidrs": ["2001:db8::/32"], "etag": "x"}, "success": true, "errors": []}`,
			"1:203.0.113.0/24 1:2001:db8::/32"},
		{"Pingdom", `{"ipv4": ["203.0.113.7/32"], "ipv6": ["2001:db8::1"]}`, "1:203.0.113.7/32 1:2001:db8::1"},
	} {
		f, err := Read(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := shown(f); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	const none = "has no ranges in a form that is known here"
	for _, tt := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"nothing in it", "{}", 0, none},
		{"an empty list", "[]", 0, none},
		{"no prefixes", `{"creationTime": "2026-10-09T14:46:27", "prefixes": []}`, 0, none},
		{"another form", `{"monitors": [{"ip": "203.0.113.7"}]}`, 0, none},
		{"a page of an error", `{"error": "not found"}`, 0, none},
		{"another name in one place", "{\"prefixes\": [\n{\"ipv4Prefix\": \"203.0.113.0/27\"},\n{\"ipPrefix\": \"203.0.113.32/27\"}]}", 3, "one of its prefixes has neither ipv4Prefix nor ipv6Prefix"},
		{"a number", "[\n1]", 2, "a number, true, false or null stands where"},
		{"null", `{"prefixes": [{"ipv4Prefix": null}]}`, 1, "a number, true, false or null stands where"},
		{"cut off", "{\"prefixes\": [\n{\"ipv4Prefix\": \"203.0", 2, "is no valid JSON: it ends too early"},
		{"cut off between values", "[\"203.0.113.7\",", 1, "is no valid JSON: it ends too early"},
		{"two of them", `["203.0.113.7"] ["203.0.113.8"]`, 1, "is no valid JSON: something follows it"},
		{"not JSON", "[\n203.0.113.7]", 2, "a number, true"},
		{"no colon", "{\n\"prefixes\" []}", 2, "is no valid JSON: invalid character '['"},
		{"deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), 1, "is nested too deeply"},
		{"large", strings.Repeat("#", MaxSize+1), 0, "is larger than 1 MiB"},
	} {
		f, err := Read(tt.text)
		var e *Error
		if !errors.As(err, &e) || e.Line != tt.line || !strings.HasPrefix(e.Msg, tt.want) {
			t.Errorf("%s: got %+v, %+v; want %d: %s", tt.name, f, err, tt.line, tt.want)
		}
	}
}

// Whatever a file holds: it is refused with a place inside of it, or its entries
// are parts of it, with the lines that they are on.
func FuzzRead(f *testing.F) {
	f.Add("203.0.113.7\r\n# x\n2001:db8::/48 # y")
	f.Add(`{"creationTime": "2026-10-09T14:46:27.000000", "prefixes": [{"ipv6Prefix": "2001:db8:10::/64"}, {"ipv4Prefix": "203.0.113.0/27"}]}`)
	f.Add("[\"203.0.113.7\",\n\"203.0.113.8\"]")
	f.Add(`{"result": {"ipv4_cidrs": ["203.0.113.0/24"]}}`)
	f.Add(`{"prefixes": [{"x": [[[[[[[[[[]]]]]]]]]]}]}`)
	f.Add("\ufeff{\"addresses\": [\"\\u0031\"]}")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		file, err := Read(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 0 || e.Line > lines || file != nil {
				t.Fatalf("%+v, %#v", file, err)
			}
			return
		}
		if len(file.Entries) > len(text) || file.Created != "" && len(file.Created) != len("2026-10-09") {
			t.Fatalf("%+v", file)
		}
		last := 0
		for _, e := range file.Entries {
			if e.Line < last || e.Line < 1 || e.Line > lines {
				t.Fatalf("line %d of %d, behind one of %d", e.Line, lines, last)
			}
			last = e.Line
		}
	})
}
