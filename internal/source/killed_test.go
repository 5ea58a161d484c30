package source

import (
	"os"
	"strings"
	"testing"
	"time"
)

// gather takes n batches, or all there are if they are fewer or n is negative.
func (s *session) gather(path string, n int) (all bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for n != 0 {
		select {
		case b := <-s.out:
			s.accept(b)
			n--
		case <-time.After(3 * s.files.o.Poll): // what has been read by now has been told, too
			if s.idle(path) {
				return true
			}
		case <-deadline:
			s.t.Fatalf("%s is not read to its end; log:\n%s", path, s.said)
		}
	}
	return false
}

// idle reports whether all that there is has been read, and let go if it has a
// successor.
func (s *session) idle(path string) bool {
	r := s.files.current.Load()
	if r == nil {
		return false // it has not begun
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.unpackers {
		if !closed(u.finished) {
			return false
		}
	}
	for _, t := range r.tails {
		if h := t.hold.Load(); !t.known.Load() || t.stats().Behind > 0 || h == succeeded || h == released {
			return false
		}
	}
	l := lookAt(path)
	return r.marked && len(r.superseded) == 0 && (l.err != nil || r.tails[l.id] != nil)
}

// renumber makes the stored position that of a file with the number of the one
// that has its name now, as it is if that was free when this one was made.
func renumber(t *testing.T, stored []Position, path string) {
	t.Helper()
	l := lookAt(path)
	must(t, l.err)
	for i := range stored {
		if p := &stored[i]; !isMark(*p) {
			p.Dev, p.Ino = l.id.dev, l.id.ino
		}
	}
}

// rotatedThrice has a file that was followed become path.3, and two others come
// and go.
func rotatedThrice(t *testing.T, path string, f *os.File, rest string) {
	t.Helper()
	write(t, f, rest)
	rename(t, path, path+".3")
	second := create(t, path, "in between\n")
	later(t, second, f)
	rename(t, path, path+".2")
	later(t, create(t, path, "later\n"), second)
	rename(t, path, path+".1")
	create(t, path, "new\n")
}

// Whatever was done to a log while nobody looked, and at whichever batch the
// next one is killed: every line comes once.
func TestKilledAtEachBatchAfterAStop(t *testing.T) {
	before, rest := numberedLines(1, 3), numberedLines(4, 5)
	twice := func(t *testing.T, path string, f *os.File) {
		write(t, f, rest)
		rename(t, path, path+".2")
		later(t, create(t, path, "in between\n"), f)
		rename(t, path, path+".1")
	}
	tests := []struct {
		name      string
		want      string
		meanwhile func(t *testing.T, path string, f *os.File)
	}{
		{"rotated", rest + "new\n", func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".1")
			create(t, path, "new\n")
		}},
		{"rotated twice", rest + "in between\nnew\n", func(t *testing.T, path string, f *os.File) {
			twice(t, path, f)
			create(t, path, "new\n")
		}},
		{"rotated twice, none in its place yet", rest + "in between\n", twice},
		{"rotated three times", rest + "in between\nlater\nnew\n", func(t *testing.T, path string, f *os.File) {
			rotatedThrice(t, path, f, rest)
		}},
		{"rotated three times and compressed", rest + "in between\nlater\nnew\n", func(t *testing.T, path string, f *os.File) {
			rotatedThrice(t, path, f, rest)
			for _, n := range []string{".1", ".2", ".3"} {
				pack(t, path+n)
			}
		}},
		{"compressed", rest + "new\n", func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".1")
			pack(t, path+".1")
			create(t, path, "new\n")
		}},
		{"rotated twice, the older compressed", rest + "in between\nnew\n", func(t *testing.T, path string, f *os.File) {
			twice(t, path, f)
			pack(t, path+".2")
			create(t, path, "new\n")
		}},
		{"rotated twice, the older compressed, its number the new one's", rest + "in between\nnew\n", func(t *testing.T, path string, f *os.File) {
			twice(t, path, f)
			pack(t, path+".2")
			create(t, path, "new\n")
		}},
		{"rotated twice, the newer compressed, none in its place yet", rest + "in between\n", func(t *testing.T, path string, f *os.File) {
			twice(t, path, f)
			pack(t, path+".1")
		}},
		{"rotated twice and compressed, none in its place yet", rest + "in between\n", func(t *testing.T, path string, f *os.File) {
			twice(t, path, f)
			pack(t, path+".1")
			pack(t, path+".2")
		}},
		{"copied and truncated", rest + "new\n", func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".1")
			must(t, f.Truncate(0))
			write(t, f, "new\n")
		}},
		{"copied, truncated and compressed", rest + "new\n", func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".1")
			pack(t, path+".1")
			must(t, f.Truncate(0))
			write(t, f, "new\n")
		}},
		{"stored anew", rest, func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".x")
			rename(t, path+".x", path)
		}},
	}
	tries := 1
	if os.Getenv(longTorture) != "" {
		tries = 20
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for try := range tries { // files are opened in any order
				for n := 1; ; n++ {
					o := FilesOptions{Log: "web", Poll: 5 * time.Millisecond, Grace: 15 * time.Millisecond}
					path := logPath(t)
					f := create(t, path, "")
					o.Resume = firstRun(t, o, f, before, path)
					tt.meanwhile(t, path, f)
					if strings.HasSuffix(tt.name, "its number the new one's") {
						renumber(t, o.Resume, path)
					}
					s := begin(t, o, path)
					all := s.gather(path, n)
					o.Resume = s.stop()
					got := s.text()
					s = begin(t, o, path)
					s.gather(path, -1)
					o.Resume = s.stop()
					if !sameLines(got+s.text(), tt.want) {
						t.Fatalf("killed after %d batches (try %d): got %q and then %q, want %q in all; stored: %+v\n%s", n, try, got, s.text(), tt.want, o.Resume, s.said)
					}
					if all {
						break
					}
				}
			}
		})
	}
}
