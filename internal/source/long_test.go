package source

import (
	"runtime"
	"strings"
	"testing"
)

func TestLongLineIsCut(t *testing.T) {
	for _, length := range []int{100, 101, 5000, 70_000, 3 << 20} {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			f := create(t, path, "")
			o.MaxLine = 100
			s := begin(t, o, path)
			s.ready(path)
			write(t, f, "before\n"+strings.Repeat("x", length)+"\nafter\n")
			line, cut := strings.Repeat("x", 100), length > 100
			if !cut {
				line += "\n"
			}
			s.wants("before\n" + line + "after\n")
			for _, p := range s.parts {
				if p.Cut != (cut && p.Data == line) {
					t.Errorf("Cut = %v for %q", p.Cut, shorten(p.Data))
				}
				if p.Cut && (p.Start != 7 || p.Next != int64(7+length+1)) {
					t.Errorf("cut line covers %d to %d, want 7 to %d", p.Start, p.Next, 7+length+1)
				}
			}
			if got := s.files.Stats().Cut; cut != (got == 1) {
				t.Errorf("%d lines counted as cut", got)
			}
		})
	}
}

func TestUnterminatedLongLineIsCutWhenTheFileIsFinished(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "")
		o.MaxLine = 100
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, strings.Repeat("x", 9000))
		rename(t, path, path+".1")
		create(t, path, "")
		s.final(idOf(t, f))
		p := s.parts[len(s.parts)-1]
		if len(p.Data) != 100 || !p.Cut || p.Next != 9000 {
			t.Errorf("got %d bytes up to %d, cut %v; want 100 up to 9000, cut", len(p.Data), p.Next, p.Cut)
		}
	})
}

func TestLineWithoutEndTakesNoMemory(t *testing.T) {
	path := logPath(t)
	f := create(t, path, "")
	chunk := strings.Repeat("x", 1<<20)
	const chunks = 64
	s := begin(t, FilesOptions{Log: "web", MaxLine: 64 << 10}, path)
	s.ready(path)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range chunks {
		write(t, f, chunk)
	}
	write(t, f, "\nafter\n")
	s.wants(chunk[:64<<10] + "after\n")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("heap grew by %d MiB for a line of %d MiB", grown>>20, chunks)
	}
	if p := s.parts[0]; !p.Cut || p.Next != chunks<<20+1 {
		t.Errorf("cut %v up to %d, want a cut line up to %d", p.Cut, p.Next, chunks<<20+1)
	}
}
