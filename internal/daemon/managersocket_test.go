package daemon

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// What is told arrives at the socket that the environment names, or is given up:
// a service manager that takes nothing holds nothing up.
func TestManagerOfEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(t, err)
	defer c.Close()
	var j journal
	t.Setenv("NOTIFY_SOCKET", "")
	if m := ManagerOf(j.logger()); m.Tell != nil {
		t.Error("without a socket somebody is told")
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", "")
	m := ManagerOf(j.logger())
	if m.Watchdog != 3*time.Second {
		t.Errorf("the watchdog waits for %v", m.Watchdog)
	}
	m.Tell("READY=1\nSTATUS=x")
	b := make([]byte, 100)
	n, err := c.Read(b)
	check(t, err)
	if string(b[:n]) != "READY=1\nSTATUS=x" {
		t.Errorf("it was told %q", b[:n])
	}

	const failed = "the service manager can't be told how tailban is"
	for end := time.Now().Add(patience); len(j.said(failed)) == 0; {
		if time.Now().After(end) {
			t.Fatal("a socket that nobody reads takes everything")
		}
		m.Tell("WATCHDOG=1")
	}
}
