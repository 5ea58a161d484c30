package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/netlab"
)

// busy is what a child says when another daemon has its table.
const busy = "the table is busy"

// runChild is the whole program of a child: a daemon with the configuration
// at path, which it reads again at SIGHUP, until SIGTERM or the end of its
// standard input. It says on standard output why it could not start.
func runChild(path string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	load := func() (*config.Config, error) { return config.Load(path, nil) }
	c, err := load()
	if err == nil {
		d := newDaemon(Options{Config: c, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)), Host: "here", Load: load, Reloads: hangups})
		if every, none := time.ParseDuration(os.Getenv(snapshotsEnv)); none == nil {
			d.snapshotEvery = every
		}
		err = d.live(ctx)
	}
	switch {
	case errors.Is(err, actions.ErrTableBusy):
		fmt.Print(busy)
		return 1
	case err != nil:
		fmt.Print(err)
		return 1
	}
	return 0
}

// kernelLab is a network namespace with a site in it.
type kernelLab struct {
	*siteFiles
	ns       *netlab.NS
	firewall *actions.Nftables // to look, and to do what somebody else might
}

func newKernelLab(t *testing.T) *kernelLab {
	t.Helper()
	if err := netlab.Available(); err != nil {
		t.Skipf("needs network namespaces: %v", err)
	}
	ns := newNS(t)
	// Not t.TempDir, which is closed to other users.
	dir, err := os.MkdirTemp("", "tailban-daemon-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &kernelLab{newSite(t, dir), ns, actions.NewNftables(actions.NftablesOptions{NetNS: ns.FD()})}
	t.Cleanup(func() { l.firewall.Close() })
	return l
}

func newNS(t *testing.T) *netlab.NS {
	t.Helper()
	ns, err := netlab.New()
	check(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// firewalled has the first request banned in the kernel. The table is
// compared every second.
const firewalled = `
[jails.web]
limit = 0
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
reconcile = "1s"
`

// child is a daemon in a process of its own.
type child struct {
	testing.TB
	cmd     *exec.Cmd
	journal *journal
	output  *strings.Builder // to be read after wait
	ended   bool
}

// child starts a daemon inside the namespace. Nobody stands for a user
// without rights.
func (l *kernelLab) child(config string, nobody bool) *child {
	l.Helper()
	path := filepath.Join(l.dir, "jails.toml")
	check(l, os.WriteFile(path, []byte(config), 0o644))
	c := &child{TB: l, cmd: exec.Command("/proc/self/exe"), journal: &journal{}, output: &strings.Builder{}}
	c.cmd.Dir = "/"
	c.cmd.Env = []string{childEnv + "=" + path}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.journal
	if nobody {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	// The child ends with us by its standard input. Pdeathsig would end it
	// with the thread that started it, and netlab gives up threads.
	_, err := c.cmd.StdinPipe()
	check(l, err)
	err = l.ns.Start(c.cmd)
	if nobody && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)) {
		l.Skipf("needs to start a process as another user: %v", err)
	}
	check(l, err)
	l.Cleanup(func() {
		if !c.ended {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		if l.Failed() {
			l.Logf("a daemon said:\n%s%s", c.output, c.journal)
		}
	})
	return c
}

// daemon starts a child and waits until it reads the log and has compared
// its bans with the kernel.
func (l *kernelLab) daemon(config string) *child {
	l.Helper()
	c := l.child(config, false)
	c.waitSaid("bans compared with what the action held")
	c.waitSaid("reading log")
	return c
}

func (c *child) waitSaid(msg string, attrs ...any) {
	c.Helper()
	wait(c, fmt.Sprintf("%q", msg), func() bool { return len(c.journal.said(msg, attrs...)) > 0 })
}

// stop ends the daemon as its service manager does.
func (c *child) stop() {
	c.Helper()
	check(c, c.cmd.Process.Signal(syscall.SIGTERM))
	check(c, c.wait())
}

func (c *child) wait() error {
	c.ended = true
	return c.cmd.Wait()
}

// left is how long the kernel still bans an address; 0 if it does not.
func (l *kernelLab) left(addr string) time.Duration {
	entries, err := l.firewall.List(context.Background())
	if err != nil {
		return 0 // no table
	}
	for _, e := range entries {
		if e.Target == pfx(addr+"/32") {
			return e.Left
		}
	}
	return 0
}

func (l *kernelLab) waitHeld(addr string) {
	l.Helper()
	wait(l, "the kernel to ban "+addr, func() bool { return l.left(addr) > 0 })
}
