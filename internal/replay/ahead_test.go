package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
	"go.uber.org/goleak"
)

// logLines writes lines of a log, ordinary ones and others, for a format.
func logLines(r *rand.Rand, format string, lines int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
	for i := range lines {
		at = at.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		seen := at.Add(-time.Duration(r.IntN(5)*r.IntN(20)) * time.Second)
		peer := fmt.Sprintf("203.0.113.%d", r.IntN(30))
		if r.IntN(4) == 0 {
			peer = fmt.Sprintf("2001:db8:%x::%x", r.IntN(5), r.IntN(3))
		}
		path := strings.Repeat("/a%2fb", r.IntN(4)) + fmt.Sprintf("/%d\\x22", i)
		agent := strings.Repeat("x", r.IntN(60))
		switch n := r.IntN(400); {
		case n == 0:
			b.WriteString("# a remark\n")
		case n == 1:
			b.WriteString("nonsense " + path + "\n")
		case n == 2:
			b.WriteByte('\n')
		case n == 3:
			agent = strings.Repeat("long", 400) // beyond max_line
		case n == 4:
			agent = strings.Repeat("far too long", 20_000) // beyond a block
		}
		switch format {
		case "nginx":
			fmt.Fprintf(&b, "%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"%s\" \"-\"\n", peer, seen.Format("02/Jan/2006:15:04:05 -0700"), path, i, agent)
		case "nginx-json":
			fmt.Fprintf(&b, `{"remote_addr":"%s","time_iso8601":"%s","request":"GET %s HTTP/1.1","status":"200","http_user_agent":"%s\u0022"}`+"\n",
				peer, seen.Format(time.RFC3339), strings.ReplaceAll(path, `\`, `\\`), agent)
		case "haproxy": // its times have no offset, and an hour of that night comes twice
			fmt.Fprintf(&b, "haproxy[1]: %s:5 [%s.000] f b/s 0/0/0/0/0 200 %d - - ---- 1/1/1/1/0 0/0 \"GET %s HTTP/1.1\"\n", peer, seen.Format("02/Jan/2006:15:04:05"), i, path)
		}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pieces reads in pieces of any size.
type pieces struct {
	in io.Reader
	r  *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.in.Read(b[:min(len(b), 1+p.r.IntN(1<<p.r.IntN(18)))])
}

// Whether lines are parsed ahead or not, and however the input is cut, all that
// is written is the same to the byte.
func TestParsedAheadIsNoDifferent(t *testing.T) {
	for _, format := range []string{"nginx", "nginx-json", "haproxy"} {
		t.Run(format, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			cfg := parse(t, fmt.Sprintf("[logs.site]\nfiles = \"/x\"\nformat = %q\nmax_line = 1024\n%s\n[jails.web]\nlimit = 5\nwindow = \"60s\"\nban = [\"2m\", \"5m\"]\n",
				format, map[bool]string{true: `timezone = "Europe/Berlin"`}[format == "haproxy"]))
			lines := 20_000
			if testing.Short() {
				lines = 4000
			}
			log := logLines(r, format, lines)
			run := func(cores int, in io.Reader, files ...string) string {
				var out bytes.Buffer
				err := Run(context.Background(), Options{Config: cfg, Files: files, In: in, Out: &out, Notes: &out, JSON: true,
					Raw: true, Cores: cores, Now: func() time.Time { return time.Time{} }})
				if err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			want := run(1, bytes.NewReader(log), stdin)
			if strings.Count(want, `"jail":"web"`) < lines/400 {
				t.Fatalf("few decisions: the test shows little\n%s", want)
			}
			for _, cores := range []int{1, 2} {
				for range 3 {
					if got := run(cores, &pieces{bytes.NewReader(log), r}, stdin); got != want {
						t.Fatalf("%d cores, in pieces:\n%s\nwant:\n%s", cores, got, want)
					}
				}
			}

			// Short lines and empty ones, many to a block, among others.
			short := bytes.Join([][]byte{bytes.Repeat([]byte("\n"), 5*lines), log, bytes.Repeat([]byte("a\n\n"), 5*lines/2), log[:1<<17]}, nil)
			if got, want := run(2, &pieces{bytes.NewReader(short), r}, stdin), run(1, bytes.NewReader(short), stdin); got != want {
				t.Fatalf("short lines on two cores:\n%s\nwant:\n%s", got, want)
			}

			// Several files: each after the other, and at the same time.
			dir := t.TempDir()
			var names []string
			rest := bytes.SplitAfter(log, []byte("\n"))
			for i, lines := range [][][]byte{rest[:lines/4], rest[lines/4 : lines*3/5], rest[lines*3/5:], rest[:lines*3/20], rest[:lines/20], rest[lines/40 : lines/10]} {
				name := filepath.Join(dir, fmt.Sprint(i))
				if err := os.WriteFile(name, bytes.Join(lines, nil), 0o600); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			for n := 2; n <= len(names); n++ {
				if got, want := run(2, nil, names[:n]...), run(1, nil, names[:n]...); got != want {
					t.Fatalf("%d files on two cores:\n%s\nwant:\n%s", n, got, want)
				}
			}
		})
	}
}

// What goes wrong behind some lines is told behind what comes of them.
func TestParsedAheadFails(t *testing.T) {
	cfg := parse(t, generatorJail)
	log := logLines(rand.New(rand.NewPCG(3, 4)), "nginx", 5000)
	for _, cores := range []int{1, 2} {
		var out bytes.Buffer
		err := Run(context.Background(), Options{Config: cfg, Files: []string{stdin}, In: io.MultiReader(bytes.NewReader(log), iotest.ErrReader(io.ErrNoProgress)),
			Out: &out, Notes: &out, Cores: cores, Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), io.ErrNoProgress.Error()) || !strings.Contains(out.String(), "lines") {
			t.Errorf("%d cores: %v\n%s", cores, err, out.String())
		}
	}
}

// What is parsed ahead is bounded, however short the lines are and however long
// they may be; and long ones that there were don't count for ever.
func TestParsedAheadIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20) + "\n"
	record := func(size int) string {
		return `{"remote_addr":"203.0.113.9","time_iso8601":"2026-10-24T20:00:02+00:00","request":"GET / HTTP/1.1","status":"200","http_user_agent":"` +
			strings.Repeat("x", size) + `"}` + "\n"
	}
	for what, in := range map[string]string{
		"line feeds":              strings.Repeat("\n", 1<<20),
		"short lines":             strings.Repeat("a b c\n", 1<<18),
		"short ones after a long": long + strings.Repeat("a b c\n", 1<<18),
		"rather long lines":       strings.Repeat(record(keptBuffer/2), 40),
		"long lines":              strings.Repeat(record(2*keptBuffer), 20),
		"ordinary lines":          string(logLines(rand.New(rand.NewPCG(5, 6)), "nginx-json", 5000)),
	} {
		format, err := parser.NewFormat("nginx-json") // whose events are kept
		if err != nil {
			t.Fatal(err)
		}
		batches := newBatches(newBlocks(strings.NewReader(in), 16<<20))
		a := newAhead(batches, nil)
		go a.run(newParsing(format, detector.NewEngine(detector.Options{}), 16<<20))
		lines, buffers := 0, map[*buffer]bool{}
		for {
			b := a.take()
			if b.err != nil {
				break
			}
			lines += b.lines()
			if cap(b.ends) > batchLines {
				t.Fatalf("%s: a batch has room for %d lines", what, cap(b.ends))
			}
			if room := cap(b.texts); room > 4*blockSize+2*len(b.data) {
				t.Fatalf("%s: a batch of %d bytes has room for %d", what, len(b.data), room)
			}
			if b.lines() == batchLines || len(b.data) < 1<<10 { // the long line is past
				buffers[b.buffer] = true
			}
			a.mu.Lock()
			if len(b.data) > keptBuffer && (batches.buffer != b.buffer || !batches.mustWait()) {
				t.Errorf("%s: others are read beside one of %d bytes", what, len(b.data))
			}
			a.mu.Unlock()
			a.giveBack(b)
		}
		for len(a.free) > 0 {
			if room := cap((<-a.free).texts); room > 2*blockSize {
				t.Errorf("%s: room for %d bytes is kept", what, room)
			}
		}
		if len(buffers) > batchesAhead+2 {
			t.Errorf("%s: %d buffers", what, len(buffers))
		}
		for _, x := range batches.spare {
			if len(x.data) > keptBuffer {
				t.Errorf("%s: a buffer of %d bytes is kept", what, len(x.data))
			}
		}
		if want := strings.Count(in, "\n"); lines < want || lines > want+1 {
			t.Errorf("%s: %d lines, want %d", what, lines, want)
		}
	}
}

// Whoever waits for a batch parses some that come behind it, and takes all in order.
func TestWhoWaitsForABatchHelps(t *testing.T) {
	format, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	engine := detector.NewEngine(detector.Options{})
	line := `203.0.113.9 - - [24/Oct/2026:20:00:02 +0000] "GET / HTTP/1.1" 200 1 "-" "x" "-"` + "\n"
	log := bytes.Repeat([]byte(line), 3*batchLines) // in one block
	parse, second := newParsing(format, engine, 16<<20), newParsing(format, engine, 16<<20)
	a := newAhead(newBatches(newBlocks(bytes.NewReader(log), 16<<20)), second)
	if a.help() {
		t.Error("it reads, which may take long")
	}
	first := <-a.free
	a.fill(first, parse)
	a.mu.Lock() // as while others are reading
	if a.help() {
		t.Error("it does not mind the lock")
	}
	a.mu.Unlock()

	if !a.help() {
		t.Fatal("it does nothing though there are lines")
	}
	first.finish(parse)
	if b := a.take(); b != first {
		t.Fatal("the first batch doesn't come first")
	}
	b := a.take()
	if b.offset != int64(len(first.data)) || b.lines() != batchLines || b.whose[batchLines-1] != first.whose[0] {
		t.Errorf("behind %d bytes come %d lines from %d", len(first.data), b.lines(), b.offset)
	}

	for len(a.free) > 0 {
		<-a.free
	}
	if !a.batches.atHand() || a.help() {
		t.Error("it takes a batch that is in use")
	}
}

// The goroutine that parses ends with who takes the lines.
func TestParsedAheadEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, bytes.Repeat([]byte("nonsense\n"), 2*batchesAhead*batchLines), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replay{Options: Options{Cores: 2}, conf: parse(t, generatorJail).Logs[0], limit: 1024, engine: detector.NewEngine(detector.Options{})}
	x, err := r.open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.next(); err != nil || x.ahead == nil {
		t.Fatal("it is not parsed ahead: ", err)
	}
	for len(x.ahead.full) < batchesAhead-1 { // or else it may meet the file's end
		runtime.Gosched()
	}
	x.close()
	goleak.VerifyNone(t, before)
}

// Of many files that are open at the same time a few are parsed ahead.
func TestParsedAheadIsForFewFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, logLines(rand.New(rand.NewPCG(7, 8)), "nginx", 10), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := parse(t, generatorJail)
	r := &replay{Options: Options{Cores: 2}, conf: cfg.Logs[0], limit: 1024, engine: detector.NewEngine(detector.Options{})}
	var open []*reader
	for range 10 {
		x, err := r.open(name, open)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		open = append(open, x)
	}
	if n := parsedAhead(open); n != filesAhead {
		t.Errorf("%d of 10 files are parsed ahead", n)
	}
	if x, err := r.open(name, open[filesAhead-1:]); err != nil || x.ahead == nil {
		t.Errorf("one is at its end: the next isn't parsed ahead, %v", err)
	} else {
		x.close()
	}
}
