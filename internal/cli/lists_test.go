package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/lists"
)

// Lists that are more than a year old are warned of, where they are used.
func TestOldLists(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list.json")
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.WriteFile(path, []byte(`{"creationTime": "2020-01-01T00:00:00", "prefixes": [{"ipv4Prefix": "203.0.113.0/24"}]}`), 0o600))
	c, err := config.Parse("jails.toml", fmt.Appendf(nil, `allow = ["192.0.2.1",
"file:%s"]
[logs.nginx]
files = "/var/log/nginx/access.log"
[jails.web]
limit = 50
window = "60s"
ban = "1h"
[deny]
ban = "1d"
from = ["googlebot", "file:%s"]
`, path, path), nil)
	check(err)
	said := func(now time.Time) string {
		var out []string
		for _, w := range checkAges(c, now) {
			out = append(out, strings.ReplaceAll(w.String(), path, "FILE"))
		}
		return strings.Join(out, "\n")
	}
	google, _ := lists.Lookup("googlebot")
	of, err := time.Parse(time.DateOnly, google.Date)
	check(err)
	const old = `jails.toml:1: allow: the ranges of FILE are of 2020-01-01, more than a year old: get a newer one
jails.toml:11: deny.from: the ranges of FILE are of 2020-01-01, more than a year old: get a newer one`
	if got := said(of.AddDate(0, 11, 0)); got != old {
		t.Errorf("got\n%s\nwant\n%s", got, old)
	}
	want := "jails.toml:11: deny.from: the ranges of googlebot are of " + google.Date +
		", more than a year old: lists.refresh keeps them current, or a newer tailban may have newer ones, or else a file: " + google.Sources[0] + "\n" + old
	if got := said(of.AddDate(1, 0, 2)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := said(time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC)); got != "" {
		t.Errorf("before that: %s", got)
	}
}
