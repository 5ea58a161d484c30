package source

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const benchLine = `203.0.113.7 - - [12/Mar/2026:10:00:00 +0000] "GET /index.html HTTP/1.1" 200 5120 "-" "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101"` + "\n"

func benchRun(b *testing.B, o FilesOptions) (out chan *Batch, stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	out = make(chan *Batch)
	ended := make(chan error)
	go func() { ended <- NewFiles(o).Run(ctx, out) }()
	return out, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkCatchUp(b *testing.B) {
	path := filepath.Join(b.TempDir(), "access.log")
	content := strings.Repeat(benchLine, 64<<20/len(benchLine))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		out, stop := benchRun(b, FilesOptions{Log: "web", Patterns: []string{path}, FromStart: true})
		for n := 0; n < len(content); {
			batch := <-out
			n += len(batch.Data)
			batch.Done()
		}
		stop()
	}
}

// BenchmarkWakeUp is the time from a write to its batch, with inotify.
func BenchmarkWakeUp(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "access.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	out, stop := benchRun(b, FilesOptions{Log: "web", Patterns: []string{f.Name()}})
	defer stop()
	(<-out).Done()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.WriteString(benchLine); err != nil {
			b.Fatal(err)
		}
		batch := <-out
		batch.Done()
	}
}
