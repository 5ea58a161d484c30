package source

import (
	"io"
	"os"
	"testing"
)

// Whatever is written to a log while anybody can write to it counts as
// anybody's, whenever it is looked at.
func TestStrangersCanWriteToAnOpenLog(t *testing.T) {
	for _, tt := range []struct {
		name     string
		insecure bool
		theirs   string
		after    string // what is written once it has been put right
		want     string
		gaps     int64
	}{
		{name: "lines", theirs: "theirs\n", after: "safe\n", want: "first\nsafe\n", gaps: 1},
		{name: "the beginning of a line", theirs: "the", after: "irs\nsafe\n", want: "first\nsafe\n", gaps: 1},
		{name: "nothing", after: "safe\n", want: "first\nsafe\n"},
		{name: "allowed", insecure: true, theirs: "theirs\n", after: "safe\n", want: "first\ntheirs\nsafe\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, "")
				o.AllowInsecure = tt.insecure
				s := begin(t, o, path)
				s.ready(path)
				write(t, f, "first\n")
				s.wants("first\n")
				must(t, os.Chmod(path, 0o666))
				write(t, f, tt.theirs)
				if tt.insecure {
					s.wants("first\ntheirs\n")
				} else {
					s.quietUntil("it is refused", func() bool { return s.state(path) == Refused && s.files.Stats().Files[0].Behind == 0 })
				}
				must(t, os.Chmod(path, 0o640))
				s.ready(path)
				write(t, f, tt.after)
				s.wants(tt.want)
				st := s.files.Stats()
				if bytes := int64(len(tt.theirs)) * tt.gaps; st.Gaps != tt.gaps || st.GapBytes != bytes {
					t.Errorf("%d gaps of %d bytes, want %d of %d", st.Gaps, st.GapBytes, tt.gaps, bytes)
				}
				if left := int64(len("first\n"+tt.theirs)) * tt.gaps; s.positions[idOf(t, f)].Left != left {
					t.Errorf("got %+v, want it to say that all up to %d was left out", s.positions[idOf(t, f)], left)
				}
				said := 1
				if tt.insecure {
					said = 0
				}
				for _, text := range []string{"no longer read", "is read again"} {
					if got := s.said.count(text); got != said {
						t.Errorf("%q said %d times, want %d:\n%s", text, got, said, s.said)
					}
				}
			})
		})
	}
}

// Nor is it read after a restart, whenever it was put right.
func TestWhatStrangersWroteIsNotReadAfterARestart(t *testing.T) {
	for _, tt := range []struct {
		name    string
		noticed bool // that it was exposed, before the stop
		more    bool // strangers go on while stopped
		right   bool // it was put right before the start
		refused bool // or before the next one
	}{
		{name: "put right while stopped", noticed: true, right: true},
		{name: "put right later, while stopped", noticed: true, more: true, right: true},
		{name: "put right after the start", noticed: true},
		{name: "exposed while stopped"},
		{name: "exposed while stopped, put right for the next start", refused: true},
		{name: "put right for the next start", noticed: true, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, "")
				o.StartAt = func(io.ReaderAt, int64) int64 { return 0 }
				s := begin(t, o, path)
				s.ready(path)
				write(t, f, "first\n")
				s.wants("first\n")
				expose := func() {
					must(t, os.Chmod(path, 0o666))
					write(t, f, "theirs\n")
				}
				if tt.noticed {
					expose()
					s.quietUntil("it is passed", func() bool { return s.positions[idOf(t, f)].Offset == int64(len("first\ntheirs\n")) })
				}
				o.Resume = s.stop()
				if !tt.noticed {
					expose()
				}
				if tt.more {
					write(t, f, "theirs, too\n")
				}
				if tt.refused {
					s = begin(t, o, path)
					s.quietUntil("it is refused and that is known", func() bool { return s.state(path) == Refused && s.positions[idOf(t, f)].Exposed })
					o.Resume = s.stop()
					write(t, f, "theirs, too\n")
				}
				if tt.right || tt.refused {
					must(t, os.Chmod(path, 0o640))
				}
				s = begin(t, o, path)
				if !tt.right && !tt.refused {
					s.quietUntil("it is refused", func() bool { return s.state(path) == Refused })
					write(t, f, "theirs, too\n")
					must(t, os.Chmod(path, 0o640))
				}
				s.ready(path)
				left := lookAt(path).size
				write(t, f, "safe\n")
				s.wants("safe\n")
				if p := s.positions[idOf(t, f)]; p.Left != left || p.Exposed {
					t.Errorf("got %+v, want it to say that all up to %d was left out", p, left)
				}
			})
		})
	}
}

// A log that was refused at its first start is no other.
func TestLogThatWasRefusedAtItsFirstStart(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "theirs\n")
		must(t, os.Chmod(path, 0o666))
		o.StartAt = func(io.ReaderAt, int64) int64 { return 0 }
		s := begin(t, o, path)
		s.quietUntil("it is refused and that is known", func() bool { return s.state(path) == Refused && s.positions[idOf(t, f)].Exposed })
		o.Resume = s.stop()
		write(t, f, "theirs, too\n")
		must(t, os.Chmod(path, 0o640))
		s = begin(t, o, path)
		s.ready(path)
		write(t, f, "safe\n")
		s.wants("safe\n")
		if s.said.count("what was in it by then is left out") != 1 {
			t.Errorf("not said:\n%s", s.said)
		}
	})
}

// Where what they wrote ends is known also of a file that was read to its end, and
// no longer once the file holds something else.
func TestWhereWhatStrangersWroteEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		for _, next := range []string{"first\n", "second\n"} {
			before := s.text()
			write(t, f, next)
			s.wants(before + next)
			must(t, os.Chmod(path, 0o666))
			write(t, f, "theirs\n")
			s.quietUntil("it is passed", func() bool { return s.positions[idOf(t, f)].Left == int64(len(next+"theirs\n")) })
			if next == "second\n" {
				break
			}
			must(t, f.Truncate(0))
			s.quietUntil("it begins anew", func() bool { p := s.positions[idOf(t, f)]; return p.Offset == 0 && p.Left == 0 })
			must(t, os.Chmod(path, 0o640))
			s.ready(path)
		}
		rename(t, path, path+".1")
		create(t, path, "")
		s.final(idOf(t, f))
		if last := s.parts[len(s.parts)-1]; last.Pos.Left != int64(len("second\ntheirs\n")) {
			t.Errorf("the last batch is at %+v", last.Pos)
		}
	})
}
