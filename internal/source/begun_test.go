package source

import (
	"os"
	"testing"
)

// A position says how much before it was read of its own file.
func TestPositionSaysWhatWasRead(t *testing.T) {
	const line = "a line\n"
	before := numberedLines(1, 3)
	for _, tt := range []struct {
		name  string
		since func(t *testing.T, path string, f *os.File) // after it was read up to before, and until the next start
		want  int64                                       // bytes before the end of the file that has the name, when line has come
	}{
		{"went on", func(t *testing.T, _ string, f *os.File) {
			write(t, f, line)
		}, int64(len(before + line))},
		{"new", func(t *testing.T, path string, f *os.File) {
			rename(t, path, path+".1")
			create(t, path, line)
		}, int64(len(line))},
		{"truncated", func(t *testing.T, path string, f *os.File) {
			must(t, f.Truncate(0))
			write(t, f, line)
		}, int64(len(line))},
		{"stored anew", func(t *testing.T, path string, _ *os.File) {
			duplicate(t, path, path+".x")
			rename(t, path+".x", path)
			anew, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			defer anew.Close()
			write(t, anew, line)
		}, int64(len(line))},
		{"another device", func(t *testing.T, _ string, f *os.File) {
			write(t, f, line)
		}, int64(len(before + line))},
		{"cut at its beginning", func(t *testing.T, path string, _ *os.File) {
			rewrite(t, path, numberedLines(2, 3)+line)
		}, int64(len(line))},
	} {
		for _, live := range []bool{false, true} {
			if !live && tt.name == "cut at its beginning" {
				continue // then it is read from its first byte
			}
			t.Run(tt.name+map[bool]string{true: ", while it was followed"}[live], func(t *testing.T) {
				bothWays(t, func(t *testing.T, o FilesOptions) {
					path := logPath(t)
					f := create(t, path, "an old line\n") // before the first start: not read
					s := begin(t, o, path)
					s.ready(path)
					write(t, f, before)
					s.wants(before)
					all := before
					if !live {
						o.Resume, all = s.stop(), ""
						if tt.name == "another device" {
							o.Resume = otherDevice(o.Resume, 7)
						}
						tt.since(t, path, f)
						s = begin(t, o, path)
					} else {
						tt.since(t, path, f)
					}
					s.wants(all + line)
					if p := s.positions[idAt(t, path)]; p.Read != tt.want {
						t.Errorf("%d bytes were read before %d, want %d", p.Read, p.Offset, tt.want)
					}
				})
			})
		}
	}
}

func idAt(t *testing.T, path string) identity {
	t.Helper()
	l := lookAt(path)
	must(t, l.err)
	return l.id
}
