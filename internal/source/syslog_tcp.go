package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// receiveTCP accepts connections of the networks that may send.
func (y *Syslog) receiveTCP(ctx context.Context) error {
	l, err := y.openTCP(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.Close()                                          //nolint:errcheck // was listening only
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // or Accept would go on
	y.started()
	for {
		c, err := l.AcceptTCP()
		switch {
		case errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr() //nolint:forcetypeassert // as documented
		switch {
		case !y.from(from):
			y.refuse(slog.String("addr", from.Unmap().String()))
		case y.conns.Load() >= int64(y.o.MaxConnections):
			y.s.refused.Add(1)
			y.full.Do(func() {
				y.s.log.Warn("syslog connections are refused, too many are open", slog.Int("open", y.o.MaxConnections))
			})
		default:
			y.conns.Add(1)
			wg.Go(func() {
				defer y.conns.Add(-1)
				y.connection(ctx, c)
			})
			continue
		}
		_ = c.Close()
	}
}

func (y *Syslog) openTCP(ctx context.Context) (*net.TCPListener, error) {
	if y.o.File == nil {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", y.o.Address)
		if err != nil {
			return nil, bindHint(err)
		}
		return l.(*net.TCPListener), nil //nolint:forcetypeassert // as documented
	}
	l, err := net.FileListener(y.o.File)
	if err != nil {
		return nil, fmt.Errorf("take the socket that systemd has passed (is it a ListenStream=?): %w", err)
	}
	t, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the socket that systemd has passed is of another network: %s", l.Addr().Network()), l.Close())
	}
	if err := y.checkSocket(t, unix.SOCK_STREAM, t.Addr()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// connection takes messages until the sender closes it, says nothing for too
// long or sends what is no message.
func (y *Syslog) connection(ctx context.Context, c *net.TCPConn) {
	defer c.Close() //nolint:errcheck // only read
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	f := newFrames(c, y.s.maxLine+headerRoom)
	for {
		_ = c.SetReadDeadline(time.Now().Add(y.o.Idle))
		if f.begin() != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(frameTime))
		p, cut, err := f.next()
		switch {
		case err == nil:
			y.message(p, cut)
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return
		default:
			y.s.malformed.Add(1)
			return
		}
	}
}
