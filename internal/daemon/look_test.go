package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/state"
)

// The file of a position is found whatever it is called by now.
func TestLookFor(t *testing.T) {
	const headLen = 5
	content := strings.Repeat("a line of the log\n", 8)
	link := func(t *testing.T, path, target string) {
		check(t, os.RemoveAll(path))
		check(t, os.Symlink(target, path))
	}
	for name, tt := range map[string]struct {
		since func(t *testing.T, path string) // path is the log's, and what is written to it
		found bool
	}{
		"as it was": {func(*testing.T, string) {}, true},
		"renamed":   {func(t *testing.T, path string) { check(t, os.Rename(path, path+".1")) }, true},
		"a link that has moved on to another folder": {func(t *testing.T, path string) {
			days := filepath.Join(filepath.Dir(path), "days")
			check(t, os.Mkdir(days, 0o755))
			check(t, os.Rename(path, filepath.Join(days, "29")))
			check(t, os.WriteFile(filepath.Join(days, "30"), nil, 0o600))
			link(t, path, filepath.Join(days, "30"))
		}, true},
		"a link to nothing": {func(t *testing.T, path string) { link(t, path, "/nonexistent/30") }, false},
		"removed":           {func(t *testing.T, path string) { check(t, os.Remove(path)) }, false},
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		check(t, os.WriteFile(path, []byte(content), 0o600))
		var st unix.Stat_t
		check(t, unix.Stat(path, &st))
		p := &state.Position{Path: path, Dev: uint64(st.Dev), Ino: st.Ino, Head: headHash(content[:headLen]), HeadLen: headLen}
		tt.since(t, path)
		head, size, ok := lookFor(p, headLen)
		if ok != tt.found {
			t.Errorf("%s: found is %v", name, ok)
		} else if ok && (string(head) != content[:headLen] || size != int64(len(content))) {
			t.Errorf("%s: found %q of %d bytes", name, head, size)
		}
	}
}
