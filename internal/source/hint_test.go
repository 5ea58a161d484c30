package source

import (
	"io/fs"
	"strings"
	"testing"
)

func TestOpenHint(t *testing.T) {
	for path, want := range map[string]string{
		"/var/log/nginx/access.log": "group adm",
		"/home/shop/access.log":     "ProtectHome=",
		"/root/access.log":          "ProtectHome=",
		"/homes/access.log":         "group adm",
	} {
		if got := openHint(path, fs.ErrPermission); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
