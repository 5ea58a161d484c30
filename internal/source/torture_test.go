package source

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// longTorture, set to anything, asks for 2,000 rotations and for 1,100 files,
// which take minutes.
const longTorture = "TAILBAN_TORTURE"

// Writers append numbered lines, in pieces, and rotate their files in every way
// there is at random times. The follower is stopped and killed, and started with
// what was committed: lines and positions together. Each line must be counted
// exactly once. Only what was left of a file that was deleted while nobody looked
// is lost, and said to be.
func TestTorture(t *testing.T) {
	length, rotations := 4*time.Second, 0
	if testing.Short() {
		length = 2 * time.Second
	}
	if os.Getenv(longTorture) != "" {
		length, rotations = 10*time.Minute, 500
	}
	for _, kills := range []bool{false, true} {
		t.Run(fmt.Sprintf("kills=%v", kills), func(t *testing.T) {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				torture(t, o, kills, 0, rotations, length)
			})
		})
	}
}

func TestTortureWithManyFiles(t *testing.T) {
	if os.Getenv(longTorture) == "" {
		t.Skip("takes a minute: set " + longTorture)
	}
	bothWays(t, func(t *testing.T, o FilesOptions) { torture(t, o, true, 1100, 200, 5*time.Minute) })
}

// style is how a writer rotates its file.
type style struct {
	name    string
	pattern string // what is followed, %s being the writer's path without .log
	deletes bool   // what is left of the old file is nowhere if nobody looks
	sparse  bool   // a writer doesn't append, and leaves holes

	// rotate puts an empty file in the place of the writer's, at its n-th
	// rotation. It returns true if it is the same one.
	rotate func(w *writer, n int) (same bool)
}

func styles() []style {
	return []style{
		{name: "rename", pattern: "%s.log", rotate: (*writer).rename},
		{name: "rename, by a pattern", pattern: "%s.log*", rotate: (*writer).rename},
		{name: "rename and compress", pattern: "%s.log", rotate: func(w *writer, n int) bool {
			w.pack = w.rotated(n)
			return w.rename(n)
		}},
		{name: "copytruncate", pattern: "%s.log", rotate: (*writer).copyTruncate},
		{name: "copytruncate, by a pattern", pattern: "%s.log*", sparse: true, rotate: (*writer).copyTruncate},
		{name: "delete and recreate", pattern: "%s.log", deletes: true, rotate: func(w *writer, n int) bool {
			w.check(os.Remove(w.path))
			return false
		}},
		{name: "symbolic link", pattern: "%s.log", rotate: (*writer).relink},
		{name: "daily names", pattern: "%s-*.log", rotate: func(w *writer, n int) bool {
			w.path = fmt.Sprintf("%s-%d.log", w.base, n)
			return false
		}},
	}
}

// writer is a server with one log. It rotates once a line of the file has been
// counted: what comes and goes between a stop and a start can't be known.
type writer struct {
	style
	t         *testing.T
	id        int
	base      string // of its files' paths
	path      string
	rnd       *rand.Rand
	counted   atomic.Int64 // number of the last line that was counted
	rotations int
	rotatedAt []int // line
	lines     int
	pack      string // file to compress when it is no longer written to
	files     []span
}

// span is which lines were written to one file, and when it was rotated.
type span struct {
	from, to int
	rotated  time.Time
}

