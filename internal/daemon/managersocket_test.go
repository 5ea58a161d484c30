package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// A daemon that can open no file any more still feeds the watchdog, and a service
// manager that has made its socket anew is told there.
func TestManagerIsToldAllTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listen := func() *net.UnixConn {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		check(t, err)
		check(t, c.SetReadDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { c.Close() })
		return c
	}
	told := func(c *net.UnixConn, want string) {
		t.Helper()
		b := make([]byte, 100)
		if n, err := c.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("it was told %q, %v, want %q", b[:n], err, want)
		}
	}
	c := listen()
	var j journal
	t.Setenv("NOTIFY_SOCKET", path)
	m := ManagerOf(j.logger())

	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	m.Tell("WATCHDOG=1")
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	told(c, "WATCHDOG=1")

	c.Close()
	check(t, os.Remove(path))
	c = listen()
	m.Tell("RELOADING=1")
	told(c, "RELOADING=1")
}
