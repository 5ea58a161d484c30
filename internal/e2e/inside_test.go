package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/internal/syncbuf"
)

// inside is a source that reads the journal of the machine it runs on.
type inside struct {
	*testing.T
	wait  func(what string, ok func() bool)
	shop  *os.File // what is written here is said by shop.service
	units []string

	j   *source.Journal
	end func() source.Position
	log *syncbuf.Buffer

	mu    sync.Mutex
	lines []string
	at    *source.Position
}

func (i *inside) begin(resume ...source.Position) {
	i.Helper()
	i.log = &syncbuf.Buffer{}
	i.at = nil
	i.j = source.NewJournal(source.JournalOptions{
		Log: "shop", Units: i.units, Resume: resume, Logger: slog.New(slog.NewTextHandler(i.log, nil)),
	})
	out := make(chan *source.Batch)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(out)
		if err := i.j.Run(ctx, out); err != nil {
			i.Error(err)
		}
	}()
	go func() {
		defer close(ended)
		for b := range out {
			i.mu.Lock()
			if len(b.Data) > 0 {
				i.lines = append(i.lines, strings.Split(strings.TrimSuffix(string(b.Data), "\n"), "\n")...)
			}
			i.at = &b.Position
			i.mu.Unlock()
			b.Done()
		}
	}()
	i.end = func() source.Position {
		cancel()
		<-ended
		return *i.at
	}
	i.wait("a position", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.at != nil
	})
}

// take returns the lines that begin so, as soon as there are n.
func (i *inside) take(n int, prefix string) (got []string) {
	i.Helper()
	i.wait(fmt.Sprintf("%d lines with %q", n, prefix), func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		got = slices.DeleteFunc(slices.Clone(i.lines), func(l string) bool { return !strings.HasPrefix(l, prefix) })
		return len(got) >= n
	})
	return got
}

func (i *inside) say(format string, args ...any) {
	i.Helper()
	if _, err := fmt.Fprintf(i.shop, format+"\n", args...); err != nil {
		i.Fatal(err)
	}
}

func (i *inside) run(args ...string) string {
	i.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		i.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// stored waits until the journal holds a message.
func (i *inside) stored(message string) {
	i.Helper()
	i.wait(message+" in the journal", func() bool {
		return slices.Contains(strings.Split(i.run("journalctl", "-q", "-o", "cat"), "\n"), message)
	})
}

// native sends a message by journald's own protocol
// (systemd.io/JOURNAL_NATIVE_PROTOCOL).
func (i *inside) native(message string) {
	i.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: "/run/systemd/journal/socket", Net: "unixgram"})
	if err != nil {
		i.Fatal(err)
	}
	defer c.Close()
	b := binary.LittleEndian.AppendUint64([]byte("_SYSTEMD_UNIT=forged.service\nMESSAGE\n"), uint64(len(message)))
	if _, err := c.Write(append(append(b, message...), '\n')); err != nil {
		i.Fatal(err)
	}
}

