package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// What a glob has found may be rotated away before it is looked at, and before
// it is opened. Nobody asked for that name.
func TestWhatAGlobFoundMayVanish(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pattern string
		opened  bool // it vanishes between the look and the opening
		says    int
	}{
		{name: "before the look, by a glob", pattern: "*"},
		{name: "before it is opened, by a glob", pattern: "*", opened: true},
		{name: "before the look, by its name", pattern: ".1", says: 1},
		{name: "before it is opened, by its name", pattern: ".1", opened: true, says: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := logPath(t)
			create(t, path+".1", "")
			said := &logbook{}
			r := newFollower(NewFiles(FilesOptions{
				Log: "web", Patterns: []string{path + tt.pattern}, Logger: slog.New(slog.NewTextHandler(said, nil)),
			}), false)
			r.expand()
			l := lookAt(path + ".1")
			must(t, os.Remove(path+".1"))
			if !tt.opened {
				l = lookAt(path + ".1")
			}
			r.follow(t.Context(), nil, r.names.byPath[path+".1"], l)
			if got := said.count("does not exist"); got != tt.says {
				t.Errorf("said %d times, want %d:\n%s", got, tt.says, said)
			}
			if got := len(r.names.byPath); got != tt.says {
				t.Errorf("%d names are waited for, want %d", got, tt.says)
			}
		})
	}
}

// A glob goes on finding a link that leads nowhere.
func TestALinkThatLeadsNowhereIsSaidOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		link := filepath.Join(dir, "x.log")
		must(t, os.Symlink(filepath.Join(dir, "target"), link))
		s := begin(t, o, filepath.Join(dir, "*.log"))
		s.quietUntil("it is said", func() bool { return s.said.count("leads nowhere") == 1 })
		for _, name := range []string{"a.log", "b.log"} { // each is found by a look at the pattern
			create(t, filepath.Join(dir, name), "")
			s.ready(filepath.Join(dir, name))
		}
		for _, f := range s.files.Stats().Files {
			if f.Path == link && (f.State != Waiting || f.Err == "") {
				t.Errorf("got %+v, want that it waits, and why", f)
			}
		}
		if s.state(link) == "" {
			t.Error("it is not listed")
		}
		if got := s.said.count("level=WARN"); got != 1 {
			t.Errorf("%d warnings, want one:\n%s", got, s.said)
		}
		create(t, filepath.Join(dir, "target"), "from its first byte\n")
		s.wants("from its first byte\n")
	})
}
