package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

func newTestFinder(t *testing.T, target string) *finder {
	t.Helper()
	f, err := newFinder(&parse(t, web).Logs[0], nil, pfx(target))
	check(t, err)
	return f
}

func lookInto(t *testing.T, f *finder, path string, end, size int64) *scan {
	t.Helper()
	file, err := openRegular(path)
	check(t, err)
	defer file.Close()
	s, err := f.look(t.Context(), file, end, size)
	check(t, err)
	return s
}

// Of many lines only the latest are kept, and all are counted.
func TestScanKeepsTheLatest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	one, other := line("192.0.2.1", time.Now()), line("192.0.2.2", time.Now())
	check(t, os.WriteFile(path, []byte(strings.Repeat(one+other, 1017)+"garbage\n"), 0o600))
	s := lookInto(t, newTestFinder(t, "192.0.2.1/32"), path, -1, scanTail)
	if s.lines != 1017 || len(s.kept) > scanKept || len(s.kept) < scanKept/2 || s.more {
		t.Errorf("%d lines, %d kept, more: %v", s.lines, len(s.kept), s.more)
	}
	for i, k := range s.kept {
		if want := int64(1017-len(s.kept)+i) * int64(len(one+other)); k.at.Offset != want {
			t.Fatalf("line %d of those kept is at %d, want %d", i, k.at.Offset, want)
		}
	}
}

// Wherever a scan begins, a line that lacks its beginning is not taken for
// one, and each whole line is found where it is.
func TestScanBeginsAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	var text strings.Builder
	starts := map[int64]bool{}
	for i := range 20 {
		starts[int64(text.Len())] = true
		text.WriteString(line(fmt.Sprintf("192.0.2.%d", i), time.Now()))
	}
	check(t, os.WriteFile(path, []byte(text.String()), 0o600))
	f := newTestFinder(t, "192.0.2.0/24") // 2.0.2.1 would be the rest of 192.0.2.1
	for end := 0; end <= text.Len(); end += 7 {
		for _, size := range []int{1, 90, 200, text.Len()} {
			begin := max(0, end-size)
			s := lookInto(t, f, path, int64(end), int64(size))
			if s.more != (begin > 0) || s.bytes != int64(end-begin) {
				t.Fatalf("from %d to %d: %+v", begin, end, s)
			}
			want := strings.Count(text.String()[begin:end], "\n")
			if begin > 0 && want > 0 {
				want--
			}
			whole := 0
			for _, k := range s.kept {
				if !starts[k.at.Offset] || k.at.Offset < int64(begin) {
					t.Fatalf("from %d to %d a line is found at %d", begin, end, k.at.Offset)
				}
				if k.at.Offset+int64(len(k.text)) < int64(end) {
					whole++
				}
			}
			if whole != want {
				t.Fatalf("from %d to %d: %d whole lines, want %d", begin, end, whole, want)
			}
		}
	}
}

func TestScanEndsWhenAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	check(t, os.WriteFile(path, []byte(strings.Repeat(line("192.0.2.1", time.Now()), 5000)), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file, err := openRegular(path)
	check(t, err)
	defer file.Close()
	if s, err := newTestFinder(t, "192.0.2.1/32").look(ctx, file, -1, scanTail); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", s, err)
	}
}

// What is no regular file is not opened, and nobody waits for it.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "access.log")
	check(t, unix.Mkfifo(pipe, 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{pipe, dir, os.DevNull} {
			if f, err := openRegular(path); err == nil {
				f.Close()
				t.Errorf("%s was opened", path)
			}
		}
	}()
	if !waitFor(done, patience) {
		t.Error("it waits for somebody to write")
		f, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0) // so that it ends
		check(t, err)
		f.Close()
		<-done
	}
}

