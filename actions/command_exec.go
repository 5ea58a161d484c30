//go:build linux

package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/term"
	"github.com/tailban/tailban/internal/words"
)

const (
	// killAfter is how long a program that was asked to end has for it.
	killAfter = time.Second
	// drainFor is how long output is waited for that a process which left its
	// group still holds open.
	drainFor = time.Second

	maxSaid      = 4 << 10  // bytes that are kept of what a program says, of each stream
	maxShown     = 300      // and how many of them an error shows
	maxListing   = 32 << 20 // bytes of a listing
	maxListed    = 1 << 20  // bans in a listing
	exitNotThere = 1        // of check
)

// commandEnv is all of a program's environment.
func commandEnv() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}

// errTooLong is wrapped by the error of a run that was ended for its time.
var errTooLong = errors.New("took too long and was ended")

// program is one run.
type program struct {
	argv  []string
	stdin []byte
	limit time.Duration
	keep  int // bytes of standard output; beyond that it is cut
}

// execute runs a program to its end and returns what it wrote on standard
// output. cut is whether that was more than it keeps. The error of a program
// that did not end with 0 wraps *exec.ExitError.
func execute(ctx context.Context, p program) (stdout []byte, cut bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	out, said := &bounded{keep: p.keep}, &bounded{keep: maxSaid}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Dir = commandEnv(), "/"
	cmd.Stdout, cmd.Stderr = out, said
	if len(p.stdin) > 0 {
		cmd.Stdin = bytes.NewReader(p.stdin)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = drainFor
	if err := cmd.Start(); err != nil {
		return nil, false, startError(err)
	}
	ended := endAt(ctx, cmd.Process.Pid, p.limit)
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well, but left something running
	}
	switch {
	case (ended || err != nil) && ctx.Err() != nil:
		return nil, false, ctx.Err()
	case ended: // whatever its exit status says, it has not done its work
		return nil, false, fmt.Errorf("%w after %v%s", errTooLong, p.limit, shown(said, out))
	case err == nil:
		return out.buf.Bytes(), out.cut, nil
	}
	return nil, false, fmt.Errorf("%w%s", err, shown(said, out))
}

// endAt waits until a process ends, and has it end when ctx is done or the
// limit is over, with its whole group. It reports whether it had to. The
// process is left to be waited for: until then its number, and that of its
// group, is nobody else's.
func endAt(ctx context.Context, pid int, limit time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	gone, watched := make(chan struct{}), make(chan struct{})
	had := false
	go func() {
		defer close(watched)
		select {
		case <-gone:
			return
		case <-limited.Done():
		}
		had = true
		unix.Kill(-pid, unix.SIGTERM)
		patience := time.NewTimer(killAfter)
		defer patience.Stop()
		select {
		case <-gone:
		case <-patience.C:
			unix.Kill(-pid, unix.SIGKILL)
		}
	}()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	close(gone)
	<-watched
	unix.Kill(-pid, unix.SIGKILL) // whatever it has left
	return had
}

func startError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC):
		return Permanent(err)
	}
	return err
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	keep int
	buf  bytes.Buffer
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.keep-b.buf.Len())
	b.buf.Write(p[:room])
	b.cut = b.cut || room < len(p)
	return len(p), nil
}

// shown is what a program has said, for an error: on standard error, or else on
// standard output.
func shown(said, out *bounded) string {
	text := strings.TrimSpace(said.buf.String())
	if text == "" {
		text = strings.TrimSpace(out.buf.String()[:min(out.buf.Len(), maxSaid)])
	}
	if text == "" {
		return ""
	}
	return ": " + words.Clip(term.Escape(text), maxShown)
}

// fitToRun looks at the file of a program. owner is the user to whom it may belong
// beside root.
func fitToRun(path string, owner int) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file that can be run", path)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable (chmod 755 %s)", path, path)
	}
	if err := access.Changeable(path, uint32(owner)); err != nil {
		return fmt.Errorf("it would be run with the rights of tailban, but %w", err)
	}
	return nil
}