func (w *writer) check(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

func (w *writer) rotated(n int) string { return fmt.Sprintf("%s.%d", w.path, n) }

func (w *writer) rename(n int) bool {
	w.check(os.Rename(w.path, w.rotated(n)))
	return false
}

func (w *writer) copyTruncate(n int) bool {
	from, err := os.Open(w.path)
	w.check(err)
	to, err := os.Create(w.rotated(n))
	w.check(err)
	_, err = io.Copy(to, from)
	w.check(err)
	w.check(to.Close())
	w.check(from.Close())
	w.check(os.Truncate(w.path, 0))
	return true
}

func (w *writer) relink(n int) bool {
	next := fmt.Sprintf("%s-%d", w.base, n)
	f, err := os.Create(next)
	w.check(err)
	w.check(f.Close())
	w.check(os.Symlink(next, w.path+".new"))
	w.check(os.Rename(w.path+".new", w.path))
	return false
}

func (w *writer) open() *os.File {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if w.sparse {
		flags &^= os.O_APPEND
	}
	f, err := os.OpenFile(w.path, flags, 0o644)
	w.check(err)
	return f
}

// run writes until there were enough rotations, or until the time is up.
func (w *writer) run(enough int, until time.Time) {
	if strings.Contains(w.pattern, "-*") {
		w.path = w.base + "-0.log"
	}
	if w.name == "symbolic link" {
		w.relink(0)
	}
	f := w.open()
	defer func() { w.check(f.Close()) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	first := 0 // line of the file
	keep := 0  // how many lines yet to write to the old file
	more := func() bool {
		if w.rotations == 0 { // on a busy machine
			return time.Now().Before(until.Add(patience))
		}
		return time.Now().Before(until) && (enough == 0 || w.rotations < enough)
	}
	for ; keep > 0 || more(); <-tick.C {
		line := numbered(w.id, w.lines)
		cut := w.rnd.IntN(len(line))
		for _, piece := range []string{line[:cut], line[cut:]} {
			_, err := f.WriteString(piece)
			w.check(err)
		}
		w.lines++
		if keep--; keep == 0 {
			w.check(f.Close())
			w.files[len(w.files)-1].to = w.lines
			f, first = w.open(), w.lines
			w.tidy()
		}
		if keep < 0 && w.rnd.IntN(50) == 0 && int(w.counted.Load()) > first {
			w.rotations++
			w.rotatedAt = append(w.rotatedAt, w.lines)
			w.files = append(w.files, span{first, w.lines, time.Now()})
			if w.rotate(w, w.rotations) {
				first = w.lines
			} else {
				keep = 1 + w.rnd.IntN(20)
			}
			if w.t.Failed() {
				return
			}
		}
	}
}

// story is what was said about the file in which a line was.
func (w *writer) story(said *strings.Builder, line int) string {
	n := 1
	for n < len(w.rotatedAt) && w.rotatedAt[n-1] <= line {
		n++
	}
	var out strings.Builder
	fmt.Fprintf(&out, "rotation %d at lines %v\n", n, w.rotatedAt[max(0, n-2):min(n+1, len(w.rotatedAt))])
	for text := range strings.SplitAfterSeq(said.String(), "\n") {
		around := strings.Contains(text, w.base) && (strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR"))
		for k := n - 1; k <= n; k++ { // a writer goes on with the file that it has renamed
			around = around || strings.Contains(text, fmt.Sprintf("%s.%d\"", w.path, k)) || strings.Contains(text, fmt.Sprintf("%s.%d.gz\"", w.path, k))
		}
		if around || strings.HasPrefix(text, "start ") {
			out.WriteString(text)
		}
	}
	return out.String()
}

// tidy does what comes after a rotation: compresses.
func (w *writer) tidy() {
	if w.pack == "" {
		return
	}
	pack(w.t, w.pack)
	w.pack = ""
}

func numbered(writer, k int) string {
	return fmt.Sprintf("%d %d a line of some log %s\n", writer, k, strings.Repeat("x", k%97))
}

// ledger is what has been committed: lines and positions, together.
type ledger struct {
	positions map[identity]Position
	lines     map[string]int
	gaps      int64
	pending   []part
	said      strings.Builder
	runs      []tortured
}

// tortured is what came, counted or not, and was said between a start and a stop.
type tortured struct {
	lines map[string]bool
	said  string
	ended time.Time
}

// excused reports whether a line is lost as it must be: its file was deleted, of
// which nothing came in a run that said so.
func (l *ledger) excused(w *writer, line int) bool {
	i := slices.IndexFunc(w.files, func(s span) bool { return s.from <= line && line < s.to })
	if i < 0 || !w.deletes {
		return false
	}
	for k := line; k < w.files[i].to; k++ {
		if l.lines[numbered(w.id, k)] > 0 {
			return false
		}
	}
	return slices.ContainsFunc(l.runs, func(r tortured) bool {
		for k := w.files[i].from; k < w.files[i].to; k++ {
			if r.lines[numbered(w.id, k)] {
				return false
			}
		}
		for text := range strings.SplitSeq(r.said, "\n") {
			gone := strings.Contains(text, "a file read before is gone")
			if again := strings.Contains(text, "was replaced or truncated since"); (gone || again) && strings.Contains(text, w.path) { // again: with its number
				return w.files[i].rotated.Before(r.ended)
			}
		}
		return false
	})
}

func (l *ledger) take(b *Batch) {
	for line := range strings.SplitAfterSeq(string(b.Data), "\n") {
		l.runs[len(l.runs)-1].lines[line] = true
	}
	l.pending = append(l.pending, part{File: b.File, Data: string(b.Data), Final: b.Final, Pos: b.Position})
	b.Done()
}

func (l *ledger) commit(crew []*writer) {
	for _, p := range l.pending {
		if p.Final {
			delete(l.positions, p.File.identity())
		} else {
			l.positions[p.File.identity()] = p.Pos
		}
		for line := range strings.SplitAfterSeq(p.Data, "\n") {
			if line == "" {
				continue
			}
			l.lines[line]++
			fields := strings.SplitN(line, " ", 3)
			w, err := strconv.Atoi(fields[0])
			if k, err2 := strconv.Atoi(fields[min(1, len(fields)-1)]); err == nil && err2 == nil && w < len(crew) {
				crew[w].counted.Store(max(crew[w].counted.Load(), int64(k)))
			}
		}
	}
	l.pending = nil
}

func (l *ledger) resume() (all []Position) {
	for _, p := range l.positions {
		all = append(all, p)
	}
	return all
}

func torture(t *testing.T, o FilesOptions, kills bool, idle, rotations int, length time.Duration) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	o.FromStart, o.Poll = true, 20*time.Millisecond
	// Longer than a writer goes on with a renamed file, on a busy machine.
	o.Grace = time.Second
	var patterns []string
	var crew []*writer
	for i, s := range styles() {
		base := filepath.Join(dir, fmt.Sprintf("w%d", i))
		crew = append(crew, &writer{style: s, t: t, id: i, base: base, path: base + ".log", rnd: rand.New(rand.NewPCG(seed, uint64(i)))})
		patterns = append(patterns, fmt.Sprintf(s.pattern, base))
	}
	for i := range idle {
		create(t, filepath.Join(dir, fmt.Sprintf("idle%d.log", i)), "an idle log\n")
	}
	if idle > 0 {
		patterns = append(patterns, filepath.Join(dir, "idle*.log"))
	}
	var wg sync.WaitGroup
	until := time.Now().Add(length)
	for _, w := range crew {
		w.counted.Store(-1)
		wg.Go(func() { w.run((rotations+len(crew)-1)/len(crew), until) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	rnd := rand.New(rand.NewPCG(seed, 1000))
	l := &ledger{positions: make(map[identity]Position), lines: make(map[string]int)}
	starts, ended := 0, false
	total := func() (n int) {
		for _, w := range crew {
			n += w.lines
		}
		return n + idle
	}
	for complete := false; !complete; starts++ {
		o.Resume = l.resume()
		s := begin(t, o, patterns...)
		l.runs = append(l.runs, tortured{lines: make(map[string]bool)})
		var stop <-chan time.Time
		if kills && !ended {
			stop = time.After(time.Duration(rnd.IntN(1200)) * time.Millisecond)
		}
		patient := time.NewTimer(patience)
		quiet := time.NewTicker(100 * time.Millisecond)
		for on := true; on; {
			select {
			case b := <-s.out:
				patient.Reset(patience)
				l.take(b)
				if rnd.IntN(4) == 0 {
					l.commit(crew)
				}
			case <-quiet.C:
				l.commit(crew)
				if ended && (len(l.lines) >= total() || kills && settled(s, crew)) {
					on, complete = false, true
				}
			case <-stop:
				on = false
			case <-done:
				done, ended = nil, true
			case <-patient.C:
				on, complete = false, true
			}
		}
		if rnd.IntN(2) == 0 {
			l.commit(crew) // stopped, not killed
		}
		l.pending = nil
		s.stop()
		l.gaps += s.files.Stats().Gaps
		run := &l.runs[len(l.runs)-1]
		run.said, run.ended = s.said.String(), time.Now()
		fmt.Fprintf(&l.said, "start %d\n%s", starts, s.said)
		quiet.Stop()
	}
	l.judge(t, crew, kills, idle)
	all := 0
	for _, w := range crew {
		if w.rotations == 0 {
			t.Errorf("%s: no rotation", w.name)
		}
		all += w.rotations
	}
	t.Logf("%d lines, %d rotations, %d starts, %d gaps", total(), all, starts, l.gaps)
}

// settled reports whether nothing is left to read, of what the writers write to
// and of what they have rotated.
func settled(s *session, crew []*writer) bool {
	open := make(map[uint64]bool)
	for _, f := range s.files.Stats().Files {
		if f.Behind > 0 || f.State == Renamed || f.State == Deleted {
			return false
		}
		open[f.Ino] = true
	}
	return !slices.ContainsFunc(crew, func(w *writer) bool {
		fi, err := os.Stat(w.path)
		w.check(err)
		id, err := identify(fi)
		w.check(err)
		return !open[id.ino]
	})
}

func (l *ledger) judge(t *testing.T, crew []*writer, kills bool, idle int) {
	t.Helper()
	if l.lines["an idle log\n"] != idle {
		t.Errorf("%d lines of idle logs, want %d", l.lines["an idle log\n"], idle)
	}
	delete(l.lines, "an idle log\n")
	for _, w := range crew {
		lost, excused, twice, last := 0, 0, 0, 0
		for k := range w.lines {
			switch n := l.lines[numbered(w.id, k)]; {
			case n == 0 && kills && l.excused(w, k):
				excused++
			case n == 0:
				lost++
				last = k
			case n > 1:
				twice++
				last = k
			}
		}
		if twice > 0 || lost > 0 {
			t.Errorf("%s: of %d lines %d are lost and %d came twice", w.name, w.lines, lost, twice)
			t.Log("the last of them is line ", last, "; what was said about its file:\n", w.story(&l.said, last))
		}
		if excused > 0 {
			t.Logf("%s: of %d lines %d are lost with their files", w.name, w.lines, excused)
		}
		for k := range w.lines {
			delete(l.lines, numbered(w.id, k))
		}
	}
	for line := range l.lines {
		t.Errorf("nobody wrote %q", shorten(string(bytes.TrimSpace([]byte(line)))))
	}
}
