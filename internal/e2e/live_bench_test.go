package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// These are figures of the daemon as it runs, for docs/performance.md. They need a
// machine that does nothing else.

// appended is a log to write to.
func (l *lab) appended() *os.File {
	l.t.Helper()
	f, err := os.OpenFile(l.write("access.log", ""), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { f.Close() })
	return f
}

// addressOf numbers clients; none of them hears of it.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{23, byte(i >> 16), byte(i >> 8), byte(i)})
}

// From the line's write to the kernel's own word that the ban is there, one client
// after the other.
func BenchmarkLiveLatency(b *testing.B) {
	l := newLab(b)
	f := l.appended()
	came := make(chan netip.Prefix, 1024)
	ctx, cancel := context.WithCancel(b.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.firewall.Watch(ctx, func() { close(ready) }, func(c actions.Change) {
			for _, p := range c.Came {
				came <- p
			}
		})
	}()
	b.Cleanup(func() { cancel(); <-done })
	<-ready
	l.tailban(webJail(l.dir, 50, "1h"))
	rnd := rand.New(rand.NewPCG(1, 2))
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		client := addressOf(i + 1)
		line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		lines := []byte(strings.Repeat(line, 51))
		time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond) // in step with nothing
		if _, err := f.Write(lines); err != nil {
			b.Fatal(err)
		}
		written := time.Now()
		for there := false; !there; {
			select {
			case p := <-came:
				there = p.Addr() == client
			case <-time.After(patient):
				b.Fatalf("no ban of %s", client)
			}
		}
		took = append(took, time.Since(written))
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return took[min(len(took)-1, int(share*float64(len(took))))].Seconds() * 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.9), "p90-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}

// BenchmarkLiveFlood writes 200,000 lines a second of 50,000 clients for ten
// seconds, some of whom are banned, and tells what of a processor that takes.
func BenchmarkLiveFlood(b *testing.B) {
	const rate, seconds, clients, tick = 200_000, 10, 50_000, 5 * time.Millisecond
	for b.Loop() {
		l := newLab(b)
		f := l.appended()
		d := l.tailban(webJail(l.dir, 200, "1h"))
		rnd := rand.New(rand.NewPCG(1, 2))
		agent := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
		begin, cpu := time.Now(), cpuTime(b, d.cmd.Process.Pid)
		ticker := time.NewTicker(tick)
		written := 0
		var buf bytes.Buffer
		for written < rate*seconds {
			now := <-ticker.C
			due := min(int(now.Sub(begin).Seconds()*rate), rate*seconds)
			stamp := now.Format("02/Jan/2006:15:04:05 -0700")
			buf.Reset()
			for ; written < due; written++ {
				i := int(rnd.ExpFloat64() * clients / 8)
				fmt.Fprintf(&buf, "%s - - [%s] \"GET /articles/%d?page=2 HTTP/1.1\" 200 5120 \"https://www.example.com/\" \"%s\"\n", addressOf(i), stamp, i, agent)
			}
			if _, err := f.Write(buf.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
		ticker.Stop()
		wrote := time.Since(begin)
		c := control.NewClient(filepath.Join(l.dir, "run"))
		var st *control.Status
		l.wait("all lines to be counted", func() bool {
			var err error
			st, err = c.Status(context.Background())
			return err == nil && st.Logs[0].Lines >= rate*seconds
		})
		behind := time.Since(begin) - wrote
		used := cpuTime(b, d.cmd.Process.Pid) - cpu
		if n := st.Logs[0].Lines; n != rate*seconds || st.Logs[0].Gaps > 0 || st.Bans == 0 {
			b.Fatalf("%d lines of %d, %d gaps, %d bans", n, rate*seconds, st.Logs[0].Gaps, st.Bans)
		}
		b.ReportMetric(float64(rate*seconds)/wrote.Seconds(), "lines/s")
		b.ReportMetric(used.Seconds()/wrote.Seconds(), "cores")
		b.ReportMetric(behind.Seconds()*1000, "behind-ms")
		b.ReportMetric(float64(st.Bans), "bans")
		b.ReportMetric(resident(b, d.cmd.Process.Pid), "peak-MiB")
		d.stop(syscall.SIGTERM)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLiveRest tells what the daemon takes while nothing happens, in a minute.
func BenchmarkLiveRest(b *testing.B) {
	for b.Loop() {
		l := newLab(b)
		l.appended()
		d := l.tailban(webJail(l.dir, 50, "1h"))
		time.Sleep(10 * time.Second) // what it does at its start is over
		cpu := cpuTime(b, d.cmd.Process.Pid)
		time.Sleep(time.Minute)
		used := cpuTime(b, d.cmd.Process.Pid) - cpu
		b.ReportMetric(used.Seconds()*1000, "cpu-ms/min")
		b.ReportMetric(resident(b, d.cmd.Process.Pid), "peak-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what a process has run: the scheduler's own figure for its threads.
// Those that have ended are not in it.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("no threads of %d: %v", pid, err)
	}
	var sum time.Duration
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// resident is the most memory that a process has had, in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
