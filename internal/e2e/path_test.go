package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// pathFormats are formats as nginx has them, and as the parser is told of them.
var pathFormats = []struct{ name, nginx, parser string }{
	{"request", `'$remote_addr [$time_local] "$request" $status'`, `$remote_addr [$time_local] "$request" $status`},
	{"raw", `escape=none '$remote_addr [$time_local] $status "$request"'`, `escape=none $remote_addr [$time_local] $status "$request"`},
	{"uri", `'$remote_addr [$time_local] $status "$request_method $uri$is_args$args $server_protocol"'`,
		`$remote_addr [$time_local] $status "$request_method $uri$is_args$args $server_protocol"`},
	{"uri-json", `escape=json '$remote_addr [$time_local] $status "$uri$is_args$args"'`, `escape=json $remote_addr [$time_local] $status "$uri$is_args$args"`},
	{"json", `escape=json '{"remote_addr":"$remote_addr","time_iso8601":"$time_iso8601","status":"$status","request":"$request"}'`, "nginx-json"},
	{"json-default", `'{"remote_addr":"$remote_addr","time_iso8601":"$time_iso8601","status":"$status","request_uri":"$request_uri"}'`, "nginx-json"},
}

// What a jail compares is what nginx serves: for random targets the
// normalised path of nginx's own log equals its $uri, in each format.
func TestPathsAsNginxServesThem(t *testing.T) {
	l := newLab(t)
	client := l.join("203.0.113.1", "203.0.113.66")
	var logs strings.Builder
	for _, f := range pathFormats {
		fmt.Fprintf(&logs, "log_format %s %s; access_log %s/%[1]s.log %[1]s;\n", f.name, f.nginx, l.dir)
	}
	l.nginx(logs.String())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	parts := []string{"/", "/", "//", "/.", "/..", "/./", "/../", "a", "sign-in", "%73", "%2e", "%2E%2e", "%2f", "%2F..%2F", "%25", "%2573",
		"%3f", "%23", `\`, `\x2e\x2e`, `\u002e.`, `\"`, `"`, "-", "-", "?", "?x=/../y", "#f", ";", "+", "&", "%20", "...", ".b", "b.", "%C3%A9", "~", "x%zz"}
	conn := client.dial(t, "80")
	reader := bufio.NewReader(conn)
	var targets, served []string
	refused := 0
	for i := range 3000 {
		target := ""
		if r.IntN(12) == 0 {
			target = "http://www.example.com"
		}
		target += "/"
		for range r.IntN(7) {
			target += parts[r.IntN(len(parts))]
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: www.example.com\r\n\r\n", target)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("request %d, %q: %v", i, target, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK { // nginx takes the target for an attack, or for nonsense
			refused++
			conn.Close()
			conn = client.dial(t, "80")
			reader = bufio.NewReader(conn)
			continue
		}
		want, _, _ := strings.Cut(string(body), "\n")
		targets, served = append(targets, target), append(served, want)
	}
	t.Logf("%d compared, %d refused by nginx", len(served), refused)
	if len(served) < 500 {
		t.Errorf("only %d compared", len(served))
	}
	for _, f := range pathFormats {
		t.Run(f.name, func(t *testing.T) {
			paths := l.pathsOf(filepath.Join(l.dir, f.name+".log"), f.parser, len(served))
			for i, want := range served {
				// Of a decoded "?" before $args nobody knows whether it begins the query,
				// of a dash behind "?#" whether it is that of an empty query.
				unknown := strings.HasPrefix(f.name, "uri") &&
					(strings.Contains(want, "?") || strings.HasSuffix(want, "-") && strings.Contains(targets[i], "?#"))
				if paths[i] != want && !unknown {
					t.Errorf("%q: normalised to %q, nginx serves %q", targets[i], paths[i], want)
				}
			}
		})
	}
}

// pathsOf returns the paths of a log's answers 200, of which there are n.
func (l *lab) pathsOf(file, format string, n int) []string {
	l.t.Helper()
	f, err := parser.New(format, parser.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	var paths []string
	l.wait("the log to be whole", func() bool { // nginx writes a line after its answer
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		paths = paths[:0]
		for line := range bytes.Lines(text) {
			var ev parser.Event
			if err := f.Parse(bytes.TrimSuffix(line, []byte("\n")), false, &ev); err == nil && ev.Status == http.StatusOK {
				paths = append(paths, string(parser.AppendPath(nil, ev.Target)))
			}
		}
		return len(paths) >= n
	})
	if len(paths) != n {
		l.t.Fatalf("%s has %d answers, not %d", file, len(paths), n)
	}
	return paths
}

// After an internal redirect nginx has another $request_method and $uri, but
// the same request: formats that rest on these say so.
func TestRedirectedVariables(t *testing.T) {
	l := newLab(t)
	client := l.join("203.0.113.1", "203.0.113.66")
	const redirected, asSent = `$remote_addr [$time_local] $status "$request_method $uri $server_protocol"`, `$remote_addr [$time_local] $status "$request"`
	l.nginx(fmt.Sprintf(`log_format redirected '%s'; log_format sent '%s';
	server {
		listen 8080; error_page 401 /err.html; access_log %[3]s/redirected.log redirected; access_log %[3]s/sent.log sent;
		location = /sign-in { return 401; } location = /err.html { internal; return 200 "e"; }
	}`, redirected, asSent, l.dir))
	conn := client.dial(t, "8080")
	fmt.Fprint(conn, "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file, format, want string
		traits             parser.Traits
	}{
		{"redirected.log", redirected, "GET /err.html", parser.Traits{Redirected: parser.FieldMethod | parser.FieldPath}},
		{"sent.log", asSent, "POST /sign-in", parser.Traits{}},
	} {
		f, err := parser.New(tt.format, parser.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := parser.TraitsOf(f); got != tt.traits {
			t.Errorf("%s: traits %+v, want %+v", tt.file, got, tt.traits)
		}
		var line []byte
		l.wait("the line", func() bool {
			text, err := os.ReadFile(filepath.Join(l.dir, tt.file))
			line = bytes.TrimSuffix(text, []byte("\n"))
			return err == nil && len(line) < len(text)
		})
		var ev parser.Event
		if err := f.Parse(line, false, &ev); err != nil {
			t.Fatalf("%s: %q: %v", tt.file, line, err)
		}
		if got := string(ev.Method) + " " + string(parser.AppendPath(nil, ev.Target)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.file, got, tt.want)
		}
	}
}
