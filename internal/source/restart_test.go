package source

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// firstRun follows path until line has been written and read, and returns the
// acknowledged positions.
func firstRun(t *testing.T, o FilesOptions, f *os.File, line string, patterns ...string) []Position {
	t.Helper()
	s := begin(t, o, patterns...)
	s.ready(f.Name())
	write(t, f, line)
	s.wants(line)
	return s.stop()
}

func TestRestart(t *testing.T) {
	const before = "10:00 before the stop\n"
	tests := []struct {
		name      string
		meanwhile func(t *testing.T, path string, f *os.File)
		want      string // afterwards, in any order of files; then "live\n" is appended to path
		gaps      int64
		finals    int
		says      string
	}{
		{
			name:      "unchanged",
			meanwhile: func(*testing.T, string, *os.File) {},
		},
		{
			name:      "grown",
			meanwhile: func(t *testing.T, _ string, f *os.File) { write(t, f, "while stopped\n") },
			want:      "while stopped\n",
		},
		{
			name: "rotated",
			meanwhile: func(t *testing.T, path string, f *os.File) {
				write(t, f, "rest of the old one\n")
				rename(t, path, path+".1")
				create(t, path, "new one\n")
			},
			want:   "rest of the old one\nnew one\n",
			finals: 1,
		},
		{
			name: "rotated without a rest",
			meanwhile: func(t *testing.T, path string, f *os.File) {
				rename(t, path, path+".1")
				create(t, path, "new one\n")
			},
			want:   "new one\n",
			finals: 1,
		},
		{
			name: "renamed, nothing in its place yet",
			meanwhile: func(t *testing.T, path string, f *os.File) {
				write(t, f, "rest of the old one\n")
				rename(t, path, path+".1")
			},
			want: "rest of the old one\n",
		},
		{
			name: "truncated",
			meanwhile: func(t *testing.T, _ string, f *os.File) {
				must(t, f.Truncate(0))
				write(t, f, "short\n")
			},
			want: "short\n",
			gaps: 1,
			says: "replaced or truncated since it was last read",
		},
		{
			name: "truncated and grown beyond",
			meanwhile: func(t *testing.T, _ string, f *os.File) {
				must(t, f.Truncate(0))
				write(t, f, "11:00 something that is longer than what was there\n")
			},
			want: "11:00 something that is longer than what was there\n",
			gaps: 1,
			says: "replaced or truncated since it was last read",
		},
		{
			name: "gone, another in its place",
			meanwhile: func(t *testing.T, path string, f *os.File) {
				// f is still open, so its number is not used again.
				must(t, os.Remove(path))
				create(t, path, "new one\n")
			},
			want:   "new one\n",
			gaps:   1,
			finals: 1, // of the lost one, so that its position is forgotten
			says:   "a file read before is gone",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, "")
				o.Resume = firstRun(t, o, f, before, path)
				if len(files(o.Resume)) != 1 {
					t.Fatalf("positions %+v, want one", o.Resume)
				}
				tt.meanwhile(t, path, f)
				s := begin(t, o, path)
				s.until("all lines and files", func([]part) bool {
					return len(s.text()) >= len(tt.want) && s.finals() == tt.finals
				})
				if !sameLines(s.text(), tt.want) {
					t.Errorf("got %q, want %q", s.text(), tt.want)
				}
				s.checkLive(path, tt.want)
				if got := s.files.Stats().Gaps; got != tt.gaps {
					t.Errorf("%d gaps, want %d", got, tt.gaps)
				}
				if tt.says != "" && s.said.count(tt.says) != 1 {
					t.Errorf("want %q said once:\n%s", tt.says, s.said)
				}
			})
		})
	}
}

// checkLive appends to path (creating it if need be): nothing but that line may
// come.
func (s *session) checkLive(path, before string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must(s.t, err)
	defer f.Close()
	// Until it is open its lines would be old ones.
	s.quietUntil("the log is followed", func() bool {
		for _, p := range s.files.Stats().Files {
			if p.Path == path && p.State == Following {
				return true
			}
		}
		return false
	})
	write(s.t, f, "live\n")
	s.until("the live line", func([]part) bool { return strings.HasSuffix(s.text(), "live\n") })
	if !sameLines(s.text(), before+"live\n") {
		s.t.Errorf("got %q, want %q and a live line", s.text(), before)
	}
}

func sameLines(a, b string) bool {
	count := make(map[string]int)
	for l := range strings.SplitAfterSeq(a, "\n") {
		count[l]++
	}
	for l := range strings.SplitAfterSeq(b, "\n") {
		count[l]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// Stopped again before the rotated file is finished: its position is kept under
// the name that is followed, and leads to it once more.
func TestRestartTwiceDuringRotation(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		old := create(t, path, "")
		o.Resume = firstRun(t, o, old, "1\n", path)
		write(t, old, "2\n")
		rename(t, path, path+".1")
		create(t, path, "a\n")
		s := begin(t, o, path)
		s.until("both files", func([]part) bool { return sameLines(s.text(), "2\na\n") })
		o.Resume = s.stop()
		for _, p := range o.Resume {
			if p.Path != path {
				t.Errorf("position of %q, want %q", p.Path, path)
			}
		}
		write(t, old, "3\n")
		s = begin(t, o, path)
		s.final(idOf(t, old))
		if s.text() != "3\n" {
			t.Errorf("got %q, want the line written while stopped", s.text())
		}
		if got := s.files.Stats().Gaps; got != 0 {
			t.Errorf("%d gaps, want none", got)
		}
	})
}

