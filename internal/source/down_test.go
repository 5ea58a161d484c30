package source

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// files makes a map of the positions of files, without those of patterns.
func files(all []Position) []Position {
	return slices.DeleteFunc(slices.Clone(all), isMark)
}

func pack(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(content)
	must(t, err)
	must(t, z.Close())
	fi, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path+".gz", b.Bytes(), 0o644))
	must(t, os.Chtimes(path+".gz", fi.ModTime(), fi.ModTime()))
	must(t, os.Remove(path))
}

func duplicate(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o644))
}

// What is done to a log between a stop and a start, followed by its name and by
// a pattern that covers rotated names as well.
func TestWhileStopped(t *testing.T) {
	before := numberedLines(1, 3)
	rest := numberedLines(4, 5)
	tests := []struct {
		name      string
		meanwhile func(t *testing.T, path string, f *os.File)
		want      string
		gaps      int64
		only      string // "path" or "glob" if it holds for one of them
	}{
		{name: "born", want: "of another\n", only: "glob", meanwhile: func(t *testing.T, path string, _ *os.File) {
			create(t, filepath.Join(filepath.Dir(path), "access.log.other"), "of another\n")
		}},
		{name: "removed and born again", want: "new\n", gaps: 1, meanwhile: func(t *testing.T, path string, _ *os.File) {
			must(t, os.Remove(path))
			create(t, path, "new\n")
		}},
		{name: "rotated twice", want: rest + "in between\nnew\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".1")
			later(t, create(t, path, "in between\n"), f)
			rename(t, path+".1", path+".2")
			rename(t, path, path+".1")
			create(t, path, "new\n")
		}},
		{name: "renamed, the new one begins alike", want: rest + before + "new\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".1")
			create(t, path, before+"new\n")
		}},
		{name: "rotated twice, all begin alike", want: rest + before + "in between\n" + before + "new\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".2")
			later(t, create(t, path, before+"in between\n"), f)
			rename(t, path, path+".1")
			create(t, path, before+"new\n")
		}},
		{name: "rotated twice and compressed", want: rest + "in between\nnew\n", only: "path", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".2")
			later(t, create(t, path, "in between\n"), f)
			rename(t, path, path+".1")
			pack(t, path+".1")
			pack(t, path+".2")
			create(t, path, "new\n")
		}},
		{name: "compressed", want: rest + "new\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			rename(t, path, path+".1")
			pack(t, path+".1")
			create(t, path, "new\n")
		}},
		{name: "compressed with nothing left", want: "new\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			rename(t, path, path+".1")
			pack(t, path+".1")
			create(t, path, "new\n")
		}},
		{name: "compressed by another program", want: "new\n", gaps: 1, meanwhile: func(t *testing.T, path string, f *os.File) {
			rename(t, path, path+".1.xz")
			must(t, os.WriteFile(path+".1.xz", []byte("something"), 0o644))
			must(t, os.Remove(path+".1.xz"))
			create(t, path, "new\n")
		}},
		{name: "copied and truncated", want: rest + "new\n", gaps: 1, meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".1")
			must(t, f.Truncate(0))
			write(t, f, "new\n")
		}},
		{name: "copied, truncated and compressed", want: rest + "new\n", gaps: 1, meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".1")
			pack(t, path+".1")
			must(t, f.Truncate(0))
			write(t, f, "new\n")
		}},
		{name: "moved to another disk", want: rest + "new\n", meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+".1")
			must(t, os.Remove(path))
			create(t, path, "new\n")
		}},
		{name: "stored anew by an editor", want: rest, meanwhile: func(t *testing.T, path string, f *os.File) {
			write(t, f, rest)
			duplicate(t, path, path+"~")
			must(t, os.Remove(path))
			rename(t, path+"~", path)
		}},
		{name: "the same beginning, another end", want: numberedLines(1, 2) + numberedLines(6, 8), gaps: 1, meanwhile: func(t *testing.T, path string, f *os.File) {
			rewrite(t, path, numberedLines(1, 2)+numberedLines(6, 8))
		}},
		{name: "emptied", want: "", gaps: 1, meanwhile: func(t *testing.T, path string, f *os.File) {
			must(t, f.Truncate(0))
		}},
		{name: "a hard link made", want: rest, meanwhile: func(t *testing.T, path string, f *os.File) {
			must(t, os.Link(path, path+".link"))
			write(t, f, rest)
		}},
	}
	for _, tt := range tests {
		for _, glob := range []bool{false, true} {
			if tt.only == "path" && glob || tt.only == "glob" && !glob {
				continue
			}
			t.Run(tt.name+map[bool]string{true: ", by a pattern"}[glob], func(t *testing.T) {
				t.Parallel()
				bothWays(t, func(t *testing.T, o FilesOptions) {
					path := logPath(t)
					pattern := path
					if glob {
						pattern += "*"
					}
					f := create(t, path, "")
					s := begin(t, o, pattern)
					s.ready(path)
					write(t, f, before)
					s.wants(before)
					s.quietUntil("the pattern is marked", func() bool { return len(s.positions) == 2 })
					o.Resume = s.stop()
					tt.meanwhile(t, path, f)
					s = begin(t, o, pattern)
					s.until("all lines", func([]part) bool { return len(s.text()) >= len(tt.want) })
					live := s.settle(path)
					want := tt.want + live
					if !sameLines(s.text(), want) {
						t.Errorf("got %q, want %q\n%s", s.text(), want, s.said)
					}
					if got := s.files.Stats().Gaps; got != tt.gaps {
						t.Errorf("%d gaps, want %d\n%s", got, tt.gaps, s.said)
					}
					// Once more: nothing comes twice.
					o.Resume = s.stop()
					s = begin(t, o, pattern)
					if more := s.settle(path); s.text() != more {
						t.Errorf("after another start came %q, want %q\n%s", s.text(), more, s.said)
					}
				})
			})
		}
	}
}

// later makes f newer than an older file, which takes a tick of the file
// system's clock otherwise.
func later(t *testing.T, f, older *os.File) {
	t.Helper()
	fi, err := older.Stat()
	must(t, err)
	now := fi.ModTime().Add(1e9)
	must(t, os.Chtimes(f.Name(), now, now))
}

// settle waits until everything that is no longer written to is finished with,
// and until a line written now has come, which it returns.
func (s *session) settle(path string) string {
	s.t.Helper()
	s.poll("all is read and let go", func() bool {
		open := 0
		for _, f := range s.files.Stats().Files {
			switch {
			case f.State == Renamed || f.Behind > 0:
				return false
			case f.Path == path:
				open++
			}
		}
		return open == 1
	}, func(b *Batch) { s.accept(b) })
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(s.t, err)
	defer f.Close()
	write(s.t, f, "live\n")
	s.until("the live line", func([]part) bool { return strings.Contains(s.text(), "live\n") })
	return "live\n"
}
