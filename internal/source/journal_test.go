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

// fakeJournal stands for journalctl: what follows is written by the test.
type fakeJournal struct {
	t   *testing.T
	dir string
}

func newFakeJournal(t *testing.T) *fakeJournal {
	f := &fakeJournal{t: t, dir: t.TempDir()}
	must(t, unix.Mkfifo(f.path("follow"), 0o600))
	f.set("newest", "")
	f.set("past", "")
	f.set("boot", entry(1, "of this boot"))
	f.set("stderr", "")
	f.set("program", fmt.Sprintf(`#!/bin/sh
echo "$*" >>%[1]s/args
echo $$ >%[1]s/pid
case "$*" in
*_BOOT_ID=*) exec cat %[1]s/boot ;;
*--lines=1*) cat %[1]s/stderr >&2; exec cat %[1]s/newest ;;
esac
cat %[1]s/stderr >&2
case "$*" in
*--cursor=nonsense*) echo "Failed to seek to cursor: Invalid argument" >&2; exit 1 ;;
esac
test -e %[1]s/exit && exit 1
case "$*" in
*--follow*) exec cat %[1]s/follow ;;
*) exec cat %[1]s/past ;;
esac
`, f.dir))
	must(t, os.Chmod(f.path("program"), 0o700))
	return f
}

func (f *fakeJournal) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fakeJournal) set(name, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(f.path(name), []byte(text), 0o600))
}

func (f *fakeJournal) args() string {
	b, _ := os.ReadFile(f.path("args"))
	return string(b)
}

// journal waits for the child to read and returns where it reads from.
func (f *fakeJournal) journal() *os.File {
	f.t.Helper()
	for end := time.Now().Add(patience); ; {
		// Opening it would wait for the child without an end.
		fd, err := unix.Open(f.path("follow"), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			w := os.NewFile(uintptr(fd), "follow")
			f.t.Cleanup(func() { w.Close() })
			return w
		}
		if time.Now().After(end) {
			f.t.Fatalf("the child does not read: %v; it was called with %s", err, f.args())
		}
		<-time.After(time.Millisecond)
	}
}

func entry(n int, message string) string {
	return fmt.Sprintf(`{"__CURSOR":"s=a;i=%d;b=b;m=%d;t=1;x=%d","MESSAGE":%q}`+"\n", n, n, n, message)
}

func cursor(n int) string { return fmt.Sprintf("s=a;i=%d;b=b;m=%d;t=1;x=%d", n, n, n) }

func (f *fakeJournal) begin(o JournalOptions) (*session, *Journal) {
	var j *Journal
	s := beginSource(f.t, func(l *slog.Logger) Source {
		o.Log, o.Logger = "web", l
		if o.Units == nil {
			o.Units = []string{"nginx.service", "nginx@a.service"}
		}
		j = NewJournal(o)
		j.program, j.pause.least, j.settle = f.path("program"), time.Millisecond, 100*time.Millisecond
		return j
	})
	return s, j
}

// beginQuietly begins, and waits for the child to have failed some times.
func (f *fakeJournal) beginQuietly(o JournalOptions) *session {
	f.t.Helper()
	s, j := f.begin(o)
	s.quietUntil("some restarts", func() bool { return j.Stats().Restarts > 3 && j.Stats().State == Failing })
	return s
}

// Nothing comes, and nothing is wrong.
func TestJournalIsSilent(t *testing.T) {
	f := newFakeJournal(t)
	s, j := f.begin(JournalOptions{FromStart: true})
	s.announced()
	f.journal()
	s.quietUntil("it to be fine", func() bool { return j.Stats().State == Following })
}