// A log in which nothing was written before the stop has a position as well.
func TestRestartOfAnIdleLog(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "old\nbegun bef")
		s := begin(t, o, path)
		s.ready(path)
		o.Resume = s.stop()
		write(t, f, "ore\nwhile stopped\n")
		s = begin(t, o, path)
		s.wants("while stopped\n")
	})
}

func TestPositionsOfOtherLogsAreIgnored(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "one\ntwo\n")
		id := idOf(t, f)
		o.Resume = []Position{{Log: "other", Path: path, Dev: id.dev, Ino: id.ino, Offset: 4}}
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "three\n")
		s.wants("three\n")
	})
}

// A stored position in the middle of a long past is caught up with.
func TestCatchUpAcrossManyBlocks(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.Resume = firstRun(t, o, f, "first\n", path)
		want := strings.Repeat(strings.Repeat("y", 997)+"\n", 6000)
		write(t, f, want)
		s := begin(t, o, path)
		s.wants(want)
		if got := s.parts[0].Pos; got.HeadLen != headMax {
			t.Errorf("head of %d bytes, want %d", got.HeadLen, headMax)
		}
	})
}

// otherDevice makes stored positions of files those of another device, as after
// a boot that numbers devices in another way.
func otherDevice(stored []Position, add int) []Position {
	out := slices.Clone(stored)
	for i := range out {
		if !isMark(out[i]) {
			out[i].Dev += uint64(add)
		}
	}
	return out
}

const longLine = "a line of the log, long enough to tell it from others\n"

// The number of the device changes with one boot, and back with the next, be the
// second ended before the first's position is forgotten or later.
func TestRestartWithTheDeviceNumberOfBefore(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgotten=%v", forgotten), func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, "")
				first := firstRun(t, o, f, strings.Repeat(longLine, 2), path)
				o.Resume = otherDevice(first, 7)
				write(t, f, "second boot\n")
				s := begin(t, o, path)
				s.wants("second boot\n")
				if forgotten {
					s.poll("one position is stored", func() bool { return s.finals() == 1 }, func(b *Batch) { s.accept(b) })
				}
				s.stop()
				// Seen from the second boot, the first one's number is another.
				o.Resume = otherDevice([]Position{s.positions[idOf(t, f)]}, 7)
				if !forgotten {
					o.Resume = append(o.Resume, first...)
				}
				write(t, f, "third boot\n")
				s = begin(t, o, path)
				s.wants("third boot\n")
				s.poll("one position is stored", func() bool { return len(files(s.stored())) == 1 }, func(b *Batch) { s.accept(b) })
				if s.text() != "third boot\n" || s.files.Stats().Gaps != 0 {
					t.Errorf("got %q and %d gaps, want the third boot's line alone", s.text(), s.files.Stats().Gaps)
				}
			})
		})
	}
}

// The same of a file that was rotated while stopped.
func TestRotatedAndTheDeviceNumberOfBefore(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.Resume = files(firstRun(t, o, f, strings.Repeat(longLine, 2), path))
		o.Resume = append(o.Resume, otherDevice(o.Resume, 7)...)
		write(t, f, "rest\n")
		rename(t, path, path+".1")
		create(t, path, "new\n")
		s := begin(t, o, path)
		s.final(idOf(t, f))
		s.poll("one position is stored", func() bool { return len(files(s.stored())) == 1 }, func(b *Batch) { s.accept(b) })
		if !sameLines(s.text(), "rest\nnew\n") || s.files.Stats().Gaps != 0 {
			t.Errorf("got %q and %d gaps; log:\n%s", s.text(), s.files.Stats().Gaps, s.said)
		}
	})
}

// A pattern leads to a file that was finished with as well.
func TestFinishedFileOfAnotherDevice(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.Resume = firstRun(t, o, f, strings.Repeat(longLine, 2), path+"*")
		rename(t, path, path+".1")
		next := create(t, path, "new "+longLine+longLine)
		s := begin(t, o, path+"*")
		s.final(idOf(t, f))
		if !s.positions[idOf(t, f)].Done {
			t.Fatalf("the file is not remembered: %+v", s.stored())
		}
		stored := s.stop()
		for range 2 { // the number changes once, and back
			o.Resume = otherDevice(stored, 7)
			write(t, next, "more\n")
			s = begin(t, o, path+"*")
			s.wants("more\n")
			s.poll("the old numbers are forgotten", func() bool { return len(files(s.stored())) == 2 && s.finals() == 2 }, func(b *Batch) { s.accept(b) })
			if s.text() != "more\n" {
				t.Errorf("got %q", s.text())
			}
			stored = s.stop()
		}
	})
}

// The device has another number after a reboot: the file is the same by its
// inode and its beginning.
func TestRestartWithAnotherDeviceNumber(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.Resume = otherDevice(firstRun(t, o, f, strings.Repeat(longLine, 2), path), 7)
		write(t, f, "while stopped\n")
		s := begin(t, o, path)
		s.wants("while stopped\n")
		if got := s.files.Stats().Gaps; got != 0 {
			t.Errorf("%d gaps, want none", got)
		}
	})
}
