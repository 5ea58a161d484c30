package parser

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestAppendPath(t *testing.T) {
	for in, want := range map[string]string{
		"/sign-in":                         "/sign-in",
		"//sign-in":                        "/sign-in",
		"/./sign-in":                       "/sign-in",
		"/x/../sign-in":                    "/sign-in",
		"/%73ign-in":                       "/sign-in",
		"/%2573ign-in":                     "/%73ign-in",
		"http://h/sign-in":                 "/sign-in",
		"HTTPS://h:443/sign-in?x":          "/sign-in",
		"/sign-in#a":                       "/sign-in",
		"/sign-in?next=/x":                 "/sign-in",
		"/sign-in%3Fx":                     "/sign-in?x",
		"/sign-in%23x":                     "/sign-in#x",
		"/sign%2din":                       "/sign-in",
		"/%2e%2e/sign-in":                  "/sign-in",
		"/a/%2E%2E/sign-in":                "/sign-in",
		"/a%2f..%2fsign-in":                "/sign-in",
		"/../../sign-in":                   "/sign-in",
		"/a/b/../../../sign-in":            "/sign-in",
		"/a//b///c":                        "/a/b/c",
		"/a/":                              "/a/",
		"/a/.":                             "/a/",
		"/a/..":                            "/",
		"/a/b/..":                          "/a/",
		"/.":                               "/",
		"/..":                              "/",
		"/...":                             "/...",
		"/.well-known/x":                   "/.well-known/x",
		"/a/.b/..c/d.":                     "/a/.b/..c/d.",
		"/":                                "/",
		"//":                               "/",
		"":                                 "",
		"http://h":                         "/",
		"http://h?x=/y":                    "/",
		"http:///x":                        "/x",
		"*":                                "*",
		"h.example:443":                    "h.example:443",
		"x?y":                              "x",
		"/100%":                            "/100%",
		"/100%2":                           "/100%2",
		"/100%zz":                          "/100%zz",
		"/%00":                             "/\x00",
		`/a\x22b`:                          `/a"b`,
		`/\xC3\xA9`:                        "/\u00e9",
		`/%C3%A9`:                          "/\u00e9",
		`/a\"b\\c`:                         `/a"b\c`,
		`/a\tb`:                            "/a\tb",
		`/\x2Fsign-in`:                     "/sign-in",
		`/a\x`:                             `/a\x`,
		`/a\x4`:                            `/a\x4`,
		`/a\xzz`:                           `/a\xzz`,
		`/a\`:                              `/a\`,
		`/a\q`:                             `/a\q`,
		`/a\u0007b\u001F`:                  "/a\x07b\x1f",
		`/a\f`:                             "/a\f",
		`/a\u0041`:                         `/a\u0041`,
		`/a\u000`:                          `/a\u000`,
		"/a/../b/./c//d/%2e/e/../f?x=/../": "/b/c/d/f",
		"/redirect?to=http://x/y":          "/redirect",
		"/redirect/http://x/y":             "/redirect/http:/x/y",
		"1http://x/y":                      "1http://x/y",
	} {
		if got := string(AppendPath([]byte("pre"), []byte(in))); got != "pre"+want {
			t.Errorf("AppendPath(%q) = %q, want %q", in, got[3:], want)
		}
	}
}

// A path that the server has decoded is not decoded again.
func TestDecodedPath(t *testing.T) {
	const nginx, apache = `$remote_addr [$time_local] `, `%h %t `
	for _, tt := range []struct{ format, logged, want string }{
		{nginx + `"$uri"`, `/sign-in`, "/sign-in"},
		{nginx + `"$uri"`, `/%73ign-in`, "/%73ign-in"},
		{nginx + `"$document_uri"`, `/a%2e%2e/b`, "/a%2e%2e/b"},
		{nginx + `"$uri"`, `/a?b`, "/a?b"}, // sent as %3F
		{nginx + `"$uri"`, `/a#b%`, "/a#b%"},
		{nginx + `"$uri"`, `/\x22\x5C`, `/"\`},
		{nginx + `"$uri$is_args$args"`, `/sign-in-`, "/sign-in"}, // no query
		{nginx + `"$uri$is_args$args"`, `/sign-in?-`, "/sign-in"},
		{nginx + `"$uri$is_args$args"`, `/sign-in--`, "/sign-in-"},
		{nginx + `"$uri$is_args$query_string"`, `/-`, "/"},
		{nginx + `"$uri?$args"`, `/sign-in?-`, "/sign-in"},
		{nginx + `"$uri$is_args"`, `/sign-in-`, "/sign-in-"},
		{"escape=json " + nginx + `"$uri$is_args$args"`, `/sign-in-`, "/sign-in-"},
		{apache + `"%U%q"`, `/sign-in-`, "/sign-in-"},
		{nginx + `"$uri$is_args$args"`, `/a%41#b?c=%41?d`, "/a%41#b"},
		{nginx + `"$uri" "$request_uri"`, `/%73ign-in" "/%2573ign-in`, "/%73ign-in"},
		{nginx + `"$request" "$uri"`, `GET /%2573ign-in HTTP/1.1" "/%73ign-in`, "/%73ign-in"},
		{nginx + `"$request_uri"`, `/%73ign-in`, "/sign-in"},
		{"escape=json " + nginx + `"$uri"`, `/a\u000Ab\"%41`, "/a\nb\"%41"},
		{apache + `"%U"`, `/%73ign-in?`, "/%73ign-in?"},
		{apache + `"%U%q"`, `/%73ign-in?x`, "/%73ign-in"},
		{apache + `"%m %U%q %H"`, `GET /%73ign-in?x HTTP/1.1`, "/%73ign-in"},
		{apache + `"%r"`, `GET /%73ign-in?x HTTP/1.1`, "/sign-in"},
	} {
		var ev Event
		if err := mustNew(t, tt.format, Options{}).Parse([]byte(`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "`+tt.logged+`"`), false, &ev); err != nil {
			t.Errorf("%s of %s: %v", tt.logged, tt.format, err)
		} else if got := string(AppendPath(nil, ev.Target)); got != tt.want {
			t.Errorf("%s of %s: path %q, want %q", tt.logged, tt.format, got, tt.want)
		}
	}
}

// Where the log has a backslash that the client sent as it is, or the format
// has undone the escapes, it is none that begins another escape.
func TestBackslashesThatAreNoEscapes(t *testing.T) {
	const at = `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] `
	for _, tt := range []struct{ format, line string }{
		{"nginx-json", `{"remote_addr":"192.0.2.1","time_iso8601":"2026-03-05T10:00:01+01:00","request":"GET /api/\\x2e\\x2e/6 HTTP/1.1"}`},
		{"nginx-json", `{"remote_addr":"192.0.2.1","time_iso8601":"2026-03-05T10:00:01+01:00","request_uri":"/api/\x5Cx2e\x5Cx2e/6"}`}, // escape=default
		{"caddy", `{"ts":1772701201,"request":{"remote_ip":"192.0.2.1","uri":"/api/\\x2e\\x2e/6"}}`},
		{"traefik", `{"ClientAddr":"192.0.2.1:1","StartUTC":"2026-03-05T09:00:01Z","RequestPath":"/api/\\x2e\\x2e/6"}`},
		{"traefik-clf", at + `"GET /api/\x2e\x2e/6 HTTP/1.1" 200 5 "-" "-" 1 "a" "b" 1ms`},
		{"haproxy", `192.0.2.1:1 [05/Mar/2026:10:00:01.250] web app/a1 0/0/1/2/3 404 12 - - ---- 1/1/0/0/0 0/0 "GET /api/\x2e\x2e/6 HTTP/1.1"`},
		{"gunicorn", at + `"GET /api/\x2e\x2e/6 HTTP/1.1" 200 5 "-" "-"`},
		{"squid", `1772701201.000     12 192.0.2.1 TCP_MISS/404 12 GET http://h/api/\x2e\x2e/6 - HIER_DIRECT/192.0.2.7 text/html`},
		{"squid-common", at + `"GET http://h/api/\x2e\x2e/6 HTTP/1.1" 200 5 TCP_MISS:HIER_DIRECT`},
		{"squid-combined", at + `"GET http://h/api/\x2e\x2e/6 HTTP/1.1" 200 5 "-" "-" TCP_MISS:HIER_DIRECT`},
		{`escape=none $remote_addr [$time_local] "$request"`, `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET /api/\x2e\x2e/6 HTTP/1.1"`},
		{`$remote_addr [$time_local] "$request"`, `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET /api/\x5Cx2e\x5Cx2e/6 HTTP/1.1"`},
		{`escape=json $remote_addr [$time_local] "$request"`, `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET /api/\\x2e\\x2e/6 HTTP/1.1"`},
		{"combined", at + `"GET /api/\\x2e\\x2e/6 HTTP/1.1" 200 5 "-" "-"`},
	} {
		var ev Event
		if err := mustNew(t, tt.format, Options{Zone: time.UTC}).Parse([]byte(tt.line), false, &ev); err != nil {
			t.Errorf("%s: %s: %v", tt.format, tt.line, err)
		} else if got := string(AppendPath(nil, ev.Target)); got != `/api/\x2e\x2e/6` {
			t.Errorf("%s: %s: path %q", tt.format, tt.line, got)
		}
	}
}

// A normalised path that holds no percent code or backslash any more is
// its own normal form; the input is never written to.
func FuzzAppendPath(f *testing.F) {
	for _, s := range []string{"/a/../b", "//x", "/%2e%2e/y", `/\x2e./z`, "http://h/..", "/a/./b/"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, target []byte) {
		before := bytes.Clone(target)
		p := AppendPath(nil, target)
		if !bytes.Equal(before, target) {
			t.Fatalf("the target was written to: %q became %q", before, target)
		}
		if len(p) > 0 && p[0] == '/' {
			for _, seg := range strings.Split(string(p[1:]), "/") {
				if seg == "." || seg == ".." {
					t.Fatalf("%q gave %q", target, p)
				}
			}
			if strings.Contains(string(p), "//") {
				t.Fatalf("%q gave %q", target, p)
			}
			if !bytes.ContainsAny(p, `%\?#`) {
				if again := AppendPath(nil, p); !bytes.Equal(again, p) {
					t.Fatalf("%q gave %q, and that %q", target, p, again)
				}
			}
		}
	})
}
