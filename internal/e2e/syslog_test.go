package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/parser"
)

// syslogLab is an nginx whose workers, of a user of their own, send their access
// log to a socket.
type syslogLab struct {
	*lab
	socket string
	client *http.Client
	format parser.Format
	end    func() // of the source that runs
	now    *source.Syslog

	mu   sync.Mutex
	got  map[string]int // lines, by the path that was asked for
	rest []string       // what is no line of nginx
}

const worker = "www-data"

func newSyslogLab(t *testing.T) *syslogLab {
	if _, err := user.Lookup(worker); err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and the user " + worker)
	}
	l := &syslogLab{lab: &lab{t: t}, got: map[string]int{}}
	if err := netlab.Available(); err != nil {
		t.Skipf("needs network namespaces: %v", err)
	}
	// Not t.TempDir, which only root can enter.
	dir, err := os.MkdirTemp("", "tailban-syslog-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.dir, l.server, l.socket = dir, newNS(t), filepath.Join(dir, "log", "nginx.sock")
	if l.format, err = parser.New("combined", parser.Options{}); err != nil {
		t.Fatal(err)
	}
	l.client = &http.Client{Transport: &http.Transport{DialContext: l.server.Dialer(), MaxIdleConnsPerHost: 8}}
	t.Cleanup(l.client.CloseIdleConnections)
	return l
}

// nginx starts a real one.
func (l *syslogLab) nginx(workers int) {
	l.t.Helper()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		l.t.Skip("needs nginx")
	}
	path := l.write("nginx.conf", fmt.Sprintf(`
daemon off;
user %[3]s;
worker_processes %[4]d;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 512; }
http {
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3;
	uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	access_log syslog:server=unix:%[2]s,nohostname,tag=shop combined;
	server {
		listen 127.0.0.1:80;
		location / { return 200 "$uri\n"; }
		location /host/ { access_log syslog:server=unix:%[2]s combined; return 200 "$uri\n"; }
	}
}
`, l.dir, l.socket, worker, workers))
	cmd := exec.Command(bin, "-p", l.dir, "-e", filepath.Join(l.dir, "error.log"), "-c", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	l.start(cmd)
	l.wait("nginx to listen", func() bool {
		c, err := l.server.Dialer()(context.Background(), "tcp", "127.0.0.1:80")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (l *syslogLab) get(path string) error {
	resp, err := l.client.Get("http://127.0.0.1" + path)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// run starts a source; its lines are counted.
func (l *syslogLab) run(passed *os.File) {
	l.t.Helper()
	y := source.NewSyslog(source.SyslogOptions{
		Log: "web", Network: "unix", Address: l.socket, FromUsers: []string{worker}, File: passed,
		Logger: slog.New(slog.DiscardHandler),
	})
	out := make(chan *source.Batch)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(out)
		if err := y.Run(ctx, out); err != nil {
			l.t.Error(err)
		}
	}()
	go func() {
		defer close(ended)
		for b := range out {
			l.take(string(b.Data))
			b.Done()
		}
	}()
	l.now = y
	l.end = sync.OnceFunc(func() {
		cancel()
		<-ended
		if st := y.Stats(); st.Dropped+st.Malformed+st.KernelDropped > 0 {
			l.t.Errorf("lines were lost: %+v", st)
		}
	})
	l.t.Cleanup(l.end)
	l.wait("the socket", func() bool { return y.Stats().State == source.Following })
}

var asked = regexp.MustCompile(`^127\.0\.0\.1 - - \[[^]]+\] "GET (/[a-z/]*\d+) HTTP/1\.1" 200 `)

func (l *syslogLab) take(lines string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(lines) {
		var e parser.Event
		m := asked.FindStringSubmatch(line)
		if err := l.format.Parse([]byte(strings.TrimSuffix(line, "\n")), false, &e); err != nil || m == nil {
			l.rest = append(l.rest, line)
			continue
		}
		l.got[m[1]]++
	}
}

func (l *syslogLab) count(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got[path]
}

// A real nginx under load, and a source that is started again and again: with a
// socket that stays, each line comes once.
func TestNginxToSyslogSocketLosesNothing(t *testing.T) {
	l := newSyslogLab(t)
	var passed *os.File
	err := l.server.Do(func() error { // the queue's length is the namespace's
		if err := os.WriteFile("/proc/sys/net/unix/max_dgram_qlen", []byte("8192"), 0); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(l.socket), 0o755); err != nil {
			return err
		}
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: l.socket, Net: "unixgram"})
		if err != nil {
			return err
		}
		defer c.Close()
		if passed, err = c.File(); err != nil {
			return err
		}
		return errors.Join(os.Chmod(l.socket, 0o666), unix.SetsockoptInt(int(passed.Fd()), unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { passed.Close() })
	l.nginx(2)

	// No more are under way than a socket of nginx may have sent and nobody read:
	// it would throw the rest away, which is no loss of ours. One of its processes
	// may have to send all of them.
	const clients, burst, restarts = 4, 40, 40
	asking := make(chan int)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range asking {
				prefix := "/"
				if i%2 == 0 {
					prefix = "/host/"
				}
				if err := l.get(fmt.Sprintf("%s%d", prefix, i)); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
	asked := 0
	ask := func() {
		for range burst {
			asking <- asked
			asked++
		}
	}
	arrived := func(n int) {
		t.Helper()
		l.wait("all lines", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.got) >= n
		})
	}
	for range restarts {
		l.run(passed)
		arrived(asked - clients)
		ask()
		l.end() // in the middle of lines
		ask()   // while nobody reads
	}
	close(asking)
	wg.Wait()
	l.run(passed)
	arrived(asked)
	l.end()
	for path, n := range l.got {
		if n != 1 {
			t.Errorf("%s came %d times", path, n)
		}
	}
	if len(l.rest) > 0 {
		t.Errorf("%d lines are none, like %q", len(l.rest), l.rest[0])
	}
	t.Logf("%d requests, %d restarts", len(l.got), restarts)
}

// What docs/sources.md says of a socket that is made at each start: what is sent
// in between is lost, and the message by which nginx notices.
func TestNginxToSyslogSocketMadeAnew(t *testing.T) {
	l := newSyslogLab(t)
	l.run(nil)
	l.nginx(1)
	send := func(path string) {
		t.Helper()
		if err := l.get(path); err != nil {
			t.Fatal(err)
		}
	}
	comes := func(path string) {
		t.Helper()
		send(path)
		l.wait(path, func() bool { return l.count(path) == 1 })
	}
	comes("/1")
	l.end()
	l.run(nil)
	send("/2")
	comes("/3")
	l.end()
	send("/4")
	send("/5") // nginx answers before it logs, so that only /4 is sure to be logged by now
	l.run(nil)
	comes("/6")
	for _, lost := range []string{"/2", "/4"} {
		if l.count(lost) != 0 {
			t.Errorf("%s is not lost: say so in docs/sources.md", lost)
		}
	}

	// Who isn't named is refused: root here, who could ban anybody else.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: l.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(`<190>Nov 30 05:19:53 shop: 127.0.0.1 - - [30/Nov/2026:05:19:53 +0000] "GET /7 HTTP/1.1" 200 1 "-" "-"`)); err != nil {
		t.Fatal(err)
	}
	l.wait("the message to be refused", func() bool { return l.now.Stats().Refused == 1 })
	comes("/8")
	if l.count("/7") != 0 || len(l.rest) > 0 {
		t.Errorf("forged: %d, others %q", l.count("/7"), l.rest)
	}
}
