package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/corpus"
	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/internal/words"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("jails.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// decisions replays and returns what was decided, as JSON lines.
func decisions(t *testing.T, o Options) []record {
	t.Helper()
	var out bytes.Buffer
	o.Out, o.Notes, o.JSON, o.Now = &out, io.Discard, true, time.Now
	if err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	var got []record
	dec := json.NewDecoder(&out)
	for dec.More() {
		var r record
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	return got
}

const generatorJail = `
trusted_proxies = ["cloudflare"]
[logs.site]
files = "/var/log/nginx/access.log"
format = "nginx"
[jails.web]
limit = 50
window = "60s"
ban = "365d"
`

// A million generated lines, proxies and IPv6 among them, against the truth
// that the generator wrote beside them: each offender, and for each the very
// line that crossed. TAILBAN_TRUTH=5000000 takes so many lines in place of the
// million, of three seeds.
func TestGeneratorTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("a million lines")
	}
	lines, seeds := os.Getenv("TAILBAN_TRUTH"), []string{"1", "2", "3"}
	if lines == "" {
		lines, seeds = "1000000", seeds[:1]
	}
	for _, seed := range seeds {
		t.Run(seed, func(t *testing.T) { generatorTruth(t, lines, seed) })
	}
}

func generatorTruth(t *testing.T, lines, seed string) {
	src := corpus.Path(t, "bench", "loggen")
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	tool := filepath.Join(dir, "loggen")
	run(src, "go", "build", "-o", tool, ".")
	run(dir, tool, "-lines", lines, "-seed", seed, "-out", log)

	want := truth(t, log+".expected.tsv")
	got := map[string]int64{}
	for _, d := range decisions(t, Options{Config: parse(t, generatorJail), Files: []string{log}}) {
		key, _, _ := strings.Cut(d.Target, "/")
		if _, twice := got[key]; twice {
			t.Errorf("%s was decided against twice", key)
		}
		got[key] = d.Line
	}
	for key, line := range want {
		if got[key] != line {
			t.Errorf("%s: crossed at line %d, want %d", key, got[key], line)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s was decided against and did not offend", key)
		}
	}
	if len(want) < 100 {
		t.Errorf("only %d offenders: the test shows little", len(want))
	}
	t.Logf("%d offenders, each at its line", len(want))
}

// truth reads the generator's offenders by client (IPv6 by /64) with the line
// at which each crosses.
func truth(t *testing.T, path string) map[string]int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]int64{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Split(sc.Text(), "\t")
		if len(w) < 7 || w[0] != "client64" {
			continue
		}
		line, err := strconv.ParseInt(w[6], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if line > 0 {
			out[w[1]] = line
		}
	}
	return out
}