func TestJournalFromNow(t *testing.T) {
	f := newFakeJournal(t)
	f.set("newest", entry(7, "old"))
	s, j := f.begin(JournalOptions{})
	if p := s.announced(); p.Cursor != cursor(7) {
		t.Errorf("begins behind %+v", p)
	}
	w := f.journal()
	write(t, w, entry(7, "old")+entry(8, "one")+entry(9, "two\nforged"))
	s.wants("one\ntwo\\nforged\n")
	s.contiguous()
	if !strings.Contains(f.args(), "--follow --no-tail --cursor="+cursor(7)+" _SYSTEMD_UNIT=nginx.service _SYSTEMD_UNIT=nginx@a.service\n") {
		t.Errorf("called with %s", f.args())
	}
	st := j.Stats()
	if st.Lines != 2 || st.Bytes != int64(len("one\ntwo\\nforged\n")) || st.State != Following || st.Gaps != 0 || st.LastLine.IsZero() {
		t.Errorf("stats %+v", st)
	}
	if p := s.stop(); len(p) != 1 || p[0].Cursor != cursor(9) || p[0].Offset != st.Bytes || p[0].Path != "journal:nginx.service,nginx@a.service" {
		t.Errorf("position %+v", p)
	}
}

// Nothing was ever written: whatever comes is new, also what comes between the
// look and the start of the child, or between a stop and the next start.
func TestJournalWithoutEntries(t *testing.T) {
	f := newFakeJournal(t)
	f.set("newest", "")
	s, _ := f.begin(JournalOptions{})
	s.announced()
	f.journal()
	stored := s.stop()
	f.set("newest", entry(1, "one"))
	s, _ = f.begin(JournalOptions{Resume: stored})
	s.announced()
	w := f.journal()
	write(t, w, entry(1, "one")+entry(2, "two"))
	s.wants("one\ntwo\n")
	if strings.Contains(f.args(), "--cursor") {
		t.Errorf("called with %s", f.args())
	}
}

func TestJournalResumes(t *testing.T) {
	stored := Position{Log: "web", Path: "journal:nginx.service,nginx@a.service", Offset: 1000, Cursor: cursor(7)}
	moved := strings.Replace(entry(7, "old"), "s=a;i=7;", "s=c;i=1;", 1)
	other := stored
	other.Path = "journal:apache2.service"
	socket := Position{Log: "web", Path: "unix:/run/x", Offset: 1000}
	for _, tt := range []struct {
		name   string
		stored Position
		writes string
		want   string
		gaps   int64
		offset int64
	}{
		{"behind the entry", stored, entry(7, "old") + entry(8, "new"), "new\n", 0, 1000},
		{"entry moved to the disk", stored, moved + entry(8, "new"), "new\n", 0, 1000},
		{"entry is gone", stored, entry(9, "new"), "new\n", 1, 1000},
		{"other units", other, entry(9, "new"), "new\n", 0, 1000},
		{"was a socket", socket, entry(9, "new"), "new\n", 0, 1000},
		{"another log", Position{Log: "x", Path: stored.Path, Offset: 1000, Cursor: cursor(7)}, entry(9, "new"), "new\n", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeJournal(t)
			s, j := f.begin(JournalOptions{Resume: []Position{tt.stored}})
			s.announced()
			write(t, f.journal(), tt.writes)
			s.wants(tt.want)
			if s.parts[0].Start != tt.offset {
				t.Errorf("begins at %d, want %d", s.parts[0].Start, tt.offset)
			}
			if got := j.Stats().Gaps; got != tt.gaps || s.said.count("vacuumed") != int(tt.gaps) {
				t.Errorf("%d gaps, want %d; said %s", got, tt.gaps, s.said)
			}
			if usesIt := strings.Contains(f.args(), "--cursor="+cursor(7)); usesIt != (tt.stored.Log == "web" && tt.stored.Cursor != "") {
				t.Errorf("called with %s", f.args())
			}
		})
	}
}

