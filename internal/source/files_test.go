package source

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailban/tailban/internal/syncbuf"
)

// The tracker of nxadm/tail, and the inotify reader below it, live as long as
// the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nxadm/tail/watch.(*InotifyTracker).run"),
		goleak.IgnoreAnyFunction("github.com/fsnotify/fsnotify.(*Watcher).readEvents"),
	)
}

const patience = 20 * time.Second

// bothWays runs a test with inotify and without.
func bothWays(t *testing.T, test func(t *testing.T, o FilesOptions)) {
	t.Helper()
	for _, noInotify := range []bool{false, true} {
		t.Run(fmt.Sprintf("inotify=%v", !noInotify), func(t *testing.T) {
			t.Parallel()
			o := FilesOptions{
				Log: "web", NoInotify: noInotify,
				Poll: 50 * time.Millisecond, Grace: 300 * time.Millisecond,
			}
			if !noInotify {
				o.Folders = newFolders(t)
			}
			test(t, o)
		})
	}
}

// part is a batch as a consumer keeps it after Done.
type part struct {
	File  *File
	Data  string
	Start int64
	Next  int64
	Cut   bool
	Final bool
	Pos   Position
}

// session is a running Files with its consumer: it acknowledges by keeping the
// position of each batch, and forgets finished files.
type session struct {
	t      *testing.T
	files  *Files
	out    chan *Batch
	cancel context.CancelFunc
	ended  chan error
	said   *logbook

	stopped   bool
	parts     []part // without those that only tell a position
	all       strings.Builder
	positions map[identity]Position
}

func begin(t *testing.T, o FilesOptions, patterns ...string) *session {
	t.Helper()
	s := &session{
		t: t, out: make(chan *Batch), ended: make(chan error, 1),
		said: &logbook{}, positions: make(map[identity]Position),
	}
	for _, p := range o.Resume {
		s.positions[p.identity()] = p
	}
	o.Patterns = patterns
	o.Logger = slog.New(slog.NewTextHandler(s.said, nil))
	s.files = NewFiles(o)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- s.files.Run(ctx, s.out) }()
	t.Cleanup(func() { s.stop() })
	return s
}

// stop ends the run and returns the acknowledged positions.
func (s *session) stop() []Position {
	if !s.stopped {
		s.stopped = true
		s.cancel()
		select {
		case err := <-s.ended:
			if err != nil {
				s.t.Errorf("Run returned %v after cancellation, want nil", err)
			}
		case <-time.After(patience):
			s.t.Error("Run did not end after cancellation")
		}
	}
	return s.stored()
}

// stored lists the acknowledged positions.
func (s *session) stored() (all []Position) {
	for _, p := range s.positions {
		all = append(all, p)
	}
	return all
}

func (s *session) accept(b *Batch) part {
	p := part{b.File, string(b.Data), b.Offset, b.Next, b.Cut, b.Final, b.Position}
	if b.Final {
		delete(s.positions, b.File.identity())
	} else {
		s.positions[b.File.identity()] = b.Position
	}
	b.Done()
	if p.Data == "" && !p.Final && !p.Pos.Done {
		return p // only a position
	}
	s.parts = append(s.parts, p)
	s.all.WriteString(p.Data)
	return p
}

// until takes batches until ok holds for all that came so far.
func (s *session) until(what string, ok func(all []part) bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for !ok(s.parts) {
		select {
		case b := <-s.out:
			s.accept(b)
		case <-deadline:
			s.t.Fatalf("waited in vain for %s, got %q; log:\n%s", what, s.text(), s.said)
		}
	}
}

// wants takes batches until the lines (of all files, in order of arrival) are
// as many bytes as want, and compares them.
func (s *session) wants(want string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%q", shorten(want)), func([]part) bool { return len(s.text()) >= len(want) })
	if got := s.text(); got != want {
		s.t.Fatalf("got %q, want %q", shorten(got), shorten(want))
	}
}

// final takes batches until the file is finished.
func (s *session) final(id identity) {
	s.t.Helper()
	s.until("the final batch", func(all []part) bool {
		for _, p := range all {
			if (p.Final || p.Pos.Done) && p.File.identity() == id {
				return true
			}
		}
		return false
	})
}

// quiet fails if a batch comes before the condition does, which is polled.
func (s *session) quietUntil(what string, ok func() bool) {
	s.t.Helper()
	s.poll(what, ok, func(b *Batch) {
		if len(b.Data) > 0 || b.Final {
			s.t.Fatalf("unexpected batch %q at %d", b.Data, b.Offset)
		}
		s.accept(b)
	})
}

func (s *session) poll(what string, ok func() bool, take func(*Batch)) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case b := <-s.out:
			take(b)
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("waited in vain until %s; log:\n%s", what, s.said)
		}
	}
}

// ready waits until the path is open and its position known.
func (s *session) ready(path string) {
	s.t.Helper()
	s.quietUntil(path+" is followed", func() bool {
		for _, p := range s.positions {
			if p.Path == path {
				return s.state(path) == Following
			}
		}
		return false
	})
}

func (s *session) state(path string) State {
	for _, f := range s.files.Stats().Files {
		if f.Path == path {
			return f.State
		}
	}
	return ""
}

func (s *session) text() string { return s.all.String() }

// of returns what came from one file.
func (s *session) of(id identity) string {
	var b strings.Builder
	for _, p := range s.parts {
		if p.File.identity() == id {
			b.WriteString(p.Data)
		}
	}
	return b.String()
}

// logbook holds messages, for tests of what is said and how often.
type logbook struct{ syncbuf.Buffer }

func (l *logbook) count(s string) int { return strings.Count(l.String(), s) }

// Files of a test.

func logPath(t *testing.T) string { return filepath.Join(t.TempDir(), "access.log") }

func create(t *testing.T, path, content string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	write(t, f, content)
	return f
}

func write(t *testing.T, f *os.File, s string) {
	t.Helper()
	_, err := f.WriteString(s)
	must(t, err)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

func idOf(t *testing.T, f *os.File) identity {
	t.Helper()
	fi, err := f.Stat()
	must(t, err)
	id, err := identify(fi)
	must(t, err)
	return id
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shorten(s string) string {
	if len(s) > 300 {
		return s[:150] + "…" + s[len(s)-150:]
	}
	return s
}
