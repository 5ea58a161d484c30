package source

import (
	"os"
	"strings"
	"testing"
)

// numberedLine is long enough to tell a file from another.
func numberedLine(n int) string {
	return "203.0.113.21 - - [29/Nov/2026:12:30:01 +0000] \"POST /login HTTP/1.1\" 401 " + string(rune('0'+n)) + "\n"
}

func numberedLines(from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		b.WriteString(numberedLine(n))
	}
	return b.String()
}

// rewrite puts content into the file with one write, without truncating it
// first if it has grown, so that nobody sees it empty.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	write(t, f, content)
	must(t, f.Truncate(int64(len(content))))
	must(t, f.Close())
}

// A log of fixed length is written anew for each line: the lines that it keeps
// were counted. The same while nobody looks.
func TestRewrittenInPlace(t *testing.T) {
	first := numberedLines(1, 1)
	tests := []struct {
		name, before, after, want string
		emptied                   bool // for a while before it is written again
	}{
		{name: "the same and more", before: first, after: numberedLines(1, 2), want: numberedLine(2)},
		{name: "the same and more, emptied first", before: first, after: numberedLines(1, 2), want: numberedLine(2), emptied: true},
		{name: "its end and more", before: numberedLines(1, 2), after: numberedLines(2, 3), want: numberedLine(3)},
		{name: "its end and more, emptied first", before: numberedLines(1, 9), after: numberedLines(6, 9) + "new\n", want: "new\n", emptied: true},
		{name: "the same beginning, shorter", before: numberedLines(1, 3), after: numberedLines(1, 1) + "other\n", want: numberedLines(1, 1) + "other\n"},
		{name: "the same beginning, other end", before: strings.Repeat(numberedLine(0), 20) + numberedLines(1, 3), after: strings.Repeat(numberedLine(0), 20) + numberedLines(4, 8), want: strings.Repeat(numberedLine(0), 20) + numberedLines(4, 8)},
		{name: "something else", before: first, after: numberedLines(5, 6), want: numberedLines(5, 6)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				create(t, path, tt.before)
				o.FromStart = true
				s := begin(t, o, path)
				s.wants(tt.before)
				if tt.emptied {
					must(t, os.Truncate(path, 0))
					s.quietUntil("it is noticed", func() bool { return s.files.Stats().Truncated == 1 })
				}
				rewrite(t, path, tt.after)
				s.wants(tt.before + tt.want)
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				must(t, err)
				defer f.Close()
				write(t, f, "live\n")
				s.wants(tt.before + tt.want + "live\n")
			})
		})
	}
}

// What a writer that doesn't append leaves out after copytruncate is no line.
func TestHoleAfterTruncation(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f, err := os.Create(path) // without O_APPEND
		must(t, err)
		defer f.Close()
		s := begin(t, o, path)
		s.ready(path)
		const length = 5 << 20
		line := strings.Repeat("x", 1<<16-1) + "\n"
		want := strings.Repeat(line, length>>16)
		write(t, f, want)
		s.wants(want)
		for round := int64(1); round <= 2; round++ {
			must(t, os.Truncate(path, 0))
			write(t, f, "after the hole\n") // one look sees the file grown
			want += "after the hole\n"
			s.wants(want)
			stats := s.files.Stats()
			if stats.Gaps != round || stats.Zeros < length*round {
				t.Errorf("%d gaps and %d zero bytes counted, want %d and at least %d", stats.Gaps, stats.Zeros, round, length*round)
			}
		}
	})
}
