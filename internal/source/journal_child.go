package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a running program that ends with us.
type child struct {
	stdout *os.File
	says   *childSays
	ended  <-chan error
	cancel context.CancelFunc
}

// startChild starts a program whose standard output is then read. notice is
// called with each line of its standard error.
func startChild(ctx context.Context, notice func(line string), name string, args ...string) (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &child{stdout: r, says: &childSays{notice: notice}, cancel: cancel}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = w, c.says
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // what it says is looked at
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan error, 1)
	c.ended = ended
	go func() {
		// Pdeathsig is about the death of the thread that started the
		// child, so that thread must stay as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		w.Close() //nolint:errcheck // the child has it now
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), r.Close())
	}
	return c, nil
}

// end kills the child.
func (c *child) end() {
	c.cancel()
	<-c.ended
	c.close()
}

func (c *child) close() {
	c.cancel()
	c.stdout.Close() //nolint:errcheck // only read
}

// wait waits for the end of a child whose output has ended, and says why that
// was, with the last of what it said; nil if it ended well and said nothing.
func (c *child) wait() error {
	t := time.AfterFunc(time.Second, c.cancel)
	err := <-c.ended
	t.Stop()
	c.close()
	said := c.says.last()
	switch {
	case said == "":
		return err
	case err == nil:
		return errors.New(said)
	}
	return fmt.Errorf("%w: %s", err, said)
}

// childSays keeps the last line of a child's standard error.
type childSays struct {
	notice func(line string)

	mu   sync.Mutex
	line []byte // unfinished
	text string
}

const maxSays = 512

// Write implements io.Writer.
func (s *childSays) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, lineFeed)
		s.line = append(s.line, line[:min(len(line), maxSays-len(s.line))]...)
		if whole {
			if text := strings.TrimSpace(string(s.line)); text != "" {
				s.text = text
				s.notice(text)
			}
			s.line = s.line[:0]
		}
		rest = after
	}
	return len(p), nil
}

func (s *childSays) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(string(s.line)); text != "" {
		return text
	}
	return s.text
}

var _ io.Writer = (*childSays)(nil)
