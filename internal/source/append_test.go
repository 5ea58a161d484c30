package source

import (
	"strings"
	"testing"
)

func TestAppendedLinesAreSent(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "old\n")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "one\n")
		s.wants("one\n")
		write(t, f, "two\nthree\n")
		s.wants("one\ntwo\nthree\n")
		first := s.parts[0]
		if first.Start != 4 || first.Next != 8 || first.Pos.Offset != 8 {
			t.Errorf("first batch covers %d to %d with position %d, want 4 to 8 with 8", first.Start, first.Next, first.Pos.Offset)
		}
		if first.File.Path != path || first.File.Log != "web" || first.File.identity() != idOf(t, f) {
			t.Errorf("wrong file %+v", first.File)
		}
	})
}

func TestPartialLineWaitsForItsEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "a\nhalf")
		s.wants("a\n")
		write(t, f, " and half")
		s.quietUntil("the rest is seen", func() bool { return s.files.Stats().Files[0].Behind == 13 })
		write(t, f, "\nb")
		s.wants("a\nhalf and half\n")
	})
}

// A partial line longer than what is simply read again takes another path.
func TestLongPartialLineInPieces(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		want := strings.Repeat("x", 100_000) + "\n"
		for i := 0; i < len(want); i += 7001 {
			write(t, f, want[i:min(i+7001, len(want))])
		}
		write(t, f, "after\n")
		s.wants(want + "after\n")
	})
}

func TestBytesAreUntouched(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		want := "dos\r\nhole\x00\x00\n\xff\xfe not utf-8\n\n\n\r\r\n"
		write(t, f, want)
		s.wants(want)
	})
}

func TestStartsAfterThePartialLineAtTheEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "old\nbegun bef")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "ore\nnew\n")
		s.wants("new\n")
	})
}

func TestFromStart(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		create(t, path, "old\nolder\n")
		o.FromStart = true
		s := begin(t, o, path)
		s.wants("old\nolder\n")
	})
}

func TestSlowConsumerLosesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		// Nobody takes batches while all of this is written and rotated.
		want := strings.Repeat("line of some length\n", 200_000)
		write(t, f, want)
		rename(t, path, path+".1")
		create(t, path, "next\n")
		s.final(idOf(t, f))
		if got := s.of(idOf(t, f)); got != want {
			t.Errorf("%d bytes came, want %d", len(got), len(want))
		}
		s.until("the successor's line", func([]part) bool { return strings.Contains(s.text(), "next\n") })
	})
}
