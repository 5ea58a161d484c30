package cli

import (
	"os/user"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

func TestCheckOfGroups(t *testing.T) {
	known, err := user.LookupGroupId("0")
	if err != nil {
		t.Skip("this machine has no name for group 0: ", err)
	}
	text := `[logs.site]
files = "/var/log/nginx/access.log"
format = "nginx"
[jails.web]
limit = 5
window = "60s"
ban = "1h"
[actions.kernel]
type = "nftables"
`
	for _, tt := range []struct{ keys, want string }{
		{"", ""},
		{"status_group = \"" + known.Name + "\"\n", ""},
		{"# who may steer\nadmin_group = \"nobody-has-this-group\"\n", `c.toml:2: admin_group: there is no group "nobody-has-this-group"`},
		{"status_group = \"nobody-has-this-group\"\n", `c.toml:1: status_group: there is no group "nobody-has-this-group"`},
	} {
		c, err := config.Parse("c.toml", []byte(tt.keys+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, w := range checkGroups(c) {
			said = append(said, w.String())
		}
		if got := strings.Join(said, "\n"); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: %s; want %s", tt.keys, got, tt.want)
		}
	}
}
