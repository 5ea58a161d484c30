package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/state"
)

// The file of a position is found whatever it is called by now, and whichever
// number its device has got.
func TestLookFor(t *testing.T) {
	content := strings.Repeat("a line of the log\n", 8)
	link := func(t *testing.T, path, target string) {
		check(t, os.RemoveAll(path))
		check(t, os.Symlink(target, path))
	}
	for name, tt := range map[string]struct {
		since   func(t *testing.T, path string) // path is the log's, and what is written to it
		dev     uint64                          // how much the stored number is another
		headLen int
		found   bool
	}{
		"as it was": {func(*testing.T, string) {}, 0, 5, true},
		"renamed":   {func(t *testing.T, path string) { check(t, os.Rename(path, path+".1")) }, 0, 5, true},
		"a link that has moved on to another folder": {func(t *testing.T, path string) {
			days := filepath.Join(filepath.Dir(path), "days")
			check(t, os.Mkdir(days, 0o755))
			check(t, os.Rename(path, filepath.Join(days, "29")))
			check(t, os.WriteFile(filepath.Join(days, "30"), nil, 0o600))
			link(t, path, filepath.Join(days, "30"))
		}, 0, 5, true},
		"a link to nothing":       {func(t *testing.T, path string) { link(t, path, "/nonexistent/30") }, 0, 5, false},
		"removed":                 {func(t *testing.T, path string) { check(t, os.Remove(path)) }, 0, 5, false},
		"another device":          {func(*testing.T, string) {}, 7, 64, true},
		"and renamed":             {func(t *testing.T, path string) { check(t, os.Rename(path, path+".1")) }, 7, 64, true},
		"too little to be sure":   {func(*testing.T, string) {}, 7, 63, false},
		"another device, removed": {func(t *testing.T, path string) { check(t, os.Remove(path)) }, 7, 64, false},
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		check(t, os.WriteFile(path, []byte(content), 0o600))
		var st unix.Stat_t
		check(t, unix.Stat(path, &st))
		p := &state.Position{Path: path, Dev: uint64(st.Dev) + tt.dev, Ino: st.Ino, Head: headHash(content[:tt.headLen]), HeadLen: int64(tt.headLen)}
		tt.since(t, path)
		head, size, _, ok := lookFor(p, int64(tt.headLen))
		if ok != tt.found {
			t.Errorf("%s: found is %v", name, ok)
		} else if ok && (string(head) != content[:tt.headLen] || size != int64(len(content))) {
			t.Errorf("%s: found %q of %d bytes", name, head, size)
		}
	}
}
