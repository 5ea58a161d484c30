package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// base is the least that is accepted. What the tests put behind it begins on
// line 7.
const base = `[logs.nginx]
files = "/var/log/nginx/access.log"
[jails.web]
limit = 50
window = "60s"
ban = "1h"
`

const (
	fw   = "[actions.fw]\ntype = \"nftables\"\n" // two lines
	jail = "[jails.x]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\n"
	want = "[wanted.up]\nagent = \"Up\"\nagent_only = true\nlimit = 9\nwindow = \"1s\"\n"
)

// TestBad takes the documents that testdata/script has for every rule, with
// exactly what is said about each: NAME.toml and NAME.txt. The scripts there run
// the program on them.
func TestBad(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/script/bad-*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	documents := 0
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, f := range archive.Files {
			want[f.Name] = string(f.Data)
		}
		for _, f := range archive.Files {
			name, ok := strings.CutSuffix(f.Name, ".toml")
			if !ok {
				continue
			}
			documents++
			t.Run(name, func(t *testing.T) {
				_, err := Parse(f.Name, f.Data, nil)
				var ps Problems
				if !errors.As(err, &ps) {
					t.Fatalf("no problems but %v", err)
				}
				// The last line is how many there are.
				if got := ps.Error() + "\n"; !strings.HasPrefix(want[name+".txt"], got+"tailban: ") {
					t.Errorf("problems of\n%s\ngot\n%s\nwant\n%s", f.Data, got, want[name+".txt"])
				}
				if run := "! exec tailban check -c " + f.Name + "\ncmp stderr " + name + ".txt\n"; !strings.Contains(string(archive.Comment), run) {
					t.Errorf("%s doesn't run this", path)
				}
			})
		}
	}
	if documents < 110 {
		t.Errorf("only %d documents found: have they moved?", documents)
	}
}

// check parses the document and compares all problems.
func check(t *testing.T, doc string, env []string, want string) {
	t.Helper()
	c, err := Parse("jails.toml", []byte(doc), env)
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatalf("Parse: %v, %v; want problems", c, err)
	}
	if c != nil {
		t.Errorf("a configuration beside problems: %+v", c)
	}
	if got := ps.Error(); got != want {
		t.Errorf("problems of\n%s\ngot\n%s\nwant\n%s", doc, got, want)
	}
}