// What was written in earlier boots is read first: --follow doesn't show it.
func TestJournalOfEarlierBoots(t *testing.T) {
	later := func(e string) string { return strings.Replace(e, ";b=b;", ";b=later;", 1) }
	stored := Position{Log: "web", Path: "journal:nginx.service,nginx@a.service", Offset: 1000, Cursor: cursor(7)}
	for _, tt := range []struct {
		name        string
		stored      []Position
		past, left  string
		follow, new string
		gaps        int64
	}{
		{"some were left", []Position{stored}, entry(7, "old") + entry(8, "left"), "left\n", later(entry(9, "new")), "new\n", 0},
		{"none was left", []Position{stored}, entry(7, "old"), "", later(entry(9, "new")), "new\n", 0},
		{"and some of this boot", []Position{stored}, entry(7, "old") + entry(8, "left") + later(entry(9, "one")), "left\none\n",
			later(entry(9, "one")) + later(entry(10, "new")), "new\n", 0},
		{"the last one is gone", []Position{stored}, entry(8, "left"), "left\n", later(entry(9, "new")), "new\n", 1},
		{"all are gone", []Position{stored}, "", "", later(entry(9, "new")), "new\n", 1},
		{"lost in between", []Position{stored}, entry(7, "old") + entry(8, "left"), "left\n", entry(10, "new"), "new\n", 1},
		{"from the oldest", nil, entry(7, "old") + entry(8, "left"), "old\nleft\n", later(entry(9, "new")), "new\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeJournal(t)
			f.set("past", tt.past)
			s, j := f.begin(JournalOptions{Resume: tt.stored, FromStart: true})
			s.announced()
			s.wants(tt.left)
			write(t, f.journal(), tt.follow)
			s.wants(tt.left + tt.new)
			s.contiguous()
			if got := j.Stats().Gaps; got != tt.gaps {
				t.Errorf("%d gaps, want %d; said %s", got, tt.gaps, s.said)
			}
		})
	}
}

// Where journalctl can't know the running boot it is told: in units that hide
// its number, and where they show the one of the host of a container.
func TestJournalIsToldTheBoot(t *testing.T) {
	for _, tt := range []struct {
		name, file, ofBoot, want string
	}{
		{"known", "", entry(1, "of this boot"), "--no-tail _SYSTEMD_UNIT"},
		{"hidden", "/nowhere", entry(1, "of this boot"), "--no-tail --boot=b _SYSTEMD_UNIT"},
		{"of the host", "", "", "--no-tail --boot=b _SYSTEMD_UNIT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeJournal(t)
			f.set("newest", entry(7, "old"))
			f.set("boot", tt.ofBoot)
			s := beginSource(t, func(l *slog.Logger) Source {
				j := NewJournal(JournalOptions{Log: "web", Units: []string{"a.service"}, FromStart: true, Logger: l})
				j.program = f.path("program")
				if tt.file != "" {
					j.bootID = tt.file
				}
				return j
			})
			s.announced()
			write(t, f.journal(), entry(8, "new"))
			s.wants("new\n")
			if !strings.Contains(f.args(), tt.want) {
				t.Errorf("called with %s, want %s", f.args(), tt.want)
			}
		})
	}
}

