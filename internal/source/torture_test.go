package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Writers append numbered lines, in pieces, and rotate their file at random
// times while going on to write to the old one; the follower is stopped and
// started with what was acknowledged. Each line must come exactly once.
func TestTorture(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		length := 4 * time.Second
		if testing.Short() {
			length = time.Second
		}
		torture(t, o, seed, length)
	})
}

const writers = 4

func torture(t *testing.T, o FilesOptions, seed uint64, length time.Duration) {
	dir := t.TempDir()
	o.FromStart, o.Poll = true, 20*time.Millisecond
	// Longer than a writer goes on with a renamed file, on a busy machine.
	o.Grace = time.Second
	patterns := []string{filepath.Join(dir, "w0.log"), filepath.Join(dir, "w1.log"), filepath.Join(dir, "w[23].log*")}

	var wg sync.WaitGroup
	written := make([]int, writers)
	var known sync.Map // identities of files whose position is known
	until := time.Now().Add(length)
	crew := make([]*writer, writers)
	for i := range writers {
		w := &writer{path: filepath.Join(dir, fmt.Sprintf("w%d.log", i)), known: &known, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		crew[i] = w
		wg.Go(func() { written[i] = w.run(t, i, until) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	got := make(map[string]int)
	rnd := rand.New(rand.NewPCG(seed, writers))
	starts := 0
	for running := true; running; starts++ {
		s := begin(t, o, patterns...)
		stop := time.After(time.Duration(rnd.IntN(600)) * time.Millisecond)
		for on := true; on; {
			select {
			case b := <-s.out:
				known.Store(s.accept(b).File.identity(), true)
			case <-stop:
				on = false
			case <-done:
				on, running = false, false
			}
		}
		o.Resume = s.stop()
		collect(got, s)
	}
	total := 0
	for _, n := range written {
		total += n
	}
	s := begin(t, o, patterns...)
	s.until("all lines", func([]part) bool { return strings.Count(s.text(), "\n")+len(got) >= total })
	s.stop()
	collect(got, s)
	if gaps := s.files.Stats().Gaps; gaps != 0 {
		t.Errorf("%d gaps", gaps)
	}
	for i, n := range written {
		for k := range n {
			line := numbered(i, k)
			if got[line] != 1 {
				t.Errorf("line %q came %d times", shorten(line), got[line])
			}
			delete(got, line)
		}
	}
	for line := range got {
		t.Errorf("nobody wrote %q", shorten(line))
	}
	rotations := 0
	for _, w := range crew {
		rotations += w.rotations
	}
	if rotations == 0 || starts < 2 {
		t.Errorf("%d rotations and %d starts prove nothing", rotations, starts)
	}
	t.Logf("%d lines, %d rotations, %d starts", total, rotations, starts)
}

func collect(got map[string]int, s *session) {
	perFile := make(map[*File]*strings.Builder)
	for _, p := range s.parts {
		if perFile[p.File] == nil {
			perFile[p.File] = new(strings.Builder)
		}
		perFile[p.File].WriteString(p.Data)
	}
	for _, b := range perFile {
		for line := range strings.SplitAfterSeq(b.String(), "\n") {
			if line != "" {
				got[line]++
			}
		}
	}
}

func numbered(writer, k int) string {
	return fmt.Sprintf("%d %d %s\n", writer, k, strings.Repeat("x", k%97))
}

// writer is a server with one log. It renames its file only once that file has
// been seen: what comes and goes between a stop and a start can't be known.
type writer struct {
	path      string
	rnd       *rand.Rand
	known     *sync.Map
	rotations int
}

func (w *writer) seen(t *testing.T, f *os.File) bool {
	fi, err := f.Stat()
	if err != nil {
		t.Error(err)
		return false
	}
	id, err := identify(fi)
	if err != nil {
		t.Error(err)
	}
	_, ok := w.known.Load(id)
	return ok
}

func (w *writer) run(t *testing.T, id int, until time.Time) (lines int) {
	open := func() *os.File {
		f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			t.Error(err)
		}
		return f
	}
	f := open()
	defer func() { _ = f.Close() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	keep := 0 // how many lines yet to write to the renamed file
	for ; time.Now().Before(until) || keep > 0; <-tick.C {
		line := numbered(id, lines)
		cut := w.rnd.IntN(len(line))
		for _, piece := range []string{line[:cut], line[cut:]} {
			if _, err := f.WriteString(piece); err != nil {
				t.Error(err)
				return lines
			}
		}
		lines++
		if keep--; keep == 0 {
			_ = f.Close()
			f = open()
		}
		if keep < 0 && w.rnd.IntN(100) == 0 && w.seen(t, f) {
			w.rotations++
			// Dated names are never shifted, so nothing is ever gone.
			if err := os.Rename(w.path, fmt.Sprintf("%s.%d", w.path, w.rotations)); err != nil {
				t.Error(err)
			}
			keep = 1 + w.rnd.IntN(30)
		}
	}
	return lines
}