// kill kills the journalctl that the source has started.
func (i *inside) kill() {
	i.Helper()
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		for _, f := range bytes.Fields(b) {
			pid, err := strconv.Atoi(string(f))
			if err != nil {
				continue
			}
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "journalctl\n" {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// TestInsideSystemd runs in the machine of TestJournal, or, as another user,
// below itself.
func TestInsideSystemd(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestJournal")
	}
	l := &lab{t: t}
	i := &inside{T: t, wait: l.wait, units: []string{"shop.service", "check.service", "web.service"}}
	if os.Getuid() != 0 {
		i.begin(source.Position{Log: "shop", Path: "journal:shop.service"})
		i.wait("the hint", func() bool { return strings.Contains(i.j.Stats().Err, "SupplementaryGroups=systemd-journal") })
		i.end()
		return
	}
	i.open()

	// The first start begins with what comes from then on.
	i.say("old")
	i.stored("old")
	i.begin()
	i.say("first")
	if got := i.take(1, ""); got[0] != "first" {
		t.Fatalf("begins with %q", got)
	}

	i.underLoad()
	i.oneLineEach()
	i.nginx()
	i.gaps()

	cmd := exec.Command("/proc/self/exe", "-test.run=^TestInsideSystemd$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as a user who can't read the journal: %v\n%s", err, out)
	}
	i.sandbox()
}

// open starts the shop.
func (i *inside) open() {
	i.Helper()
	if err := unix.Mkfifo("/run/shop.pipe", 0o600); err != nil {
		i.Fatal(err)
	}
	i.run("systemctl", "start", "shop.service")
	var err error
	if i.shop, err = os.OpenFile("/run/shop.pipe", os.O_WRONLY, 0); err != nil {
		i.Fatal(err)
	}
}

// underLoad: lines come once each, however often the journal is rotated, the
// child is killed and the source is started again.
func (i *inside) underLoad() {
	i.Helper()
	const lines = 4000
	written := make(chan struct{})
	go func() {
		defer close(written)
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for n := range lines {
			if n%4 == 0 {
				<-pace.C
			}
			fmt.Fprintf(i.shop, "n %d\n", n)
		}
	}()
	restarts := 0
	for running := true; running; restarts++ {
		select {
		case <-written:
			running = false
		default:
		}
		switch restarts % 4 {
		case 0:
			i.run("journalctl", "--rotate")
		case 1:
			i.kill()
		}
		i.begin(i.end())
	}
	got := i.take(lines, "n ")
	i.end()
	if g := i.j.Stats().Gaps; g != 0 {
		i.Errorf("%d gaps; it said\n%s", g, i.log)
	}
	for n, line := range got {
		if want := fmt.Sprintf("n %d", n); line != want {
			i.Fatalf("line %d is %q, want %q (of %d lines)", n, line, want, len(got))
		}
	}
	i.Logf("%d lines, %d restarts", len(got), restarts)
}

// oneLineEach: a message is one line, whatever is in it; what other units say
// isn't ours, whatever they call themselves.
func (i *inside) oneLineEach() {
	i.Helper()
	i.begin(i.endOf())
	i.native("m two\nlines")
	i.native("m binary \xff\x00\x1b")
	long := "m long " + strings.Repeat("x", 100<<10)
	i.native(long)
	i.run("systemd-run", "--wait", "--collect", "--quiet", "--unit=other.service", "/bin/sh", "-c",
		`printf 'MESSAGE=m forged\n_SYSTEMD_UNIT=shop.service\nUNIT=shop.service\n' | logger --journald; echo m forged by output`)
	i.stored("m forged")
	i.stored("m forged by output")
	i.say("m last")
	want := []string{`m two\nlines`, "m binary \xff\x00\x1b", long, "m last"}
	if got := i.take(len(want), "m "); !slices.Equal(got, want) {
		i.Errorf("got %.300q", got)
	}
}

// endOf is the position of the source that ended last.
func (i *inside) endOf() source.Position {
	i.mu.Lock()
	defer i.mu.Unlock()
	return *i.at
}

const (
	received = "/run/received"

	webConfig = `
daemon off;
user www-data;
worker_processes 2;
pid /run/web.pid;
error_log /run/web.error;
events {}
http {
	access_log syslog:server=unix:/dev/log,nohostname,tag=nginx combined;
	access_log syslog:server=unix:/run/tailban-log/nginx.sock,nohostname,tag=nginx combined;
	server { listen 127.0.0.1:80; location / { return 200 "$uri\n"; } }
}
`
)

// nginx: its lines come from the journal, by way of /dev/log, and from the
// socket of our socket unit, though the service behind it is restarted under
// load: each once.
func (i *inside) nginx() {
	i.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		i.Log("no nginx here")
		return
	}
	if err := os.WriteFile("/run/web.conf", []byte(webConfig), 0o644); err != nil {
		i.Fatal(err)
	}
	i.run("systemctl", "start", "tailban.socket")
	i.run("systemd-run", "--collect", "--quiet", "--unit=web.service", "nginx", "-c", "/run/web.conf")
	get := func(path string) error {
		resp, err := http.Get("http://127.0.0.1" + path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	i.wait("nginx", func() bool { return get("/begin") == nil })
	// Never more on the way than fits into the send buffer of a worker, however
	// long a restart takes: docs/sources.md tells how much that is.
	const requests, onTheWay = 600, 100
	came := func() int {
		b, _ := os.ReadFile(received) // it may not be there yet
		return bytes.Count(b, []byte{'\n'})
	}
	asked := make(chan error, 1)
	go func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for n := range requests {
			<-pace.C
			for n-came() > onTheWay && i.Context().Err() == nil {
				<-pace.C
			}
			if err := get(fmt.Sprintf("/%d", n)); err != nil {
				asked <- err
				return
			}
		}
		asked <- nil
	}()
	size := func() int64 {
		fi, err := os.Stat(received)
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	restarts := 0
	for running := true; running; restarts++ {
		before := size()
		i.wait("lines, or the end", func() bool {
			select {
			case err := <-asked:
				running = false
				if err != nil {
					i.Error(err)
				}
			default:
			}
			return !running || size() > before
		})
		i.run("systemctl", "restart", "receiver.service")
	}
	once := func(where string, lines []string) {
		i.Helper()
		got := map[string]int{}
		for _, line := range lines {
			if _, rest, ok := strings.Cut(line, `"GET /`); ok && strings.HasPrefix(line, "127.0.0.1 - - [") {
				path, _, _ := strings.Cut(rest, " ")
				got[path]++
			} else {
				i.Errorf("%s has %q", where, line)
			}
		}
		for n := range requests {
			if k := got[strconv.Itoa(n)]; k != 1 {
				i.Errorf("%s: request %d came %d times", where, n, k)
			}
		}
	}
	once("the journal", i.take(requests+1, "127.0.0.1 "))
	var lines []string
	defer func() {
		if i.Failed() {
			said, _ := os.ReadFile("/receiver")
			i.Logf("of %d requests and %d restarts came %d; the receiver said\n%s", requests, restarts, len(lines), said)
		}
	}()
	i.wait("all lines at the socket", func() bool {
		b, _ := os.ReadFile(received)
		lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		return len(lines) >= requests+1
	})
	once("the socket", lines)
	i.Logf("%d requests of nginx, %d restarts of the service behind the socket", requests, restarts)
}

// TestInsideReceiver is the service behind the socket.
func TestInsideReceiver(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestJournal")
	}
	files, err := source.Activated()
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.OpenFile(received, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	y := source.NewSyslog(source.SyslogOptions{
		Log: "nginx", Network: "unix", Address: "/run/tailban-log/nginx.sock", FromUsers: []string{"www-data"},
		File: files["nginx"], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	out := make(chan *source.Batch)
	go func() {
		defer close(out)
		if err := y.Run(ctx, out); err != nil {
			t.Error(err)
		}
	}()
	for b := range out {
		if _, err := to.Write(b.Data); err != nil {
			t.Error(err)
		}
		b.Done()
	}
}

// gaps: entries that are gone before they were read are told.
func (i *inside) gaps() {
	i.Helper()
	at := i.end()
	i.say("g lost")
	i.stored("g lost")
	i.run("journalctl", "--rotate", "--vacuum-size=1")
	i.say("g kept")
	i.stored("g kept")
	i.begin(at)
	i.say("g new")
	if got := i.take(2, "g "); !slices.Equal(got, []string{"g kept", "g new"}) || i.j.Stats().Gaps != 1 {
		i.Errorf("got %q, %+v; it said\n%s", got, i.j.Stats(), i.log)
	}
	i.lines = nil
	at = i.end()
	at.Cursor = "nonsense"
	i.begin(at)
	if got := i.take(2, "g "); !slices.Equal(got, []string{"g kept", "g new"}) || i.j.Stats().Gaps != 1 {
		i.Errorf("with a cursor that is none: got %q, %+v; it said\n%s", got, i.j.Stats(), i.log)
	}
	// The last entry of all is gone, and there is none behind it yet.
	at = i.end()
	i.lines = nil
	i.run("journalctl", "--rotate", "--vacuum-size=1")
	i.begin(at)
	i.say("g at last")
	if got := i.take(1, "g "); !slices.Equal(got, []string{"g at last"}) {
		i.Errorf("got %q; it said\n%s", got, i.log)
	}
	i.end()
}