// What is read again is told apart from what is new by its entries, and where
// entries of it are gone the new ones are all that is sent.
func TestJournalReadAgain(t *testing.T) {
	const path = "journal:nginx.service,nginx@a.service"
	resume := Position{Log: "web", Path: path, Offset: 1000, Cursor: cursor(7)}
	counted := Position{Log: "web", Path: path, Offset: 1010, Cursor: cursor(9)} // 10 bytes
	fewer, more := counted, counted
	fewer.Offset, more.Offset = 1005, 1020
	other := resume
	other.Path = "journal:apache2.service"
	for _, tt := range []struct {
		name         string
		from, upTo   Position
		there        string // in the journal
		jumps        bool   // over what was counted
		again, fresh string
		offset       int64 // of the first that is new
		gaps         int64
	}{
		{"all is there", resume, counted, entry(7, "old") + entry(8, "four") + entry(9, "nine") + entry(10, "new"), false, "four\nnine\n", "new\n", 1010, 0},
		{"shorter than it was", resume, more, entry(7, "old") + entry(8, "four") + entry(9, "nine") + entry(10, "new"), false, "four\nnine\n", "new\n", 1020, 0},
		{"its end is gone", resume, counted, entry(7, "old") + entry(8, "four") + entry(10, "ten*") + entry(11, "new"), false, "four\nten*\n", "new\n", 1010, 0},
		{"its beginning is gone", resume, counted, entry(9, "nine") + entry(10, "new"), true, "", "new\n", 1010, 0},
		{"all of it is gone", resume, counted, entry(10, "new"), true, "", "new\n", 1010, 1},
		{"of other units", other, fewer, entry(8, "four") + entry(9, "nine"), false, "", "four\nnine\n", 1000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeJournal(t)
			f.set("past", tt.there)
			s, j := f.begin(JournalOptions{Resume: []Position{tt.from}, Counted: tt.upTo})
			var again, fresh string
			offset := int64(-1)
			take := func(want string) {
				for fresh != want {
					select {
					case b := <-s.out:
						if b.Again {
							again += string(b.Data)
							continue
						}
						if offset < 0 {
							offset = b.Offset
						}
						fresh += string(b.Data)
					case <-time.After(patience):
						t.Fatalf("got %q and then %q, want %q; said %s", again, fresh, want, s.said)
					}
				}
			}
			b := <-s.out // where it begins
			if b.Again != (tt.from.Path == path) || b.Offset != 1000 {
				t.Errorf("begins with %+v", b)
			}
			if tt.jumps {
				if b := <-s.out; b.Again || b.Offset != tt.offset || len(b.Data) > 0 {
					t.Errorf("goes on with %+v", b)
				}
				waitUntil(t, "the next child", func() bool { return strings.Contains(f.args(), "--cursor="+cursor(9)) })
			}
			take(tt.fresh)
			if again != tt.again || offset != tt.offset && !tt.jumps {
				t.Errorf("read again %q, want %q; new from %d, want %d", again, tt.again, offset, tt.offset)
			}
			if got := j.Stats().Gaps; got != tt.gaps {
				t.Errorf("%d gaps, want %d", got, tt.gaps)
			}
		})
	}
}

// A file that the log was read from before is forgotten.
func TestJournalForgetsFiles(t *testing.T) {
	f := newFakeJournal(t)
	file := Position{Log: "web", Path: "/var/log/access.log", Dev: 1, Ino: 2, Offset: 3}
	s, _ := f.begin(JournalOptions{Resume: []Position{file}, FromStart: true})
	s.final(file.identity())
	if strings.Contains(f.args(), "--lines") {
		t.Error("does not begin at the start")
	}
}

// The child that ends is started again behind what was read.
func TestJournalChildEnds(t *testing.T) {
	f := newFakeJournal(t)
	s, j := f.begin(JournalOptions{FromStart: true})
	s.announced()
	w := f.journal()
	write(t, w, entry(1, "one")+`{"__CURSOR":"s=a;i=2;b=b;m=2;t=1;x=2","MESS`)
	must(t, w.Close())
	s.wants("one\n")
	s.quietUntil("a restart", func() bool { return j.Stats().Restarts > 0 })
	w = f.journal()
	write(t, w, entry(1, "one")+entry(2, "two")+"garbage\n"+`{"__CURSOR":"c3","MESSAGE":null}`+"\n"+entry(4, "four"))
	s.wants("one\ntwo\nfour\n")
	s.contiguous()
	if st := j.Stats(); st.Restarts < 1 || st.Malformed != 2 || st.Gaps != 0 {
		t.Errorf("stats %+v", st)
	}
	if n := s.said.count("journalctl has ended"); n != 1 {
		t.Errorf("said %d times that the child has ended: %s", n, s.said)
	}
}

// What is there can be read, and waiting for more fails each time: it is tried more
// and more seldom, and said once.
func TestJournalCannotBeFollowed(t *testing.T) {
	f := newFakeJournal(t)
	f.set("newest", entry(7, "old"))
	f.set("past", entry(7, "old"))
	program, err := os.ReadFile(f.path("program"))
	must(t, err)
	f.set("program", strings.Replace(string(program), "*--follow*) exec cat", "*--follow*) echo broken >&2; exit 1; cat", 1))
	s, j := f.begin(JournalOptions{})
	s.announced()
	began := time.Now()
	s.quietUntil("some restarts", func() bool { return j.Stats().Restarts >= 8 })
	if took, least := time.Since(began), 127*time.Millisecond; took < least { // 1 + 2 + ... + 64 ms
		t.Errorf("tried 8 times again in %v, want %v at least", took, least)
	}
	s.quietUntil("it has failed", func() bool { return j.Stats().State == Failing })
	if n := s.said.count("journalctl has ended"); n != 1 || s.said.count("reading again") != 0 {
		t.Errorf("said %d times that it has ended:\n%s", n, s.said)
	}
}

