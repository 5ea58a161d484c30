package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logrotate's copytruncate, by a name and by a pattern that covers the copies
// as well: what was read does not come again, what was not is in the copy.
func TestCopyTruncate(t *testing.T) {
	for _, pattern := range []string{"access.log", "access.log*"} {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			f := create(t, path, "")
			s := begin(t, o, filepath.Join(filepath.Dir(path), pattern))
			s.ready(path)
			want := ""
			for round := range 3 {
				lines := numberedLines(3*round, 3*round+1)
				write(t, f, lines)
				want += lines
				s.until("the lines", func([]part) bool { return sameLines(s.text(), want) })
				// Nobody takes this one before it is cut off.
				write(t, f, numberedLine(3*round+2))
				want += numberedLine(3*round + 2)
				for i := round; i > 0; i-- {
					rename(t, path+"."+string(rune('0'+i)), path+"."+string(rune('1'+i)))
				}
				duplicate(t, path, path+".1")
				must(t, f.Truncate(0))
			}
			write(t, f, "end\n")
			want += "end\n"
			s.until("all lines", func([]part) bool { return len(s.text()) >= len(want) })
			live := s.settle(path)
			if !sameLines(s.text(), want+live) {
				t.Errorf("got %q, want %q\n%s", s.text(), want+live, s.said)
			}
		})
	}
}

// A copy is not read while it is being made, nor what is added to it then; a
// file that only has a related name is.
func TestCopyInTheMaking(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path+"*")
		s.ready(path)
		write(t, f, numberedLines(1, 9))
		s.wants(numberedLines(1, 9))
		copied := create(t, path+".1", "")
		other := create(t, path+".other", numberedLines(5, 6))
		s.wants(numberedLines(1, 9) + numberedLines(5, 6))
		for n := 1; n <= 9; n++ {
			write(t, copied, numberedLine(n))
			write(t, other, "more\n")
			s.until("the other file", func([]part) bool { return strings.Count(s.text(), "more\n") == n })
		}
		if want := numberedLines(1, 9) + numberedLines(5, 6) + strings.Repeat("more\n", 9); s.text() != want {
			t.Errorf("got %q", s.text())
		}
	})
}

// The same if the copy is begun just before the first start.
func TestCopyInTheMakingAtTheStart(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, numberedLines(1, 5))
		copied := create(t, path+".1", "")
		o.FromStart = true
		s := begin(t, o, path+"*")
		s.wants(numberedLines(1, 5))
		write(t, copied, numberedLines(1, 5))
		of := idOf(t, copied)
		s.until("the copy is known", func([]part) bool { return s.positions[of].Done })
		write(t, f, "live\n")
		s.wants(numberedLines(1, 5) + "live\n")
	})
}

// An editor stores another file under the name: its old lines were read.
func TestStoredAnewWhileFollowed(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, numberedLines(1, 3))
		s.wants(numberedLines(1, 3))
		must(t, os.WriteFile(path+"~", []byte(numberedLines(1, 4)), 0o644))
		rename(t, path+"~", path)
		s.wants(numberedLines(1, 4))
	})
}

