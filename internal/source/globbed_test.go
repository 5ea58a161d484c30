package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

func TestFoldersThatCantBeLookedInto(t *testing.T) {
	asUser(t)
	dir := t.TempDir()
	for _, d := range []string{"a/logs", "b/logs", "c/logs", "d"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	create(t, filepath.Join(dir, "file"), "")
	for d, mode := range map[string]os.FileMode{"b": 0, "c/logs": 0o300, "d": 0o100} {
		path := filepath.Join(dir, d)
		must(t, os.Chmod(path, mode))
		t.Cleanup(func() { must(t, os.Chmod(path, 0o700)) })
	}
	for pattern, want := range map[string]string{
		"a/logs/*.log":     "",
		"b/*.log":          "b",
		"b/logs/*.log":     "b/logs",
		"b/x*/access.log":  "b",
		"none/*.log":       "",
		"file/*.log":       "",
		"*/access.log":     "b",
		"c/logs/*":         "c/logs",
		"c/*/access.log":   "",
		"d/*":              "d",
		"*/logs/*.log":     "b c/logs",
		"*/logs/access.lo": "b",
	} {
		var got []string
		for _, d := range barred(filepath.Join(dir, pattern)) {
			got = append(got, strings.TrimPrefix(d, dir+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

// A pattern in a folder that may not be entered is as bad as a file that may
// not be read, and what was there at the start is no news when it can be.
func TestPatternInAFolderThatMayNotBeEntered(t *testing.T) {
	asUser(t)
	for _, tt := range []struct {
		name  string
		file  string
		again bool // it can be entered from the next start on
	}{
		{name: "while it runs", file: "*.log"},
		{name: "before the next start", file: "*.log", again: true},
		{name: "a name, while it runs", file: "access.log"},
		{name: "a name, before the next start", file: "access.log", again: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				dir := filepath.Dir(path)
				f := create(t, path, "old\n")
				must(t, os.Chmod(dir, 0))
				t.Cleanup(func() { must(t, os.Chmod(dir, 0o700)) })
				pattern := filepath.Join(dir, tt.file)
				other := logPath(t)
				create(t, other, "")
				s := begin(t, o, pattern, other)
				s.ready(other)
				s.quietUntil("it is said", func() bool { return s.said.count("group adm") == 1 })
				if got := s.state(pattern); got != Failing {
					t.Errorf("the pattern is %q, want %q", got, Failing)
				}
				if got := s.said.count("no file matches"); got != 0 {
					t.Errorf("said that no file matches:\n%s", s.said)
				}
				s.quietUntil("the other is marked", func() bool { return len(s.positions) >= 2 })
				if tt.again {
					o.Resume = s.stop()
				}
				must(t, os.Chmod(dir, 0o700))
				if tt.again {
					s = begin(t, o, pattern, other)
				}
				s.ready(path)
				write(t, f, "new\n")
				s.wants("new\n")
				if tt.file == "access.log" {
					return
				}
				create(t, filepath.Join(dir, "born.log"), "born\n")
				s.wants("new\nborn\n")
				if got := s.state(pattern); got != "" {
					t.Errorf("the pattern is still %q", got)
				}
			})
		})
	}
}