func TestJournalPlaceUnknown(t *testing.T) {
	f := newFakeJournal(t)
	s, j := f.begin(JournalOptions{Resume: []Position{{Log: "web", Path: "journal:nginx.service,nginx@a.service", Cursor: "nonsense"}}})
	s.announced()
	write(t, f.journal(), entry(1, "one"))
	s.wants("one\n")
	if st := j.Stats(); st.Gaps != 1 || st.Restarts != 1 {
		t.Errorf("stats %+v", st)
	}
	if last := strings.Split(strings.TrimSpace(f.args()), "\n"); strings.Contains(last[len(last)-1], "--cursor") {
		t.Errorf("called with %s", f.args())
	}
}

func TestJournalCannotBeRead(t *testing.T) {
	const hint = "SupplementaryGroups=systemd-journal"
	t.Run("denied", func(t *testing.T) {
		f := newFakeJournal(t)
		f.set("stderr", "No journal files were opened due to insufficient permissions.\n")
		f.set("exit", "")
		for _, fromStart := range []bool{true, false} {
			s := f.beginQuietly(JournalOptions{FromStart: fromStart})
			if n := s.said.count(hint); n != 1 || s.said.count("level=WARN") != 1 || s.said.count("again") != 1 {
				t.Errorf("said %d times: %s", n, s.said)
			}
			s.stop()
		}
	})
	t.Run("own entries only", func(t *testing.T) {
		f := newFakeJournal(t)
		f.set("stderr", "Hint: You are currently not seeing messages from other users and the system.\n      Users in groups 'adm' can see all.\n")
		s, j := f.begin(JournalOptions{FromStart: true})
		s.quietUntil("the trouble", func() bool { return strings.Contains(j.Stats().Err, hint) })
		w := f.journal()
		f.set("stderr", "")
		write(t, w, entry(1, "one"))
		s.wants("one\n")
		if st := j.Stats(); st.State != Following || st.Err != "" {
			t.Errorf("stats %+v", st)
		}
	})
	t.Run("no journalctl", func(t *testing.T) {
		var j *Journal
		s := beginSource(t, func(l *slog.Logger) Source {
			j = NewJournal(JournalOptions{Log: "web", Units: []string{"a.service"}, Logger: l})
			j.program, j.pause.least = "journalctl-that-is-nowhere", time.Millisecond
			return j
		})
		s.quietUntil("some tries", func() bool { return j.Stats().Restarts > 3 })
		if n := s.said.count("is it installed?"); n != 1 {
			t.Errorf("said %d times: %s", n, s.said)
		}
	})
}

// However long a message is, one line comes of it, cut at the limit.
func TestJournalLongMessage(t *testing.T) {
	f := newFakeJournal(t)
	s, j := f.begin(JournalOptions{FromStart: true, MaxLine: 1000})
	s.announced()
	w := f.journal()
	long := strings.Repeat("x", 100_000)
	go w.WriteString(entry(1, "before") + entry(2, long) + entry(3, strings.Repeat("y", 1000)) + entry(4, "behind"))
	s.wants("before\n" + long[:1000] + strings.Repeat("y", 1000) + "\nbehind\n")
	s.contiguous()
	if j.Stats().Cut != 1 || !s.parts[1].Cut {
		t.Errorf("stats %+v", j.Stats())
	}
}

// The child doesn't outlive the source.
func TestJournalChildIsEnded(t *testing.T) {
	f := newFakeJournal(t)
	s, _ := f.begin(JournalOptions{FromStart: true})
	s.announced()
	f.journal()
	pid, err := os.ReadFile(f.path("pid"))
	must(t, err)
	s.stop()
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Error("the child still runs")
	}
}
