package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/syncbuf"
)

// requests are n of a client, with the name of a user or none.
func requests(method, client, user string, n int) string {
	line := fmt.Sprintf("%s - %s [%s] \"%s / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, user, time.Now().Format("02/Jan/2006:15:04:05 -0700"), method)
	return strings.Repeat(line, n)
}

// appends writes to the log at once.
func (l *lab) appends(lines ...string) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, "access.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "")); err != nil {
		l.t.Fatal(err)
	}
}

// events follows them as a person does.
func (l *lab) events() *syncbuf.Buffer {
	l.t.Helper()
	bin, err := build()
	if err != nil {
		l.t.Fatal(err)
	}
	out := &syncbuf.Buffer{}
	cmd := exec.Command(bin, "events", "--socket-dir", filepath.Join(l.dir, "run"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	l.wait("events to be followed", func() bool { return out.String() != "" })
	return out
}

// shows waits until a command's output holds a text, and returns it.
func (l *lab) shows(command, text string) (out string) {
	l.t.Helper()
	l.wait(command+" to say "+text, func() bool {
		out, _ = l.command(words(command)...)
		return strings.Contains(out, text)
	})
	return out
}

func (l *lab) isHeld(client string) bool {
	_, yes := l.held(netip.MustParseAddr(client))
	return yes
}

const getsOnly = `
[logs.site]
files = %q
users_checked = true
[jails.web]
limit = 5
window = "60s"
ban = "1h"
where = { method = "GET" }
[actions.firewall]
type = "nftables"
`

// A jail whose bans hit regular clients lets them go, spares them, and says so to
// everybody who looks, until somebody has it enforce again. Strangers gain nothing.
func TestBreakerAsAPersonSeesIt(t *testing.T) {
	l := newLab(t)
	l.write("access.log", "")
	d := l.tailban(fmt.Sprintf(getsOnly, filepath.Join(l.dir, "access.log")))
	events := l.events()
	regular := func(i int) string { return fmt.Sprintf("203.0.%d.9", 100+i) }
	for i := range 12 {
		l.appends(requests("POST", regular(i), "alice", 1))
	}
	for i := range 8 {
		l.appends(requests("GET", regular(i), "-", 6))
	}
	out := l.shows("status", "sparing")
	for _, text := range []string{"the breaker", "regular clients", "jail web"} {
		if !strings.Contains(out, text) {
			t.Errorf("status says nothing of %q:\n%s", text, out)
		}
	}
	if out, err := l.command("status", "--check"); err == nil {
		t.Errorf("healthy:\n%s", out)
	}
	l.wait("the regulars to be let go", func() bool {
		for i := range 5 {
			if l.isHeld(regular(i)) {
				return false
			}
		}
		return true
	})
	l.run(words("explain "+regular(1)), regular(1)+" is not banned")
	for _, text := range []string{"jail web spares regular clients: it banned", "hold"} {
		l.wait("an event with "+text, func() bool { return strings.Contains(events.String(), text) })
	}
	if d.said("the jail spares regular clients for now: its bans have hit too many of them (is its limit right? tailban resume ends this)") != 1 {
		t.Error("the log doesn't say it once")
	}

	l.appends(requests("GET", regular(2), "-", 6), requests("GET", "198.51.100.66", "-", 6))
	l.wait("a stranger to be banned", func() bool { return l.isHeld("198.51.100.66") })
	if l.isHeld(regular(2)) {
		t.Error("a regular is banned")
	}
	l.run(words("explain "+regular(2)), regular(2)+" is not banned", "jail web spares it for now")
	l.run(words("resume web"), "web")
	if out := l.run(words("status")); strings.Contains(out, "sparing") {
		t.Errorf("held still:\n%s", out)
	}
	l.run(words("status --check"))
	l.wait("an event of that", func() bool { return strings.Contains(events.String(), "resume") })
	l.wait("a regular to be banned", func() bool { // what it did up to the second in which it was let go is forgiven
		l.appends(requests("GET", regular(2), "-", 1))
		return l.isHeld(regular(2))
	})
}

// An address that stands for nearly all of a log, and is private, is likely a
// proxy: nobody is cut off, and everybody is told.
func TestMisreadLogAsAPersonSeesIt(t *testing.T) {
	l := newLab(t)
	l.write("access.log", "")
	d := l.tailban(fmt.Sprintf(getsOnly, filepath.Join(l.dir, "access.log")))
	events := l.events()
	l.appends(requests("HEAD", "10.0.0.5", "-", 150))
	l.appends(requests("GET", "10.0.0.5", "-", 20))
	l.appends(requests("GET", "203.0.113.66", "-", 6))
	l.wait("a ban", func() bool { return l.isHeld("203.0.113.66") })
	if l.isHeld("10.0.0.5") {
		t.Error("everybody is cut off")
	}
	out := l.shows("status", "misread")
	for _, text := range []string{"log site", "10.0.0.5"} {
		if !strings.Contains(out, text) {
			t.Errorf("status says nothing of %q:\n%s", text, out)
		}
	}
	if out, err := l.command("status", "--check"); err == nil {
		t.Errorf("healthy:\n%s", out)
	}
	l.run(words("explain 10.0.0.5"), "10.0.0.5 is never banned: it stands for most of the traffic of log site", "trusted_proxies?")
	l.wait("an alarm", func() bool { return strings.Contains(events.String(), "log site: 10.0.0.5") })
	if d.said("no ban: the log's clients are likely not its clients") != 1 {
		t.Error("the log doesn't say it once")
	}
}

// Of more bans than there may be in a minute some wait, which everybody can
// see, and get their turn.
func TestManyBansAsAPersonSeesThem(t *testing.T) {
	l := newLab(t)
	l.write("access.log", "")
	d := l.tailban("max_bans_per_minute = 60\n" + fmt.Sprintf(getsOnly, filepath.Join(l.dir, "access.log")))
	events := l.events()
	var lines []string
	for i := range 64 {
		lines = append(lines, requests("GET", fmt.Sprintf("198.51.100.%d", 1+i), "-", 6))
	}
	l.appends(lines...)
	out := l.shows("status", "storm")
	if !strings.Contains(out, "max_bans_per_minute") {
		t.Errorf("status doesn't say which bound:\n%s", out)
	}
	l.shows("explain 198.51.100.64", "waits for its turn")
	l.wait("an alarm", func() bool { return strings.Contains(events.String(), "more bans than max_bans_per_minute") })
	l.run(words("ban 203.0.113.9"))
	l.wait("a ban by hand", func() bool { return l.isHeld("203.0.113.9") })
	l.wait("the last to have its turn", func() bool { return l.isHeld("198.51.100.64") && d.said("no ban waits any longer") == 1 })
	l.run(words("status --check"))
}

// That bans can't reach clients behind a proxy is said when the daemon starts.
func TestForwardedClientsAreSaidAtTheStart(t *testing.T) {
	l := newLab(t)
	l.write("access.log", "")
	for _, c := range []struct{ top, log, want string }{
		{`trusted_proxies = ["192.0.2.80"]`, `format = "nginx"`, "through the proxies they still get in"},
		{"", `peer = "rewritten"`, "a ban stops them only there"},
		{"", "", ""},
	} {
		d := l.tailban(c.top + strings.Replace(fmt.Sprintf(getsOnly, filepath.Join(l.dir, "access.log")), "users_checked = true", c.log, 1))
		n := 0
		if c.want != "" {
			n = 1
		}
		if d.said("configuration") != n || !strings.Contains(d.log.String(), c.want) {
			t.Errorf("with %s%s it says\n%s", c.top, c.log, d.log.String())
		}
		d.stop(syscall.SIGTERM)
	}
}
