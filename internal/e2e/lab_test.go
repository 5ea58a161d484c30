package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// lab is a web server and its neighbours.
type lab struct {
	t        testing.TB
	dir      string
	server   *netlab.NS
	firewall *actions.Nftables // to look only
}

func newLab(t testing.TB) *lab {
	t.Helper()
	if err := netlab.Available(); err != nil {
		t.Skipf("needs network namespaces: %v", err)
	}
	l := &lab{t: t, dir: t.TempDir(), server: newNS(t)}
	l.firewall = actions.NewNftables(actions.NftablesOptions{NetNS: l.server.FD()})
	t.Cleanup(func() { l.firewall.Close() })
	return l
}

func newNS(t testing.TB) *netlab.NS {
	t.Helper()
	ns, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// neighbour is a host beside the server.
type neighbour struct {
	ns     *netlab.NS
	addr   netip.Addr
	server netip.Addr
}

// join makes a neighbour in the /24 or /64 of the server's address there.
func (l *lab) join(server, addr string) *neighbour {
	l.t.Helper()
	n := &neighbour{ns: newNS(l.t), addr: netip.MustParseAddr(addr), server: netip.MustParseAddr(server)}
	bits := 24
	if n.addr.Is6() {
		bits = 64
	}
	if err := netlab.Link(l.server, netip.PrefixFrom(n.server, bits), n.ns, netip.PrefixFrom(n.addr, bits)); err != nil {
		l.t.Fatal(err)
	}
	return n
}

const patient = 400 * time.Millisecond

// get asks for a page on a connection of its own.
func (n *neighbour) get(path string) error {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		// The transport goes on dialing when the client has given up.
		ctx, cancel := context.WithTimeout(ctx, patient)
		defer cancel()
		return n.ns.Dialer()(ctx, network, addr)
	}
	c := http.Client{Timeout: patient, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := c.Get("http://" + net.JoinHostPort(n.server.String(), "80") + path)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// dial opens a connection that stays.
func (n *neighbour) dial(t *testing.T, port string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := n.ns.Dialer()(ctx, "tcp", net.JoinHostPort(n.server.String(), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request on an open connection and waits for the answer.
func ask(c net.Conn, path string) error {
	if err := c.SetDeadline(time.Now().Add(patient)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: kept\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// nginx starts a real nginx in the server's namespace, with more lines for its
// http block.
func (l *lab) nginx(more ...string) *exec.Cmd {
	l.t.Helper()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		l.t.Skip("needs nginx")
	}
	conf := fmt.Sprintf(`
daemon off;
user root;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 512; }
http {
	access_log %[1]s/access.log combined;
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3;
	uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	%[2]s
	server { listen 80; listen [::]:80; location / { return 200 "$uri\n"; } }
}
`, l.dir, strings.Join(more, "\n"))
	path := l.write("nginx.conf", conf)
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
	return cmd
}

func (l *lab) write(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// start starts a process in the server's namespace and ends it with the test.
func (l *lab) start(cmd *exec.Cmd) {
	l.t.Helper()
	if err := l.server.Start(cmd); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// tailban is a running daemon.
type tailban struct {
	l   *lab
	cmd *exec.Cmd
	log *syncbuf.Buffer
	end func() // waits for it, once
}

// binDir is where the program is built; TestMain removes it.
var binDir string

func TestMain(m *testing.M) {
	var err error
	if binDir, err = os.MkdirTemp("", "tailban-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(binDir)
	os.Exit(code)
}

// build makes the program, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(binDir, "tailban")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// tailban starts the daemon and waits until it is ready.
func (l *lab) tailban(config string) *tailban {
	l.t.Helper()
	bin, err := build()
	if err != nil {
		l.t.Fatal(err)
	}
	path := l.write("jails.toml", fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n", filepath.Join(l.dir, "state"), filepath.Join(l.dir, "run"))+config)
	d := &tailban{l: l, cmd: exec.Command(bin, "run", "-c", path), log: &syncbuf.Buffer{}}
	d.cmd.Stderr = d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.server.Start(d.cmd); err != nil {
		l.t.Fatal(err)
	}
	d.end = sync.OnceFunc(func() { _ = d.cmd.Wait() })
	l.t.Cleanup(func() {
		d.stop(syscall.SIGKILL)
		if l.t.Failed() {
			l.t.Logf("the daemon said:\n%s", d.log.String())
		}
	})
	if strings.Contains(config, "nftables") {
		l.wait("the daemon to compare its bans", func() bool { return d.said("bans compared with what the action held") > 0 })
	}
	l.wait("the daemon to read the log", func() bool { return d.said("reading log") > 0 })
	return d
}

func (d *tailban) stop(sig syscall.Signal) {
	_ = d.cmd.Process.Signal(sig)
	d.end()
}

// said counts log messages.
func (d *tailban) said(msg string) (n int) {
	for line := range strings.Lines(d.log.String()) {
		var r struct{ Msg string }
		if json.Unmarshal([]byte(line), &r) == nil && r.Msg == msg {
			n++
		}
	}
	return n
}

// held returns the kernel's entry for an address.
func (l *lab) held(a netip.Addr) (actions.Entry, bool) {
	entries, err := l.firewall.List(context.Background())
	if err != nil {
		return actions.Entry{}, false
	}
	for _, e := range entries {
		if e.Target.Contains(a) {
			return e, true
		}
	}
	return actions.Entry{}, false
}

// patience is how long something may take: an action that was slow at its first
// comparison leaves a pause of many times that before the next one.
const patience = 60 * time.Second

// wait looks every millisecond whether ok holds, until patience is at its end.
func (l *lab) wait(what string, ok func() bool) {
	l.t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			l.t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}
