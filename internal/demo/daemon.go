package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// daemon is a tailban that runs.
type daemon struct {
	log  syncbuf.Buffer // a child writes to it while we read
	stop func(syscall.Signal)
}

// startDaemon starts tailban and waits until its table is in the kernel.
func startDaemon(ctx context.Context, ns *netlab.NS, binary, config string, env ...string) (*daemon, error) {
	d := &daemon{}
	cmd := exec.CommandContext(ctx, binary, "run", "-c", config)
	cmd.Env = append(append(os.Environ(), "RUNTIME_DIRECTORY=/var/lib/tailban-run"), env...)
	cmd.Stderr = &d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := ns.Start(cmd); err != nil {
		return nil, err
	}
	var once sync.Once
	d.stop = func(sig syscall.Signal) {
		once.Do(func() {
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
		})
	}
	err := waitFor(ctx, 5*time.Second, func() bool {
		return bytes.Contains([]byte(d.log.String()), []byte("bans compared"))
	})
	if err != nil {
		d.stop(syscall.SIGTERM)
		return nil, fmt.Errorf("tailban did not get ready:\n%s", d.log.String())
	}
	return d, nil
}

// ban is what the daemon's log says of one.
type ban struct {
	Msg, Target, Window, Until string
	Count                      int
}

// banned finds the first ban in the daemon's log.
func (d *daemon) banned() (ban, bool) {
	for line := range strings.Lines(d.log.String()) {
		var b ban
		if json.Unmarshal([]byte(line), &b) == nil && b.Msg == "banned" {
			return b, true
		}
	}
	return ban{}, false
}

// waitFor looks every few milliseconds whether ok holds.
func waitFor(ctx context.Context, most time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