// A line is found in the file that holds it, whatever it is called by now, and
// in no other.
func TestOpenLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	check(t, os.WriteFile(path, make([]byte, 100), 0o600))
	var st unix.Stat_t
	check(t, unix.Stat(path, &st))
	id := &state.LineID{Path: path, Dev: uint64(st.Dev), Ino: st.Ino, Offset: 99}
	want := func(name string) {
		t.Helper()
		f, err := openLine(id)
		if name == "" {
			if err == nil {
				t.Errorf("%s was opened", f.Name())
				f.Close()
			}
			return
		}
		check(t, err)
		defer f.Close()
		if f.Name() != filepath.Join(dir, name) {
			t.Errorf("%s was opened, want %s", f.Name(), name)
		}
	}
	want("access.log")
	for _, name := range []string{"access.log.1", "access-20261130.log", "access.log"} {
		check(t, os.Rename(path, filepath.Join(dir, name)))
		path = filepath.Join(dir, name)
		check(t, os.WriteFile(filepath.Join(dir, "access.log.other"), make([]byte, 100), 0o600))
		want(name)
	}
	check(t, os.Truncate(path, 99)) // the line is not in it any more
	want("")
	check(t, os.Truncate(path, 100))
	check(t, os.Rename(path, filepath.Join(dir, "unrelated")))
	want("")
}

// Of one file no more than its end is read.
func TestScanOfALargeFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.Truncate(s.log, scanTail+1<<20)) // takes no room
	l := newLive(t, s, s.config(enforced), nil)
	s.write("\n")
	s.requests("203.0.113.1", 1)
	x := l.explain("203.0.113.1")
	if len(x.Seen) != 1 || x.Seen[0].Bytes != scanTail || !x.Seen[0].Partial || x.Seen[0].Lines != 1 {
		t.Errorf("seen %+v, want %d bytes and a line", x.Seen, scanTail)
	}
	l.stop()
}

// However large the logs are, only their ends are read, and of all together
// not more than fits into an answer's time.
func TestScanIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	t.Parallel()
	s := newSite(t, t.TempDir())
	const files = scanAll/scanTail + 2
	for i := range files {
		path := fmt.Sprintf("%s.%02d", s.log, i)
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.Truncate(path, scanTail+1<<20)) // takes no room
	}
	l := newLive(t, s, strings.Replace(s.config(enforced), "access.log\"", "access.log*\"", 1), nil)
	wait(t, "all files", func() bool { return len(l.status().Logs[0].Files) == files+1 })
	x := l.explain("203.0.113.1")
	if len(x.Seen) != 1 || x.Seen[0].Bytes != scanAll || !x.Seen[0].Partial {
		t.Errorf("seen %+v, want %d bytes", x.Seen, scanAll)
	}
	l.stop()
}

// A file that hangs: the answer comes without it, and the daemon goes on.
func TestLogThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	hangs, release := hangingFolder(t)
	st, _, err := state.Open(filepath.Join(s.state, stateFile), time.Now())
	check(t, err)
	ban := held("203.0.113.1/32", time.Now(), time.Hour, "web", "firewall")
	ban.Owners[0].Line.Path = filepath.Join(hangs, "access.log")
	check(t, st.Commit(state.Update{Bans: []state.Ban{ban}}))
	check(t, st.Close())

	l := newLive(t, s, s.config(enforced), nil)
	answered := make(chan *control.Explanation)
	go func() { answered <- l.explain("203.0.113.1") }()
	s.requests("203.0.113.2", 3)
	l.waitBanned("203.0.113.2")
	select {
	case x := <-answered:
		if x.Conclusion != control.Banned || len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "does a disk hang?") || len(x.Evidence)+len(x.Seen) != 0 {
			t.Errorf("%s, notes %q, seen %+v, evidence %+v", x.Conclusion, x.Notes, x.Seen, x.Evidence)
		}
	case <-time.After(scanPatience + patience):
		t.Error("there is no answer")
	}
	release()
	l.stop()
}

// hangingFolder is a folder in which every call waits until it is released: a
// FUSE mount that nobody serves.
func hangingFolder(t *testing.T) (dir string, release func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("root may not mount here: %v", err)
	}
	dir = t.TempDir()
	if err := unix.Mount("fuse", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		unix.Close(fd)
		t.Skipf("root may not mount here: %v", err)
	}
	released := false
	release = func() {
		if !released {
			released = true
			unix.Close(fd) // whoever waits gets an error
			check(t, unix.Unmount(dir, unix.MNT_DETACH))
		}
	}
	t.Cleanup(release)
	return dir, release
}