// Files are one stream: cut anywhere, compressed or not, they lead to the
// same decisions.
func TestCutIntoFiles(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("..", "..", "testdata", "shop.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	dir := t.TempDir()
	all := filepath.Join(dir, "all.log")
	if err := os.WriteFile(all, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.Builtin()
	want := decisions(t, Options{Config: cfg, Files: []string{all}})
	if len(want) == 0 {
		t.Fatal("nothing decided: the test shows nothing")
	}
	for _, at := range []int{1, 60, 72, 73, 100, 240} {
		first, second := filepath.Join(dir, "b.log"), filepath.Join(dir, "a.log")
		for name, part := range map[string][][]byte{first: lines[:at], second: lines[at:]} {
			if err := os.WriteFile(name, bytes.Join(part, nil), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := decisions(t, Options{Config: cfg, Files: []string{second, first}})
		if len(got) != len(want) {
			t.Fatalf("cut at %d: %d decisions, want %d", at, len(got), len(want))
		}
		for i := range got {
			if got[i].File == second {
				got[i].Line += int64(at)
			}
			got[i].File = all
			if got[i] != want[i] {
				t.Errorf("cut at %d:\ngot  %+v\nwant %+v", at, got[i], want[i])
			}
		}
	}
}

func TestStdinIsGuessedAndReadOnce(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("..", "..", "testdata", "shop.log"))
	if err != nil {
		t.Fatal(err)
	}
	got := decisions(t, Options{Config: config.Builtin(), Files: []string{"-"}, In: bytes.NewReader(whole)})
	if len(got) != 1 || got[0].Line != 73 || got[0].File != "-" {
		t.Errorf("got %+v", got)
	}
}

// Logs of several sites are read at the same time, as a daemon does.
func TestOverlappingFilesAreMerged(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC)
	var files []string
	for i := range 3 {
		var b bytes.Buffer
		for k := range 20 {
			at := start.Add(time.Duration(k)*3*time.Second + time.Duration(i)*time.Second)
			fmt.Fprintf(&b, "203.0.113.9 - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", at.Format("02/Jan/2006:15:04:05 -0700"))
			if k == 7 {
				b.WriteString("no line of a log\n")
			}
		}
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d.log", i)))
		if err := os.WriteFile(files[i], b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := decisions(t, Options{Config: config.Builtin(), Files: []string{files[2], files[0], files[1]}})
	// The 51st of 60 requests, one a second: second 50, the 17th line of the
	// third file, and one bad line before it.
	if len(got) != 1 || got[0].File != files[2] || got[0].Line != 18 || got[0].Time != "2026-03-05T10:00:50Z" {
		t.Errorf("got %+v", got)
	}
}

// Memory is given back by lines: how the input arrives changes nothing, and
// what is late is not lost although much has come since.
func TestArrivalChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("is about memory, and takes seconds")
	}
	var log bytes.Buffer
	start := time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC)
	put := func(client string, at time.Time) {
		fmt.Fprintf(&log, "%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	for i := range 3 * forgetEvery {
		put(fmt.Sprintf("198.51.%d.%d", i%100, i%250), start.Add(time.Duration(i)*time.Second/20))
		if i%3000 == 0 { // one that is eight minutes late, and too slow to be banned
			put("203.0.113.9", start.Add(time.Duration(i)*time.Second/20-8*time.Minute))
		}
		if i > 2*forgetEvery && i < 2*forgetEvery+60 { // and then floods
			put("203.0.113.9", start.Add(2*forgetEvery*time.Second/20-8*time.Minute))
		}
	}
	cfg := config.Builtin()
	cfg.MaxMemory = 1 << 30
	want := decisions(t, Options{Config: cfg, Files: []string{"-"}, In: bytes.NewReader(log.Bytes())})
	if len(want) != 1 || want[0].Client != "203.0.113.9" {
		t.Fatalf("got %+v", want)
	}
	got := decisions(t, Options{Config: cfg, Files: []string{"-"}, In: iotest.HalfReader(bytes.NewReader(log.Bytes()))})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestInterruptWhileWaitingForInput(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Config: config.Builtin(), Files: []string{"-"}, In: in, Out: io.Discard, Notes: io.Discard, Now: time.Now})
	}()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("still waiting for input")
	}
}

func TestDistinct(t *testing.T) {
	for _, n := range []int{0, 1, fewDistinct, fewDistinct + 1, 1_000_000} {
		d := newDistinct(func(n int) uint32 { return uint32(n) })
		for i := range n {
			d.add(i)
			d.add(i / 2)
		}
		got, exact := d.count()
		if exact != (n <= fewDistinct) || math.Abs(float64(got-n)) > 0.05*float64(n)+0 && !exact || exact && got != n {
			t.Errorf("%d values: counted %d (exact: %v)", n, got, exact)
		}
	}
}

func TestLinesHaveTheirOffset(t *testing.T) {
	text := "first\nsecond line\n\nlast"
	r := newReader("x", io.NopCloser(strings.NewReader(text)), 100, nil)
	var got []string
	for r.next() == nil {
		line, _ := r.take()
		got = append(got, fmt.Sprintf("%d@%d:%s", r.at.Number, r.at.Offset, line))
	}
	if want := "[1@0:first 2@6:second line 3@18: 4@19:last]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	err := Run(ctx, Options{Config: config.Builtin(), Files: []string{filepath.Join("..", "..", "testdata", "shop.log")},
		Out: &out, Notes: io.Discard, Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "stopped before the first line") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "lines") {
		t.Error("no summary after an interrupt")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := words.Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// BenchmarkReplay is a log of ordinary lines, a third of them behind a proxy.
func BenchmarkReplay(b *testing.B) {
	cloudflare, ok := lists.Lookup("cloudflare")
	if !ok {
		b.Fatal("no list")
	}
	var log bytes.Buffer
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const lines = 200_000
	for i := range lines {
		peer, forward := fmt.Sprintf("203.%d.%d.%d", i%7, i*31%251, i*17%253), "-"
		if i%3 == 0 {
			peer, forward = cloudflare.Prefixes[i%10].Addr().Next().String(), peer
		}
		fmt.Fprintf(&log, "%s - - [%s] \"GET /page/%d?session=%d HTTP/1.1\" 200 %d \"https://www.example.com/some/page\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\" \"%s\"\n",
			peer, start.Add(time.Duration(i)*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%1000, i, i%9000, forward)
	}
	cfg, err := config.Parse("jails.toml", []byte(generatorJail), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(log.Len()))
	b.ReportAllocs()
	for b.Loop() {
		err := Run(context.Background(), Options{Config: cfg, Files: []string{"-"}, In: bytes.NewReader(log.Bytes()),
			Out: io.Discard, Notes: io.Discard, JSON: true, Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*lines/b.Elapsed().Seconds(), "lines/s")
}
