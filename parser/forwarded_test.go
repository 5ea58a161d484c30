package parser

import (
	"fmt"
	"strings"
	"testing"
)

func TestForwardedList(t *testing.T) {
	for header, want := range map[string]string{
		`for=192.0.2.43`: "192.0.2.43",
		`for=192.0.2.43;proto=https, For="[2001:db8:cafe::17]:4711"`:  "192.0.2.43, [2001:db8:cafe::17]:4711",
		`by=203.0.113.1;FOR="192.0.2.43:80" ; host=x ,for=192.0.2.44`: "192.0.2.43:80, 192.0.2.44",
		`for=192.0.2.43;host="a,b;for=192.0.2.9,\"", for=192.0.2.44`:  "192.0.2.43, 192.0.2.44",
		`for=[2001:db8::1]`:               "[2001:db8::1]",
		`for="192.0.2.43:_port"`:          "192.0.2.43",
		`for="[2001:db8::1]:_p"`:          "[2001:db8::1]",
		`for=unknown, for=_hidden`:        "unknown, _hidden",
		`for=_h:_p`:                       "_h",
		`proto=https, for=192.0.2.43`:     "?, 192.0.2.43",
		`192.0.2.9, for=192.0.2.43`:       "?, 192.0.2.43",
		`for=192.0.2.1;for=192.0.2.2`:     "?",
		`for="192.0.2.1,192.0.2.2"`:       "?",
		`for="192.0.2.1, 192.0.2.2`:       "?, ?",
		`x", for=192.0.2.43`:              "?, 192.0.2.43",
		`for="x, for=192.0.2.43`:          "?, 192.0.2.43",
		`for=`:                            "?",
		`for=""`:                          "?",
		`for="`:                           "?",
		`;`:                               "?",
		`, for=192.0.2.43,`:               ", 192.0.2.43, ",
		`for=192.0.2.43;ext="\\", for=_a`: "192.0.2.43, _a",
	} {
		if got := string(new(forwarded).list([]byte(header))); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

// The client of a header Forwarded, in each way that logs write its quotes.
func TestForwardedClient(t *testing.T) {
	r := NewResolver(prefixes("10.0.0.0/8"))
	for header, want := range map[string]string{
		`for=203.0.113.9`: "203.0.113.9 forwarded",
		`for=192.0.2.1, for=203.0.113.9;proto=https`:     "203.0.113.9 forwarded",
		`for="[2001:db8::1]:4711", for="10.1.2.3:4711"`:  "2001:db8::1 forwarded",
		`for=192.0.2.1;host="x,y", for=_gateway`:         "invalid IP nobody",
		`for=unknown`:                                    "invalid IP nobody",
		`for=192.0.2.1, for=10.9.9.9;host="\", for=1\""`: "192.0.2.1 forwarded",
		`for=10.9.9.9`:                                   "10.0.0.1 infrastructure",
		`-`:                                              "10.0.0.1 infrastructure",
	} {
		for format, write := range map[string]func(string) string{
			`$remote_addr [$time_local] "$http_forwarded"`: func(s string) string {
				return `10.0.0.1 [05/Mar/2026:10:00:01 +0100] "` + escapeNginx(s) + `"`
			},
			`%h %t "%{Forwarded}i"`: func(s string) string {
				return `10.0.0.1 [05/Mar/2026:10:00:01 +0100] "` + escapeApache(s) + `"`
			},
			`escape=json $remote_addr [$time_local] "$http_forwarded"`: func(s string) string {
				return fmt.Sprintf("10.0.0.1 [05/Mar/2026:10:00:01 +0100] %q", s)
			},
			"json": func(s string) string {
				return fmt.Sprintf(`{"peer":"10.0.0.1","t":1772701201,"h":{"Forwarded":[%q]}}`, s)
			},
		} {
			var f Format
			var err error
			if format == "json" {
				f, err = NewJSON(JSONFields{Peer: "peer", Time: "t", Forward: "h.Forwarded[*]"})
			} else {
				f, err = New(format, Options{Header: "Forwarded"})
			}
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			if err := f.Parse([]byte(write(header)), false, &ev); err != nil {
				t.Fatalf("%s: %s: %v", format, write(header), err)
			}
			client, how := r.Resolve(ev.Peer, ev.Forward)
			checkTrace(t, r, ev.Peer, string(ev.Forward), client, how)
			if got := client.String() + " " + how.String(); got != want {
				t.Errorf("%s: %s: %s, want %s", format, write(header), got, want)
			}
		}
	}
}

// Whatever stands in front, our own proxies' elements behind it mean the same.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", "for=192.0.2.1", `for="`, `"`, `\"`, `for="a\`, ",", ";", "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, left string) {
		const own, want = `,for=203.0.113.9;host="a\"b,;\\" , by=x;for="[2001:db8::1]:4711"`, ", 203.0.113.9, [2001:db8::1]:4711"
		got := string(new(forwarded).list([]byte(left + own)))
		rest, ok := strings.CutSuffix(got, want)
		if !ok {
			t.Fatalf("%q: %q", left, got)
		}
		if alone := string(new(forwarded).list([]byte(left))); alone != rest {
			t.Fatalf("%q: alone %q, in front %q", left, alone, rest)
		}
		if strings.ContainsAny(rest, "\"\\;=") {
			t.Fatalf("%q: %q", left, rest)
		}
	})
}
