package source

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCovers(t *testing.T) {
	patterns := []string{"/var/log/./a.log", "/var/log/*.txt", "/var/log/[b"}
	for path, want := range map[string]bool{
		"/var/log/a.log": true, "/var/log/b.txt": true, "/var/log/a.log.1": false, "/var/log/c/b.txt": false, "/var/log/b": false,
	} {
		if got := Covers(patterns, path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestGlobFindsNewFiles(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		f := create(t, filepath.Join(dir, "a.log"), "old\n")
		s := begin(t, o, filepath.Join(dir, "*.log"))
		s.ready(f.Name())
		write(t, f, "1\n")
		s.wants("1\n")
		create(t, filepath.Join(dir, "b.log"), "2\n")
		s.wants("1\n2\n")
	})
}

// A glob that also covers rotated names must neither open the renamed file
// again nor read it anew when it has been let go.
func TestGlobCoversRotatedNames(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path+"*")
		s.ready(path)
		write(t, f, "1\n")
		s.wants("1\n")
		rename(t, path, path+".1")
		create(t, path, "2\n")
		create(t, path+".2.gz", "compressed\n")
		s.final(idOf(t, f))
		rename(t, path+".1", path+".2")
		create(t, path+".new", "3\n") // the globs have been looked at since
		s.until("the new files", func([]part) bool { return len(s.text()) >= 6 })
		if !sameLines(s.text(), "1\n2\n3\n") {
			t.Errorf("got %q", s.text())
		}
		write(t, f, "late\n") // long after it was let go
		s.until("the late line", func([]part) bool { return sameLines(s.text(), "1\n2\n3\nlate\n") })
	})
}

func TestRestartWithGlobThatCoversRotatedNames(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		create(t, path+".1", "oldest\n")
		o.Resume = firstRun(t, o, f, "1\n", path+"*")
		write(t, f, "2\n")
		rename(t, path+".1", path+".2")
		rename(t, path, path+".1")
		create(t, path, "3\n")
		s := begin(t, o, path+"*")
		s.final(idOf(t, f))
		s.until("both lines", func([]part) bool { return len(s.text()) >= 4 })
		if !sameLines(s.text(), "2\n3\n") {
			t.Errorf("got %q", s.text())
		}
	})
}

func TestMissingFileIsWaitedFor(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := filepath.Join(t.TempDir(), "sub", "access.log")
		s := begin(t, o, path)
		s.quietUntil("it is missed", func() bool { return s.said.count("does not exist") == 1 })
		if got := s.state(path); got != Waiting {
			t.Errorf("state %q, want %q", got, Waiting)
		}
		must(t, os.Mkdir(filepath.Dir(path), 0o755))
		create(t, path, "from its first byte\n")
		s.wants("from its first byte\n")
		if got := s.said.count("does not exist"); got != 1 {
			t.Errorf("said %d times, want once", got)
		}
	})
}

func TestUnreadableFileIsSaidOnceAndRetried(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every file")
	}
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "old\n")
		must(t, os.Chmod(path, 0))
		s := begin(t, o, path)
		s.quietUntil("it is said", func() bool { return s.said.count("group adm") == 1 })
		write(t, f, "written meanwhile\n")
		must(t, os.Chmod(path, 0o644))
		s.wants("written meanwhile\n")
		if got := s.said.count("group adm"); got != 1 {
			t.Errorf("said %d times, want once", got)
		}
	})
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	tests := map[string]func(t *testing.T, path string){
		"a directory":  func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o755)) },
		"a named pipe": func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o644)) },
	}
	for what, make := range tests {
		t.Run(what, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				make(t, path)
				s := begin(t, o, path)
				s.quietUntil("it is refused", func() bool { return s.said.count(what) == 1 })
				must(t, os.Remove(path))
				create(t, path, "a log at last\n")
				s.wants("a log at last\n")
			})
		})
	}
}

func TestSameFileUnderTwoNamesIsReadOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		must(t, os.Link(path, path+"-too"))
		s := begin(t, o, path, path+"-too", path+"*")
		s.quietUntil("it is followed", func() bool { return len(s.files.Stats().Files) == 1 })
		write(t, f, "1\n")
		s.wants("1\n")
		create(t, path+"-new", "2\n")
		s.wants("1\n2\n")
	})
}

func TestBadPatternStopsNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, filepath.Dir(path)+"/[", path)
		s.ready(path)
		write(t, f, "1\n")
		s.wants("1\n")
		if got := s.said.count("syntax error in pattern"); got != 1 {
			t.Errorf("said %d times, want once:\n%s", got, s.said)
		}
	})
}

func TestCompressed(t *testing.T) {
	for path, want := range map[string]bool{
		"/l/a.log": false, "/l/a.log.1": false, "/l/a.log.2.gz": true, "/l/a.bz2": true,
		"/l/a.log.xz": true, "/l/a.log-20240101.zst": true, "/l/gz": false, "/l/a.gz.log": false,
	} {
		if got := compressed(path); got != want {
			t.Errorf("compressed(%q) = %v, want %v", path, got, want)
		}
	}
}
