package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// shopStatus is what the daemon tells about the log that it reads.
type shopStatus struct {
	Lines, Gaps int64
	Files       []struct{ State string }
	Steps       map[string]int64
}

func (i *inside) shopStatus() (s shopStatus) {
	i.Helper()
	var all struct{ Logs []shopStatus }
	if err := json.Unmarshal([]byte(i.run("/usr/local/bin/tailban", "status", "--json")), &all); err != nil || len(all.Logs) != 1 {
		i.Fatalf("%d logs, %v", len(all.Logs), err)
	}
	return all.Logs[0]
}

// daemon starts tailban as our unit does, and waits until it follows the
// journal.
func (i *inside) daemon() {
	i.Helper()
	i.run("systemctl", "start", "tailban.service")
	i.follows()
}

func (i *inside) follows() {
	i.Helper()
	i.wait("the daemon to follow the journal", func() bool {
		f := i.shopStatus().Files
		return len(f) == 1 && f[0].State == "following"
	})
}

// counted waits for the daemon to have counted so many lines, and no more.
func (i *inside) counted(n int64) {
	i.Helper()
	var s shopStatus
	defer func() {
		if i.Failed() {
			i.Logf("it counted %+v, and said\n%s", s, i.run("journalctl", "-q", "-o", "cat", "-u", "tailban.service"))
		}
	}()
	i.wait(fmt.Sprintf("%d lines to be counted", n), func() bool {
		s = i.shopStatus()
		return s.Steps["counted"] >= n
	})
	if s.Lines != n || s.Gaps != 0 {
		i.Errorf("want %d lines and no gap", n)
	}
}

// request is said by the shop.
func (i *inside) request(addr, path string) string {
	i.Helper()
	line := fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" 200 12 "-" "-"`, addr, time.Now().Format("02/Jan/2006:15:04:05 -0700"), path)
	i.say("%s", line)
	return line
}

// sandbox: the daemon reads the journal, bans, and gives its sockets to their
// groups under our unit, and has nothing to complain about.
func (i *inside) sandbox() {
	i.Helper()
	i.daemon()
	i.request("203.0.113.1", "/1")
	i.request("203.0.113.1", "/2")
	i.request("203.0.113.1", "/3")
	i.counted(3)
	i.wait("the ban", func() bool { return strings.Contains(i.run("/usr/local/bin/tailban", "bans"), "203.0.113.1") })
	for line := range strings.Lines(i.run("journalctl", "-q", "-o", "cat", "_SYSTEMD_UNIT=tailban.service")) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			i.Errorf("it said %s", line)
		}
	}
	for socket, want := range map[string]string{"status.sock": "660 tailban\n", "control.sock": "660 adm\n"} {
		if got := i.run("stat", "-c", "%a %G", "/run/tailban/"+socket); got != want {
			i.Errorf("%s is %q, want %q", socket, got, want)
		}
	}
	i.run("systemctl", "stop", "tailban.service")
	i.stored(i.request("203.0.113.2", "/before-the-next-boot"))
	i.run("journalctl", "--sync")
}

// TestInsideNextBoot runs in the machine of TestJournal when that has been
// booted again: what was written between the stop and the boot is counted, once.
func TestInsideNextBoot(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestJournal")
	}
	l := &lab{t: t}
	i := &inside{T: t, wait: l.wait}
	i.open()
	i.daemon()
	i.counted(1)
	i.request("203.0.113.3", "/after-the-boot")
	i.counted(2)
	i.run("systemctl", "restart", "tailban.service")
	i.follows()
	i.request("203.0.113.3", "/after-a-restart")
	i.counted(1)
}
