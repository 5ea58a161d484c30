package daemon

import (
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
	var failed sync.Once
	return Manager{Watchdog: watchdog, Tell: func(assignments string) {
		if err := send(path, assignments); err != nil {
			failed.Do(func() { log.Error("the service manager can't be told how tailban is", "err", err) })
		}
	}}
}

// send sends a datagram to a unix socket. It waits for a receiver that is slow, but
// not for long.
func send(path, text string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(tellPatience)) // a socket has one
		_, err = c.Write([]byte(text))
	}
	if err != nil {
		return fmt.Errorf("send to %s: %w", path, err)
	}
	return nil
}
