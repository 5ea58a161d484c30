package source

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func beginPipe(t *testing.T, o PipeOptions) (*session, *Pipe) {
	t.Helper()
	var p *Pipe
	s := beginSource(t, func(l *slog.Logger) Source {
		o.Log, o.Logger = "web", l
		p = NewPipe(o)
		p.pause.least, p.every = time.Millisecond, 10*time.Millisecond
		return p
	})
	s.announced()
	return s, p
}

func stdPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestPipeStandardInput(t *testing.T) {
	r, w := stdPipe(t)
	s, p := beginPipe(t, PipeOptions{File: r, MaxLine: 1000, Resume: []Position{{Log: "web", Path: "stdin", Offset: 50}}})
	write(t, w, "one\ntw")
	s.wants("one\n")
	long := strings.Repeat("x", 200_000)
	write(t, w, "o\n\n")
	go w.WriteString(long + "\n" + strings.Repeat("y", 1000) + "\nno end")
	s.wants("one\ntwo\n\n" + long[:1000] + strings.Repeat("y", 1000) + "\n")
	s.quietUntil("a quiet end", func() bool { return p.Stats().State == Following })
	must(t, w.Close())
	s.wants("one\ntwo\n\n" + long[:1000] + strings.Repeat("y", 1000) + "\nno end\n")
	s.contiguous()
	s.quietUntil("the end", func() bool { return p.Stats().State == Ended })
	if st := p.Stats(); st.Lines != 6 || st.Cut != 1 || s.parts[0].Start != 50 || s.parts[0].File.Path != "stdin" {
		t.Errorf("stats %+v, first part %+v", st, s.parts[0])
	}
}

// A file can be standard input as well.
func TestPipeFromFile(t *testing.T) {
	path := logPath(t)
	create(t, path, "one\ntwo\n")
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	s, p := beginPipe(t, PipeOptions{File: f})
	s.wants("one\ntwo\n")
	s.quietUntil("the end", func() bool { return p.Stats().State == Ended })
}

func TestPipeUnreadable(t *testing.T) {
	f, err := os.OpenFile(logPath(t), os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	s, p := beginPipe(t, PipeOptions{File: f})
	s.quietUntil("the trouble", func() bool { return p.Stats().State == Failing })
	if s.said.count("no longer read") != 1 {
		t.Errorf("said %s", s.said)
	}
}

// It can be stopped while nothing comes, and while nobody takes what came.
func TestPipeStops(t *testing.T) {
	r, w := stdPipe(t)
	s, _ := beginPipe(t, PipeOptions{File: r})
	s.stop()
	s, p := beginPipe(t, PipeOptions{File: r})
	write(t, w, "never taken\n")
	waitUntil(t, "the line", func() bool { return p.Stats().Lines == 1 })
	s.stop()
}

func openFIFO(t *testing.T, path string) *os.File {
	t.Helper()
	var w *os.File
	waitUntil(t, "somebody who reads "+path, func() bool {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			must(t, unix.SetNonblock(fd, false))
			w = os.NewFile(uintptr(fd), path)
		}
		return err == nil
	})
	return w
}

// Writers come and go; each line comes once, and one that was broken off isn't
// glued to another writer's.
func TestPipeFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	s, p := beginPipe(t, PipeOptions{Path: path})
	s.quietUntil("it to wait", func() bool { return p.Stats().State == Waiting && p.Stats().Err != "" })
	must(t, unix.Mkfifo(path, 0o600))
	s.quietUntil("it to be opened", func() bool { return p.Stats().State == Following })
	want := ""
	for i := range 50 {
		w := openFIFO(t, path)
		write(t, w, fmt.Sprintf("whole %d\nbroken %d", i, i))
		must(t, w.Close())
		want += fmt.Sprintf("whole %d\nbroken %d\n", i, i)
		s.wants(want)
	}
	s.contiguous()
	if n := s.said.count("waiting for it"); n != 1 {
		t.Errorf("said %d times: %s", n, s.said)
	}
	if s.said.count("every user") != 0 {
		t.Errorf("warned of a pipe that is safe: %s", s.said)
	}
}

func TestPipeFIFOIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	s, _ := beginPipe(t, PipeOptions{Path: path})
	old := openFIFO(t, path)
	defer old.Close()
	write(t, old, "old\n")
	s.wants("old\n")
	must(t, os.Remove(path))
	must(t, unix.Mkfifo(path, 0o600))
	s.quietUntil("it to be noticed", func() bool { return s.said.count("another pipe") > 0 })
	w := openFIFO(t, path)
	defer w.Close()
	write(t, w, "new\n")
	s.wants("old\nnew\n")
}

func TestPipeOnlyFIFOs(t *testing.T) {
	path := logPath(t)
	create(t, path, "one\n")
	s, p := beginPipe(t, PipeOptions{Path: path})
	s.quietUntil("the trouble", func() bool { return strings.Contains(p.Stats().Err, "it is no named pipe") })
	must(t, unix.Mkfifo(path+".new", 0o600))
	must(t, os.Chmod(path+".new", 0o622))
	rename(t, path+".new", path)
	s.quietUntil("it to be opened", func() bool { return p.Stats().State == Following })
	if s.said.count("every user") != 1 {
		t.Errorf("said %s", s.said)
	}
}
