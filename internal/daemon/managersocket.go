package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// tellPatience is how long the service manager may take to take a message.
const tellPatience = 2 * time.Second

// ManagerOf is the service manager that has started this process, as its environment
// tells (sd_notify(3)); none if it doesn't listen.
func ManagerOf(log *slog.Logger) Manager {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return Manager{}
	}
	watchdog, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Error("the service manager's watchdog is not fed", "err", err)
	}
	m := &managerSocket{path: path}
	_ = m.dial() // Tell says it if that can't be done then, either
	var failed sync.Once
	return Manager{Watchdog: watchdog, Tell: func(assignments string) {
		if err := m.send(assignments); err != nil {
			failed.Do(func() { log.Error("the service manager can't be told how tailban is", "err", err) })
		}
	}}
}

// managerSocket is the way to the service manager. It stays open: a daemon whose
// logs have used up all file descriptors still has to say that it goes on.
type managerSocket struct {
	path string

	mu   sync.Mutex
	conn *net.UnixConn // nil: there is none yet
}

// send sends a datagram. It waits for a receiver that is slow, but not for long.
func (m *managerSocket) send(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := errors.New("not connected")
	if m.conn != nil {
		err = m.write(text)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // the receiver may have made its socket anew
		if err = m.dial(); err == nil {
			err = m.write(text)
		}
	}
	if err != nil {
		return fmt.Errorf("send to %s: %w", m.path, err)
	}
	return nil
}

// dial connects, in place of the connection that there is. m.mu is held, or nobody
// else knows m.
func (m *managerSocket) dial() error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		return err
	}
	if m.conn != nil {
		m.conn.Close()
	}
	m.conn = c
	return nil
}

func (m *managerSocket) write(text string) error {
	_ = m.conn.SetWriteDeadline(time.Now().Add(tellPatience)) // a socket has one
	_, err := m.conn.Write([]byte(text))
	return err
}
