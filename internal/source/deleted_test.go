package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A deleted file is kept as long as lines come, whether or not it has a
// successor, and let go when it was quiet, with its last line.
func TestDeletedFileIsLetGoInTheEnd(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		t.Run(fmt.Sprintf("recreated=%v", recreated), func(t *testing.T) {
			path := logPath(t)
			f := create(t, path, "")
			id := idOf(t, f)
			synctest.Test(t, func(t *testing.T) {
				s := begin(t, FilesOptions{Log: "web", NoInotify: true}, path)
				s.accept(<-s.out)
				if mark := s.accept(<-s.out); !isMark(mark.Pos) {
					t.Errorf("got %+v, want the mark of the path", mark)
				}
				must(t, os.Remove(path))
				if recreated {
					create(t, path, "")
					s.accept(<-s.out)
				}
				want := ""
				for range 5 { // as long as lines come
					time.Sleep(defaultGrace - time.Second) // of the bubble's time
					write(t, f, "1\n")
					want += "1\n"
					s.accept(<-s.out)
				}
				write(t, f, "begun")
				quiet := time.Now()
				b := s.accept(<-s.out)
				if !b.Final || b.File.identity() != id || s.text() != want+"begun" {
					t.Errorf("got %+v, %q in all, want the final batch", b, s.text())
				}
				if kept := time.Since(quiet); kept < defaultGrace || kept > defaultGrace+5*time.Second {
					t.Errorf("kept for %v, want %v", kept, defaultGrace)
				}
				s.stop()
			})
		})
	}
}

// Nor is it kept for a successor that isn't read. Once that is, it is read as any
// other from there on.
func TestDeletedFileWithASuccessorThatIsRefused(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "first\n")
		s.wants("first\n")
		next := create(t, path+".tmp", "theirs\n")
		must(t, os.Chmod(path+".tmp", 0o666))
		rename(t, path+".tmp", path)
		write(t, f, "second\n")
		s.wants("first\nsecond\n")
		s.final(idOf(t, f))
		if got := s.state(path); got != Refused {
			t.Errorf("the file that has the name is %s", got)
		}
		must(t, os.Chmod(path, 0o640))
		s.ready(path)
		write(t, next, "safe\n")
		s.wants("first\nsecond\nsafe\n")
	})
}

// As long as it isn't known what has its name, it isn't due: then it is looked at
// as seldom as any file to which nothing is written.
func TestDeletedFileIsLookedAtSeldom(t *testing.T) {
	for h, want := range map[hold]time.Duration{held: time.Second, nameless: time.Millisecond, succeeded: time.Millisecond} {
		x := &tail{r: &reader{gone: true}, poll: time.Second, grace: time.Minute, grown: time.Now().Add(-time.Hour)}
		x.hold.Store(h)
		if got := x.pause(); got != want {
			t.Errorf("hold %d: looked at again after %v, want %v", h, got, want)
		}
	}
}

func TestDeletedFileIsListedOnce(t *testing.T) {
	for _, pattern := range []string{"", "*"} {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			f := create(t, path, "")
			o.Grace = time.Hour
			s := begin(t, o, path+pattern)
			s.ready(path)
			must(t, os.Remove(path))
			s.quietUntil("it is said to be deleted", func() bool {
				all := s.files.Stats().Files
				return len(all) == 1 && all[0].State == Deleted
			})
			write(t, f, "1\nbegun")
			s.wants("1\n")
			s.quietUntil("only its last line is left, for which nobody waits", func() bool {
				all := s.files.Stats().Files
				return len(all) == 1 && all[0].State == Deleted && all[0].Behind == int64(len("begun")) && all[0].Since.IsZero()
			})
			create(t, path, "2\n")
			s.wants("1\n2\n")
			s.quietUntil("both are listed", func() bool {
				states := map[State]int{}
				for _, f := range s.files.Stats().Files {
					states[f.State]++
				}
				return len(states) == 2 && states[Deleted] == 1 && states[Following] == 1
			})
		})
	}
}

// Nobody finds a deleted file again, so its last line is taken at a stop.
func TestDeletedFileAtAStop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(t *testing.T, path string)
		want  string
		hold  hold
		kept  int // of the positions of the file
	}{
		{name: "deleted", after: func(t *testing.T, path string) { must(t, os.Remove(path)) }, hold: nameless, want: "1\nbegun", kept: 1},
		{name: "deleted and recreated", hold: succeeded, want: "1\nbegun", after: func(t *testing.T, path string) {
			must(t, os.Remove(path))
			create(t, path, "")
		}},
		{name: "renamed", after: func(t *testing.T, path string) { rename(t, path, path+".1") }, hold: nameless, want: "1\n", kept: 1},
		{name: "untouched", after: func(t *testing.T, path string) {}, want: "1\n", kept: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, "")
				o.Grace = time.Hour
				s := begin(t, o, path)
				s.ready(path)
				write(t, f, "1\nbegun")
				s.wants("1\n")
				tt.after(t, path)
				s.quietUntil("that is noticed", func() bool {
					r := s.files.current.Load()
					r.mu.Lock()
					defer r.mu.Unlock()
					return r.tails[idOf(t, f)].hold.Load() == tt.hold
				})
				s.cancel()
				for ended := false; !ended; {
					select {
					case err := <-s.ended:
						s.ended <- err
						ended = true
					case b := <-s.out:
						s.accept(b)
					}
				}
				if s.text() != tt.want {
					t.Errorf("got %q, want %q", s.text(), tt.want)
				}
				kept := 0
				for _, p := range s.stop() {
					if p.identity() == idOf(t, f) {
						kept++
					}
				}
				if kept != tt.kept {
					t.Errorf("%d positions of the file are kept, want %d", kept, tt.kept)
				}
			})
		})
	}
}

func TestDeletedFilesGiveWay(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		o.MaxFiles, o.Grace = 3, time.Hour
		var files []*os.File
		for i := range 3 {
			files = append(files, create(t, filepath.Join(dir, fmt.Sprintf("%d.log", i)), ""))
		}
		s := begin(t, o, filepath.Join(dir, "*.log"))
		s.quietUntil("three are followed", func() bool { return len(s.files.Stats().Files) == 3 && len(s.positions) == 4 })
		want := ""
		for i, line := range []string{"0\n", "1\n"} {
			write(t, files[i], line)
			want += line
			s.wants(want)
		}
		for i := range 2 {
			must(t, os.Remove(files[i].Name()))
		}
		write(t, files[0], "begun")
		create(t, filepath.Join(dir, "new.log"), "new\n")
		s.until("the new one is read", func([]part) bool {
			return s.of(idOf(t, files[0])) == "0\nbegun" && len(s.text()) == len("0\n1\nbegunnew\n")
		})
		if got := s.said.count("level=ERROR"); got != 0 {
			t.Errorf("%d errors:\n%s", got, s.said)
		}
		write(t, files[1], "more\n")
		s.until("the other one is read on", func([]part) bool { return s.of(idOf(t, files[1])) == "1\nmore\n" })
	})
}
