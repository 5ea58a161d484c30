package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SyslogOptions says where syslog messages come from. Log, Network and Address
// are required, and FromUsers for a unix socket.
type SyslogOptions struct {
	// Log is the name of the log, for File, Position and messages.
	Log string

	// Network is "unix" (datagrams), "udp" or "tcp".
	Network string

	// Address is the absolute path of the socket, or an address with a port.
	Address string

	// FromUsers are the users, by name or number, whose datagrams on a unix
	// socket count. The kernel tells who sent each. All others are counted as
	// refused: any user of the machine could have others banned otherwise.
	FromUsers []string

	// AllowFrom are the networks that may send over UDP and TCP. None: only
	// the machine itself, that is loopback addresses.
	AllowFrom []netip.Prefix

	// File is the socket, if systemd has made it. It stays the caller's and
	// open, so that what is sent while nobody reads is kept by the kernel. If
	// it is nil, the socket is made, with its folder, and open to all users.
	File *os.File

	// Resume holds the positions stored for this log, for the offset only:
	// nothing can be read again.
	Resume []Position

	// MaxLine is as in FilesOptions.
	MaxLine int

	// Queue is how many bytes of lines are kept for a receiver that is
	// behind. Default 8 MiB.
	Queue int

	// MaxConnections is how many TCP connections are open at once. Default 64.
	MaxConnections int

	// Idle is how long a TCP connection may say nothing. Default 1 h.
	Idle time.Duration

	// Logger gets what an administrator should know; nil discards it.
	Logger *slog.Logger
}

const (
	defaultQueue       = 8 << 20
	defaultConnections = 64
	defaultIdle        = time.Hour

	// frameTime is how long a message over TCP may take to arrive.
	frameTime = time.Minute

	// handOver is how long what was taken from a socket is offered after the
	// end, as nobody can send it again.
	handOver = 500 * time.Millisecond

	receiveBuffer = 8 << 20 // asked of the kernel, for UDP
	headerRoom    = 4 << 10 // bytes of a message beyond its line
)

// Syslog receives syslog messages, as of RFC 3164 and RFC 5424; a line is what
// is behind their header. A line feed inside becomes the two characters \n.
//
// Whoever sends is never blocked: the socket is read all the time, and lines
// beyond Queue are dropped and counted.
type Syslog struct {
	o     SyslogOptions
	s     *stream
	q     *spool
	pause pauses
	conns atomic.Int64
	full  sync.Once // says that too many connections are open
}

var _ Source = (*Syslog)(nil)

// NewSyslog opens and starts nothing.
func NewSyslog(o SyslogOptions) *Syslog {
	o.MaxConnections = positive(o.MaxConnections, defaultConnections)
	o.Idle = positive(o.Idle, defaultIdle)
	s := newStream(o.Log, o.Network+":"+o.Address, o.MaxLine, o.Logger)
	return &Syslog{
		o: o, s: s, pause: newPauses(),
		q: newSpool(&s.pool, s.maxLine, max(positive(o.Queue, defaultQueue), 2*s.maxLine)),
	}
}

// Stats may be called at any time, from any goroutine.
func (y *Syslog) Stats() StreamStats {
	st := y.s.stats()
	st.Queued, st.Connections = y.q.queued(), int(y.conns.Load())
	return st
}

// Run implements Source, but that it drops lines when out isn't taken from for
// long. After ctx is done it offers what it has taken from the socket for half
// a second more. It must not run twice.
func (y *Syslog) Run(ctx context.Context, out chan<- *Batch) error {
	_, _, ok := y.s.resume(ctx, out, y.o.Resume)
	if !ok || !y.s.announce(ctx, out, "") {
		return nil
	}
	late, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(handOver, stop) })()
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		y.pump(late, out)
	}()
	for {
		err := y.receive(ctx)
		if ctx.Err() != nil {
			break
		}
		y.s.trouble("cannot receive syslog messages", err)
		if !y.pause.wait(ctx) {
			break
		}
	}
	y.q.close()
	<-pumped
	return nil
}

// pump sends what is queued until ctx is done, or all is sent after the end.
func (y *Syslog) pump(ctx context.Context, out chan<- *Batch) {
	for {
		c, behind, ok := y.q.take()
		switch {
		case ok:
			if !y.s.send(ctx, out, &c, behind) {
				return
			}
		case y.q.isClosed():
			return
		default:
			select {
			case <-y.q.ready:
			case <-ctx.Done():
				return
			}
		}
	}
}

// message queues the line of a message.
func (y *Syslog) message(p []byte, cut bool) {
	if !y.q.put(syslogMessage(trimEnd(p)), cut) {
		y.s.dropped.Add(1)
	}
}

// receive opens the socket and reads it until ctx is done or it fails.
func (y *Syslog) receive(ctx context.Context) error {
	switch y.o.Network {
	case "unix":
		return y.receiveUnix(ctx)
	case "udp":
		return y.receiveUDP(ctx)
	case "tcp":
		return y.receiveTCP(ctx)
	}
	return fmt.Errorf("unknown network %q", y.o.Network)
}

// from reports whether a network address may send.
func (y *Syslog) from(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if len(y.o.AllowFrom) == 0 {
		return a.IsLoopback()
	}
	return slices.ContainsFunc(y.o.AllowFrom, func(p netip.Prefix) bool { return p.Contains(a) })
}

// checkSocket says why the socket that systemd has passed can't be used. It asks
// our own descriptor for its kind: os.File.Fd would make both of them block.
func (y *Syslog) checkSocket(c syscall.Conn, kind int, a net.Addr) error {
	got, err := option(c, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("look at the socket that systemd has passed: %w", err)
	}
	network := strings.TrimSuffix(a.Network(), "gram")
	if got != kind || network != y.o.Network || network == "unix" && a.String() != y.o.Address {
		return hinted{
			fmt.Errorf("the socket that systemd has passed is %s:%s, not %s", network, a, y.s.file.Path),
			"unix and udp need ListenDatagram=, tcp ListenStream=",
		}
	}
	return nil
}

// bindHint guesses what to do about a socket that can't be made.
func bindHint(err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return hinted{err, "does another program receive there?"}
	case errors.Is(err, fs.ErrPermission):
		return hinted{err, "let systemd make the socket: see tailban.socket"}
	}
	return err
}

// interrupt makes reads of c fail once ctx is done. The returned function ends
// that.
func interrupt(ctx context.Context, c interface{ SetReadDeadline(time.Time) error }) func() bool {
	return context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
}
