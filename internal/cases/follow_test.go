package cases

import (
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// A log of a few lines is written anew for each: those it keeps count once.
func ringOfLines(t *testing.T) {
	p := newPlace(t)
	var lines []string
	for i := range 4 {
		lines = append(lines, failed("203.0.113.61", fmt.Sprintf("/sign-in?%d", i)))
	}
	p.add("ring.log", lines[0])
	l := p.start("ring.log", "", 4, `"1h"`)
	l.untilCounted(1, 1)
	for i := range 3 {
		p.check(os.WriteFile(p.path("ring.log"), []byte(lines[i]+lines[i+1]), 0o644))
		l.untilCounted(uint64(i+2), uint64(i+2))
	}
	p.add("ring.log", failed("203.0.113.62", "/"))
	l.untilCounted(5, 5)
	l.wants()
}

// The new file begins as the old one did, and is shorter: it is another file
// all the same, whether somebody looks or not.
func bothBeginAlike(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		p := newPlace(t)
		const old = 300
		p.add("a.log", "\n", strings.Repeat(failed("203.0.113.63", "/static/a"), old))
		l := p.start("a.log", "", 0, `"1h"`)
		l.untilFollowed(p.path("a.log"))
		l.until("all lines", func(s *control.Status) bool { return s.Logs[0].Lines == old+1 })
		if stopped {
			l.stop()
		}
		p.rename("a.log", "a.log.1")
		p.add("a.log", "\n", failed("203.0.113.64", "/"))
		if stopped {
			l = p.start("a.log", "", 0, `"1h"`)
		}
		l.wants("203.0.113.64/32")
		l.stop()
	}
}

// A file gets a name that the pattern fits as well, is packed and removed,
// while it is looked at or before it is.
func packedWhileWatched(t *testing.T) {
	p := newPlace(t)
	p.add("x.log")
	l := p.start("*.log", `format = "caddy"`, 0, `"1h"`)
	l.untilFollowed(p.path("x.log"))
	var banned []string
	for i := range 6 {
		packed := fmt.Sprintf("x-2026-03-1%dT03-15-51.642.log", i)
		p.rename("x.log", packed)
		p.add("x.log")
		if i%2 == 0 {
			l.untilFollowed(p.path("x.log"))
		}
		p.pack(packed)
		p.add("x.log", fmt.Sprintf(`{"ts":%d.25,"request":{"remote_ip":"203.0.113.%d","client_ip":"203.0.113.%[2]d","method":"GET","uri":"/"},"status":401}`+"\n", time.Now().Unix(), 70+i))
		banned = append(banned, fmt.Sprintf("203.0.113.%d/32", 70+i))
		l.wants(banned...)
	}
	if w := l.warnings(); len(w) != 0 {
		t.Errorf("warned: %q", w)
	}
	l.untilCounted(6, 6)
	l.stop()
}

// pack puts a compressed file in the place of another.
func (p *place) pack(name string) {
	p.Helper()
	text, err := os.ReadFile(p.path(name))
	p.check(err)
	f, err := os.Create(p.path(name + ".gz"))
	p.check(err)
	z := gzip.NewWriter(f)
	_, err = z.Write(text)
	p.check(err)
	p.check(z.Close())
	p.check(f.Close())
	p.check(os.Remove(p.path(name)))
}

// A link leads to another file from one moment to the next; it is replaced at
// once, or is missing in between.
func linkIsMoved(t *testing.T) {
	for _, missing := range []bool{false, true} {
		p := newPlace(t)
		p.add("0.log")
		p.check(os.Symlink(p.path("0.log"), p.path("app.log")))
		l := p.start("app.log", `container = "cri"`, 0, `"1h"`)
		l.untilFollowed(p.path("app.log"))
		p.add("1.log")
		if missing {
			p.check(os.Remove(p.path("app.log")))
			l.until("the link to be missed", func(s *control.Status) bool { return s.Logs[0].Files[0].State != "following" })
			p.check(os.Symlink(p.path("1.log"), p.path("app.log")))
		} else {
			p.check(os.Symlink(p.path("1.log"), p.path("app.new")))
			p.rename("app.new", "app.log")
		}
		p.add("1.log", time.Now().UTC().Format(time.RFC3339Nano)+" stdout F "+failed("203.0.113.65", "/"))
		l.wants("203.0.113.65/32")
		l.stop()
	}
}

// Nothing is decided before a line has its end: half of one looks as if it
// fitted, or as if it didn't.
func halfALine(t *testing.T) {
	p := newPlace(t)
	p.add("p.log")
	l := p.start("p.log", "", 0, `"1h"`)
	l.untilFollowed(p.path("p.log"))
	for i, x := range []struct{ client, path, cut string }{
		{"203.0.113.66", "/static/a.css", "/sta"},
		{"203.0.113.67", "/statistics", "/stati"},
	} {
		line := failed(x.client, x.path)
		n := strings.Index(line, x.cut) + len(x.cut)
		p.add("p.log", line[:n])
		l.until("half a line to be seen", func(s *control.Status) bool { return s.Logs[0].Behind == int64(n) })
		l.wants()
		p.add("p.log", line[n:])
		l.until("the whole line", func(s *control.Status) bool { return s.Logs[0].Lines == uint64(i+1) })
	}
	l.wants("203.0.113.67/32")
	l.until("its step", func(s *control.Status) bool { return s.Logs[0].Unparsed == 0 })
}

// The folder is not there yet when the daemon starts, and each day has a file.
func filesThatAppear(t *testing.T) {
	p := newPlace(t)
	l := p.start("app/log_*.log", "", 0, `"1h"`)
	l.until("the pattern to be waited for", func(*control.Status) bool { return len(l.warnings()) > 0 })
	p.check(os.Mkdir(p.path("app"), 0o755))
	p.add("app/log_20260312.log", failed("203.0.113.68", "/"), failed("203.0.113.69", "/"))
	l.wants("203.0.113.68/32", "203.0.113.69/32")
	p.add("app/log_20260313.log", failed("203.0.113.70", "/"))
	l.wants("203.0.113.68/32", "203.0.113.69/32", "203.0.113.70/32")
	if w := l.warnings(); !slices.Equal(w, []string{"no file matches the pattern, waiting for one"}) {
		t.Errorf("warned: %q, want one warning", w)
	}
	l.untilCounted(3, 3)
}

// A file is renamed before it was read to its end, and written to when the new
// one is read already; the same while nobody looks.
func tailOfTheOldFile(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		p := newPlace(t)
		p.add("q.log", failed("203.0.113.71", "/static/a"))
		l := p.start("q.log", "", 3, `"1h"`)
		l.untilFollowed(p.path("q.log"))
		read := uint64(1) // by the daemon that runs
		if stopped {
			read = 0
			l.stop()
		}
		one := failed("203.0.113.71", "/")
		p.add("q.log", one, one)
		p.rename("q.log", "q.log.1")
		p.add("q.log", one)
		if stopped {
			l = p.start("q.log", "", 3, `"1h"`)
		}
		l.until("the old file to be known as such", func(s *control.Status) bool {
			return slices.ContainsFunc(s.Logs[0].Files, func(f control.FileStatus) bool { return f.State == "renamed" })
		})
		l.untilCounted(3, read+3)
		l.wants()
		p.add("q.log.1", one) // by a server that has it open still
		l.wants("203.0.113.71/32")
		l.untilCounted(4, read+4)
		l.stop()
	}
}
