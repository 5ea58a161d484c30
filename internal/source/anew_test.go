package source

import (
	"os"
	"strings"
	"testing"
)

// A flood fills a new file with the lines of the old one: they are read again
// unless the old file is gone, and what it held were not all the same lines.
func TestFilesThatBeginAlike(t *testing.T) {
	flood, varied := strings.Repeat(numberedLine(1), 5), numberedLines(1, 5)
	tests := []struct {
		name, before, after, want string
		away                      func(t *testing.T, path string)
	}{
		{"renamed", varied, varied + "new\n", varied + "new\n", func(t *testing.T, path string) { rename(t, path, path+".1") }},
		{"removed, one line again and again", flood, flood + "new\n", flood + "new\n", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		{"removed", varied, varied + "new\n", "new\n", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		{"kept by an editor", varied, varied + "new\n", "new\n", func(t *testing.T, path string) { rename(t, path, path+"~") }},
	}
	for _, tt := range tests {
		for _, stopped := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: " while stopped"}[stopped], func(t *testing.T) {
				bothWays(t, func(t *testing.T, o FilesOptions) {
					path := logPath(t)
					o.FromStart = true
					create(t, path, tt.before)
					s := begin(t, o, path)
					s.wants(tt.before)
					want := tt.before + tt.want
					if stopped {
						want = tt.want
						s.quietUntil("the name is marked", func() bool { return len(s.positions) == 2 })
						o.Resume = s.stop()
					}
					// Written under another name, so that it comes as a whole.
					must(t, os.WriteFile(path+".new", []byte(tt.after), 0o644))
					tt.away(t, path)
					rename(t, path+".new", path)
					if stopped {
						s = begin(t, o, path)
					}
					s.wants(want)
				})
			})
		}
	}
}
