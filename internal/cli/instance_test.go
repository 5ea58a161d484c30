package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

// TestCheckOfInstances is that names that any host has are warned of.
func TestCheckOfInstances(t *testing.T) {
	for _, x := range []struct{ host, instance, want string }{
		{"web-1", "", ""},
		{"localhost", "", `goes by "localhost"`},
		{"LocalHost.localdomain", "", `goes by "LocalHost.localdomain"`},
		{"", "", `goes by ""`},
		{"localhost", "web-1", ""},
		{"", "web-1", ""},
		{"web-1", "localhost", `jails.toml:13: actions.edge.instance: this host goes by "localhost"`},
		{"localhost-2", "", ""},
	} {
		text := `trusted_proxies = ["cloudflare"]
[logs.site]
files = "/var/log/nginx/access.log"
format = "nginx"
[jails.web]
limit = 5
window = "60s"
ban = "1h"
[actions.edge]
type = "cloudflare"
account = "0a0b0c0d0e0f00112233445566778899"
token_file = "token"
`
		if x.instance != "" {
			text += "instance = \"" + x.instance + "\"\n"
		}
		path := filepath.Join(t.TempDir(), "jails.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range checkInstances(c, x.host) {
			got += w.String()
		}
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("host %q, instance %q: %q, want %q", x.host, x.instance, got, x.want)
		}
	}
}
