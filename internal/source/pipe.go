package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PipeOptions says which pipe to read. Log is required, and one of Path and
// File.
type PipeOptions struct {
	// Log is the name of the log, for File, Position and messages.
	Log string

	// Path is that of a named pipe (FIFO). It is waited for until it exists.
	Path string

	// File is standard input. It stays the caller's.
	File *os.File

	// Resume holds the positions stored for this log, for the offset only:
	// nothing can be read again.
	Resume []Position

	// MaxLine is as in FilesOptions.
	MaxLine int

	// Logger gets what an administrator should know; nil discards it.
	Logger *slog.Logger
}

// Pipe reads lines from standard input or from a named pipe. Whoever writes
// waits while lines aren't taken from Run, once the pipe is full.
type Pipe struct {
	o     PipeOptions
	s     *stream
	part  []byte // the beginning of a line
	over  bool   // part has reached the limit; what follows is dropped
	pause pauses
	every time.Duration // how often the name is looked at
}

var _ Source = (*Pipe)(nil)

const (
	pipeBlock = 64 << 10
	pipeSize  = 1 << 20 // asked of the kernel, for a named pipe
)

// NewPipe opens and starts nothing.
func NewPipe(o PipeOptions) *Pipe {
	name := "stdin"
	if o.Path != "" {
		name = "fifo:" + o.Path
	}
	p := &Pipe{o: o, s: newStream(o.Log, name, o.MaxLine, o.Logger), pause: newPauses(), every: time.Second}
	p.pause.most = time.Second // a name is waited for as that of a file
	return p
}

// Stats may be called at any time, from any goroutine.
func (p *Pipe) Stats() StreamStats { return p.s.stats() }

// Run implements Source. The end of standard input doesn't end it. It must not
// run twice.
func (p *Pipe) Run(ctx context.Context, out chan<- *Batch) error {
	_, _, ok := p.s.resume(ctx, out, p.o.Resume)
	if !ok || !p.s.announce(ctx, out, "") {
		return nil
	}
	wake, stop, err := wakeUp(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if p.o.Path == "" {
		p.s.fine(Following)
		if err := p.read(ctx, out, int(p.o.File.Fd()), wake); err != nil {
			p.s.log.Error("standard input is no longer read", slog.Any("err", err))
			p.s.failed(err)
		} else if ctx.Err() == nil {
			p.s.log.Info("standard input has ended")
			p.s.fine(Ended)
		}
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		if err := p.fifo(ctx, out, wake); err != nil {
			if missing(err) {
				p.s.waiting(err)
			} else {
				p.s.trouble("cannot read the named pipe"+openHint(p.o.Path, err), err)
			}
			if !p.pause.wait(ctx) {
				break
			}
		}
	}
	return nil
}

// wakeUp returns a descriptor that can be read once ctx is done.
func wakeUp(ctx context.Context) (fd int, stop func(), err error) {
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, nil, fmt.Errorf("make an eventfd: %w", err)
	}
	done := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return fd, func() {
		if !unhook() {
			<-done
		}
		_ = unix.Close(fd)
	}, nil
}

// fifo reads the named pipe until ctx is done or something else has its name.
//
// When the last writer has closed it, the descriptor would tell so for ever; one
// opened anew waits for the next writer. It is opened before the old one is
// closed: a pipe that nobody has open would lose what is in it, and its writers.
// Opening it for writing as well would hide the end, and glue a line that was
// broken off to the next writer's first.
func (p *Pipe) fifo(ctx context.Context, out chan<- *Batch, wake int) error {
	fd, err := p.openFIFO()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	p.pause.reset()
	p.s.fine(Following)
	for {
		err := p.read(ctx, out, fd, wake)
		if err != nil && !errors.Is(err, errReplaced) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			p.s.log.Info("another pipe has the name, reading that one")
		}
		next, err := p.openFIFO()
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
		fd = next
	}
}

// openFIFO opens the pipe; what is none is refused.
func (p *Pipe) openFIFO() (int, error) {
	fd, err := unix.Open(p.o.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return -1, hinted{errors.New("it is no named pipe"), "mkfifo makes one; files is the key for a log file"}
	}
	if st.Mode&0o002 != 0 {
		p.s.warnOnce("every user of this machine can write to the named pipe, and have anybody banned (mode 0620 and a group are safer)")
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // or it stays as small as it is
	return fd, nil
}

var errReplaced = errors.New("replaced")

// read sends lines until the last writer has gone or input ends, which is
// success, or ctx is done. errReplaced says that the name has become another
// pipe's.
func (p *Pipe) read(ctx context.Context, out chan<- *Batch, fd, wake int) error {
	buf := p.s.pool.get(pipeBlock)
	defer p.s.pool.put(buf)
	b := builder{s: p.s}
	for again := false; ; {
		if !again {
			ready, err := p.poll(fd, wake)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			case !ready:
				continue
			}
		}
		n, err := unix.Read(fd, buf)
		// A named pipe is read until it says that it is empty or that its
		// writers have gone. Polling does not tell the latter of one that had
		// gone before we opened the pipe.
		again = n > 0 && p.o.Path != ""
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case n == 0:
			if len(p.part) > 0 && !p.line(ctx, out, &b, nil) {
				return nil
			}
			b.flush(ctx, out)
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				p.keep(rest)
				break
			}
			if !p.line(ctx, out, &b, rest[:i]) {
				return nil
			}
			rest = rest[i+1:]
		}
		if !b.flush(ctx, out) {
			return nil
		}
	}
}

// poll waits until fd can be read or has ended, and looks at the name of a
// named pipe from time to time.
func (p *Pipe) poll(fd, wake int) (ready bool, err error) {
	timeout := -1
	if p.o.Path != "" {
		timeout = int(p.every / time.Millisecond)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(fds, timeout)
	if err != nil && err != unix.EINTR {
		return false, fmt.Errorf("poll: %w", err)
	}
	if n == 0 && p.o.Path != "" && !p.sameName(fd) {
		return false, errReplaced
	}
	return n > 0 && fds[0].Revents != 0, nil
}

// sameName reports whether the name still leads to the open pipe. Without a name
// it does: whoever has it open may go on writing.
func (p *Pipe) sameName(fd int) bool {
	var open, named unix.Stat_t
	if unix.Fstat(fd, &open) != nil || unix.Stat(p.o.Path, &named) != nil {
		return true
	}
	return open.Dev == named.Dev && open.Ino == named.Ino
}

// keep keeps the beginning of a line.
func (p *Pipe) keep(rest []byte) {
	room := p.s.maxLine - len(p.part)
	if len(rest) > room {
		rest, p.over = rest[:room], true
	}
	p.part = append(p.part, rest...)
}

// line takes what completes the line that was kept.
func (p *Pipe) line(ctx context.Context, out chan<- *Batch, b *builder, rest []byte) bool {
	if len(p.part) == 0 && !p.over {
		return b.add(ctx, out, rest, false, "")
	}
	p.keep(rest)
	ok := b.add(ctx, out, p.part, p.over, "")
	p.part, p.over = p.part[:0], false
	if cap(p.part) > pipeBlock {
		p.part = nil
	}
	return ok
}
