package source

import (
	"os"
	"strings"
	"testing"
)

func TestTruncationInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "old line\n")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "1\n")
		s.wants("1\n")
		must(t, f.Truncate(0))
		s.quietUntil("the truncation is counted", func() bool { return s.files.Stats().Truncated == 1 })
		write(t, f, "2\n")
		s.wants("1\n2\n")
		if p := s.parts[1]; p.Start != 0 || p.Next != 2 {
			t.Errorf("after truncation a batch of %d to %d, want 0 to 2", p.Start, p.Next)
		}
		if got := s.files.Stats().Gaps; got != 1 {
			t.Errorf("%d gaps, want 1", got)
		}
		if got := s.said.count("truncated in place"); got != 1 {
			t.Errorf("said %d times, want once:\n%s", got, s.said)
		}
	})
}

// The file has outgrown its old length before anybody looks: only its beginning
// tells.
func TestTruncatedAndGrownBeyond(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		create(t, path, "10:00 old line\n")
		o.FromStart = true
		s := begin(t, o, path)
		s.wants("10:00 old line\n")
		// One write replaces the beginning and grows the file.
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		defer w.Close()
		fresh := "11:00 new line\n11:01 another\n"
		write(t, w, fresh)
		s.wants("10:00 old line\n" + fresh)
		if got := s.files.Stats().Replaced; got != 1 {
			t.Errorf("%d replacements counted, want 1", got)
		}
	})
}

// A writer that takes back the beginning of a line has truncated nothing.
func TestPartialLineTakenBack(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "1\nbegun")
		s.wants("1\n")
		s.quietUntil("the partial line is seen", func() bool { return s.files.Stats().Files[0].Behind == 5 })
		must(t, f.Truncate(2))
		write(t, f, "2\n")
		s.wants("1\n2\n")
		if got := s.files.Stats().Truncated; got != 0 {
			t.Errorf("%d truncations counted, want none", got)
		}
	})
}

// Truncated again and again, it is said once and counted each time.
func TestRepeatedTruncationDoesNotFloodTheLog(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		want := ""
		for i := range 5 {
			line := strings.Repeat("x", i+1) + "\n"
			write(t, f, line)
			want += line
			s.wants(want)
			must(t, f.Truncate(0))
			s.quietUntil("it is counted", func() bool { return s.files.Stats().Truncated == int64(i+1) })
		}
		if got := s.said.count("truncated in place"); got != 1 {
			t.Errorf("said %d times, want once:\n%s", got, s.said)
		}
	})
}
