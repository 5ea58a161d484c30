package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

// Files that two logs read are told, by the names that they have now.
func TestFilesOfTwoLogs(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(in("a.log"), nil, 0o644), os.WriteFile(in("ab.log"), nil, 0o644), os.Symlink("a.log", in("link")))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, a, b, want string }{
		{"apart", in("a.*"), in("ab*"), ""},
		{"one of two patterns", in("a*.log"), in("ab*"), "4: logs.b.files: " + in("ab.log") + " is also in logs.a: it is read for that log only, as its lines would count twice"},
		{"several", in("a*.log"), in("*.log"), "4: logs.b.files: " + in("a.log") + " and 1 more are also in other logs (it in logs.a): each is read for one log only, as its lines would count twice"},
		{"by another name", in("a.log"), in("li*"), "4: logs.b.files: " + in("link") + " is also in logs.a: it is read for that log only, as its lines would count twice"},
		{"named outright, of which the configuration tells", in("*.log"), in("ab.log"), ""},
	} {
		c, err := config.Parse("jails.toml", fmt.Appendf(nil, "[logs.a]\nfiles = %q\n[logs.b]\nfiles = %q\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n", tt.a, tt.b), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range checkFiles(c, "jails.toml", nil) {
			got = append(got, strings.TrimPrefix(w.String(), "jails.toml:"))
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