// The known faults of others in reading, with files as they were there.
func TestKnownFaults(t *testing.T) {
	t.Run("rotation between files that begin alike", func(t *testing.T) {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			create(t, path, "\n"+numberedLines(1, 9))
			o.FromStart = true
			s := begin(t, o, path)
			s.wants("\n" + numberedLines(1, 9))
			rename(t, path, path+".1")
			create(t, path, "\n"+numberedLines(1, 2))
			s.until("the new file", func([]part) bool { return strings.HasSuffix(s.text(), "\n\n"+numberedLines(1, 2)) })
		})
	})
	t.Run("renamed, for a moment covered by the pattern, compressed", func(t *testing.T) {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.log")
			create(t, path, "")
			s := begin(t, o, filepath.Join(dir, "*.log"))
			s.ready(path)
			old := filepath.Join(dir, "x-2026-03-13T03-15-51.642.log")
			rename(t, path, old)
			f := create(t, path, "")
			pack(t, old)
			write(t, f, "after\n")
			s.wants("after\n")
			if s.said.count("level=WARN") != 0 {
				t.Errorf("a vanished file is no reason to warn:\n%s", s.said)
			}
		})
	})
	t.Run("folder that does not exist yet", func(t *testing.T) {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			dir := filepath.Join(t.TempDir(), "app", "log")
			s := begin(t, o, filepath.Join(dir, "log_*.log"))
			s.quietUntil("one warning", func() bool { return s.said.count("no file matches") == 1 })
			must(t, os.MkdirAll(dir, 0o755))
			create(t, filepath.Join(dir, "log_20261129.log"), "one\n")
			s.wants("one\n")
			create(t, filepath.Join(dir, "log_20261130.log"), "two\n")
			s.wants("one\ntwo\n")
		})
	})
	t.Run("a link of a container's log moved on", func(t *testing.T) {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			o.Container = CRI
			path := logPath(t)
			create(t, path+"-0", "")
			must(t, os.Symlink(path+"-0", path))
			s := begin(t, o, path)
			s.ready(path)
			f := create(t, path+"-1", "")
			must(t, os.Remove(path))
			must(t, os.Symlink(path+"-1", path))
			write(t, f, "2026-11-29T12:39:01.5Z stdout F a line\n")
			s.wants("a line\n")
		})
	})
	t.Run("a line that is not finished yet", func(t *testing.T) {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			f := create(t, path, "")
			s := begin(t, o, path)
			s.ready(path)
			write(t, f, `"GET /sta`)
			s.quietUntil("it is seen", func() bool { return s.files.Stats().Files[0].Behind == 9 && !s.files.Stats().Files[0].Since.IsZero() })
			write(t, f, "tic/a.css\n")
			s.wants("\"GET /static/a.css\n")
		})
	})
}

// A copy that isn't read is all that is left when the log is truncated while
// nobody looks: what was not read is in it.
func TestKnownCopyOfWhatIsTruncatedWhileStopped(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path+"*")
		s.ready(path)
		write(t, f, numberedLines(1, 3))
		s.wants(numberedLines(1, 3))
		of := idOf(t, create(t, path+".1", numberedLines(1, 5)))
		s.until("the copy is known", func([]part) bool { return s.positions[of].Done })
		o.Resume = s.stop()
		must(t, f.Truncate(0))
		write(t, f, "new\n")
		s = begin(t, o, path+"*")
		want := numberedLines(4, 5) + "new\n"
		s.until("the rest", func([]part) bool { return len(s.text()) >= len(want) })
		if !sameLines(s.text(), want) {
			t.Errorf("got %q, want %q", s.text(), want)
		}
	})
}

// The position of a compressed file is forgotten after that of the file that it
// was made of, by which it would be found and read again.
func TestPositionOfACompressedFileIsKeptLonger(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, numberedLines(1, 3))
		s.wants(numberedLines(1, 3))
		was := idOf(t, f)
		o.Resume = s.stop()
		write(t, f, numberedLines(4, 5))
		rename(t, path, path+".1")
		pack(t, path+".1")
		packedAs := lookAt(path + ".1.gz").id
		packedAs.dev |= packed
		create(t, path, "new\n")
		s = begin(t, o, path)
		s.until("the rest", func([]part) bool { return strings.Contains(s.text(), numberedLines(4, 5)) })
		o.Resume = s.stop()
		if s.positions[was].Path == "" || s.positions[packedAs].Path == "" {
			t.Fatalf("not both positions are stored: %v", s.positions)
		}
		s = begin(t, o, path)
		forgotten := func(id identity) bool { _, ok := s.positions[id]; return !ok }
		s.until("both are forgotten", func([]part) bool {
			if forgotten(packedAs) && !forgotten(was) {
				t.Fatal("the position of the compressed file is forgotten first")
			}
			return forgotten(packedAs) && forgotten(was)
		})
		if strings.Contains(s.text(), numberedLine(4)) {
			t.Errorf("read again: %q", s.text())
		}
	})
}
