package source

import (
	"os"
	"strings"
	"testing"
	"time"
)

// nginx writes to the renamed file until it is told to re-open.
func TestWriterKeepsTheRenamedFileForAWhile(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		old := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, old, "1\n")
		s.wants("1\n")
		rename(t, path, path+".1")
		write(t, old, "2\n")
		s.wants("1\n2\n")
		s.quietUntil("the rename is noticed", func() bool { return s.state(path) == Waiting || s.state(path) == Renamed })
		write(t, old, "3\n")
		s.wants("1\n2\n3\n")
		successor := create(t, path, "a\n")
		s.wants("1\n2\n3\na\n")
		write(t, old, "4\n")
		s.wants("1\n2\n3\na\n4\n")
		write(t, old, "unterminated")
		s.final(idOf(t, old))
		if got := s.of(idOf(t, old)); got != "1\n2\n3\n4\nunterminated" {
			t.Errorf("of the renamed file came %q", got)
		}
		write(t, successor, "b\n")
		s.until("the successor's second line", func([]part) bool { return s.of(idOf(t, successor)) == "a\nb\n" })
		s.quietUntil("only the successor is open", func() bool { return len(s.files.Stats().Files) == 1 })
	})
}

func TestRenameAndInstantRecreation(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		old := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, old, "1\n")
		rename(t, path, path+".1")
		successor := create(t, path, "2\n")
		write(t, old, "3\n")
		s.final(idOf(t, old))
		s.until("all lines", func([]part) bool {
			return s.of(idOf(t, old)) == "1\n3\n" && s.of(idOf(t, successor)) == "2\n"
		})
	})
}

// As logrotate does with create, several times: shift, rename, create.
func TestRepeatedRotation(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		var want strings.Builder
		for _, line := range []string{"a\n", "b\n", "c\n", "d\n"} {
			write(t, f, line)
			want.WriteString(line)
			s.wants2(want.String())
			_ = os.Rename(path+".1", path+".2")
			rename(t, path, path+".1")
			f = create(t, path, "")
		}
		s.until("old files to be let go", func([]part) bool { return s.finals() == 4 })
	})
}

// wants2 is wants for several files: final batches may come in between.
func (s *session) wants2(want string) {
	s.t.Helper()
	s.until(want, func([]part) bool { return s.text() == want })
}

func (s *session) finals() (n int) {
	for _, p := range s.parts {
		if p.Final {
			n++
		}
	}
	return n
}

func TestRotationWithNobodyWriting(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		old := create(t, path, "old\n")
		s := begin(t, o, path)
		s.ready(path)
		rename(t, path, path+".1")
		create(t, path, "")
		s.final(idOf(t, old))
		if s.text() != "" {
			t.Errorf("got %q from a file nobody wrote to", s.text())
		}
		if p := s.parts[0]; p.Start != 4 || p.Next != 4 {
			t.Errorf("final batch at %d, want 4", p.Next)
		}
	})
}

func TestWithoutSuccessorTheFileIsKept(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.Grace = time.Millisecond
		s := begin(t, o, path)
		s.ready(path)
		rename(t, path, path+".1")
		s.quietUntil("the rename is noticed", func() bool { return s.state(path) == Waiting || s.state(path) == Renamed })
		write(t, f, "1\n")
		s.wants("1\n")
		rename(t, path+".1", path)
		s.quietUntil("it has its name again", func() bool {
			all := s.files.Stats().Files
			return len(all) == 1 && all[0].State == Following
		})
		write(t, f, "2\n")
		s.wants("1\n2\n")
	})
}

func TestDeleteAndRecreate(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		old := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, old, "1\n")
		s.wants("1\n")
		must(t, os.Remove(path))
		write(t, old, "2\n")
		s.wants("1\n2\n")
		successor := create(t, path, "3\n")
		s.wants("1\n2\n3\n")
		s.final(idOf(t, old))
		write(t, successor, "4\n")
		s.until("the next line", func([]part) bool { return s.text() == "1\n2\n3\n4\n" })
	})
}

func TestSymbolicLinkIsSwitched(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		a := create(t, path+"-a", "")
		must(t, os.Symlink(path+"-a", path))
		s := begin(t, o, path)
		s.ready(path)
		write(t, a, "1\n")
		s.wants("1\n")
		create(t, path+"-b", "2\n")
		must(t, os.Symlink(path+"-b", path+".new"))
		rename(t, path+".new", path)
		s.wants("1\n2\n")
		write(t, a, "3\n")
		s.final(idOf(t, a))
		if got := s.of(idOf(t, a)); got != "1\n3\n" {
			t.Errorf("of the first target came %q", got)
		}
	})
}
