package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

// What the beginning of a log tells of the proxies in front of its server.
func TestForwardingInTheSample(t *testing.T) {
	lines := func(n int, peer, header func(i int) string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s - - [05/Mar/2026:10:00:01 +0100] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\" \"%s\"\n", peer(i), header(i))
		}
		return b.String()
	}
	one := func(s string) func(int) string { return func(int) string { return s } }
	each := func(prefix string) func(int) string {
		return func(i int) string { return fmt.Sprintf("%s%d", prefix, 1+i) }
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.log")
	at := "jails.toml:3: logs.a.format: "
	proxy := func(addr string) string {
		return at + "lines of " + file + " hold a forwarding header, as from the proxy " + addr + ", but no proxy is trusted: that proxy would be banned: set trusted_proxies"
	}
	for _, tt := range []struct{ name, top, log, text, want string }{
		{"no header", "", "", lines(90, one("198.51.100.7"), one("-")), ""},
		{"a private proxy", "", "", lines(3, one("10.0.0.2"), each("203.0.113.")), proxy("10.0.0.2")},
		{"too few lines", "", "", lines(2, one("10.0.0.2"), each("203.0.113.")), ""},
		{"a proxy on the Internet", "", "", lines(50, one("198.51.100.7"), each("203.0.113.")), proxy("198.51.100.7")},
		{"too few to tell", "", "", lines(49, one("198.51.100.7"), each("203.0.113.")), ""},
		{"many clients with a header", "", "", lines(90, each("198.51.100."), one("203.0.113.9")), ""},
		{"few clients, one with a header", "", "", lines(90, one("198.51.100.7"), func(i int) string { return []string{"-", "-", "203.0.113.9"}[i%3] }), ""},
		{"the header names the peer", "", "", lines(90, one("10.0.0.2"), one("10.0.0.2")), ""},
		{"trusted", "trusted_proxies = \"10.0.0.0/8\"\n", "", lines(90, one("10.0.0.2"), each("203.0.113.")), ""},
		{"rewritten", "", "peer = \"rewritten\"\n", lines(90, one("198.51.100.7"), each("203.0.113.")), ""},
		{"of which the configuration tells", "", `format = '$realip_remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"'` + "\n",
			lines(90, one("10.0.0.2"), each("203.0.113.")), ""},
		{"no header at all", "", "", lines(90, each("198.51.100."), one("0.012")),
			at + "what stands in the place of the forwarding header is no address in 90 of the first 90 lines of " + file + ": see tailban probe"},
		{"garbage from a client", "", "", lines(90, each("198.51.100."), func(i int) string { return []string{"-", "x", "203.0.113.9"}[i%3] }), ""},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(tt.log, "format") {
			tt.log = "format = \"nginx\"\n" + tt.log
		}
		text := fmt.Sprintf("%s[logs.a]\nfiles = %q\n%s[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n", tt.top, file, tt.log)
		c, err := config.Parse("jails.toml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range checkFiles(c, "jails.toml", nil) {
			got = append(got, w.String())
		}
		if s := strings.Join(got, "\n"); s != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, s, tt.want)
		}
	}
}
