package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sessionUnits are a logind, and our daemon as its unit has it.
const sessionUnits = `
mkdir "$units/check.service.d"
cat >"$units/check.service.d/logind.conf" <<'UNIT'
[Unit]
Wants=dbus.service systemd-logind.service
After=dbus.service systemd-logind.service
UNIT
mkdir -p "$1/root/etc/pam.d" "$1/root/etc/tailban" "$1/root/srv/log"
for service in sshd ftpd; do
	echo 'session required pam_systemd.so' >"$1/root/etc/pam.d/$service"
done
: >"$1/root/srv/log/access.log"
chmod 755 "$1/root/srv/log"
cat >"$1/root/etc/tailban/jails.toml" <<'TOML'
[logs.site]
files = "/srv/log/access.log"
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
TOML
chmod 755 "$1/root/etc/tailban"
chmod 644 "$1/root/etc/tailban/jails.toml" "$1/root/srv/log/access.log"
`

// openSession does what sshd does with PAM when a user has authenticated, and
// holds the session until its standard input ends.
const openSession = `
import ctypes, sys
service, host = [a.encode() for a in sys.argv[1:]]
pam = ctypes.CDLL("libpam.so.0")
class Conv(ctypes.Structure):
    _fields_ = [("conv", ctypes.c_void_p), ("data", ctypes.c_void_p)]
h, conv = ctypes.c_void_p(), Conv()
def ok(r, what):
    if r: sys.exit(f"{what}: {r}")
ok(pam.pam_start(service, b"root", ctypes.byref(conv), ctypes.byref(h)), "start")
ok(pam.pam_set_item(h, 4, host), "host") # PAM_RHOST
ok(pam.pam_set_item(h, 3, b"ssh"), "terminal") # PAM_TTY
ok(pam.pam_open_session(h, 0), "open session")
print("open", flush=True)
sys.stdin.read()
ok(pam.pam_close_session(h, 0), "close session")
`

// A real logind, and our daemon with all that its unit takes away from it:
// TestInsideSessions says what is tested.
func TestSessions(t *testing.T) {
	inMachine(t, sessionUnits, "TestInsideSessions")
}

// TestInsideSessions runs in the machine of TestSessions.
func TestInsideSessions(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestSessions")
	}
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs Python, to ask PAM for a session")
	}
	if err := exec.Command("systemctl", "is-active", "dbus.service", "systemd-logind.service").Run(); err != nil {
		t.Skip("needs logind, and D-Bus to talk to it")
	}
	if so, _ := filepath.Glob("/usr/lib/*/security/pam_systemd.so"); len(so) == 0 {
		t.Skip("needs pam_systemd")
	}
	l := &lab{t: t}
	i := &inside{T: t, wait: l.wait}
	i.run("systemctl", "start", "tailban.service")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(i.run("journalctl", "-u", "tailban.service", "-o", "cat"))
		}
	})
	explain := func(address string) string { return i.run("/usr/local/bin/tailban", "explain", address) }
	guests := []string{"203.0.113.5", "203.0.113.6", "2001:db8:1::5"}
	var lines strings.Builder
	for _, a := range guests {
		line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", a, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		lines.WriteString(strings.Repeat(line, 3))
	}
	if err := os.WriteFile("/srv/log/access.log", []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, a := range guests {
		l.wait("the ban of "+a, func() bool { return strings.Contains(explain(a), "is banned until") })
	}

	closeFirst := i.session(python, "sshd", guests[0])
	closeSecond := i.session(python, "sshd", guests[2])
	defer closeSecond()
	defer i.session(python, "ftpd", guests[1])()
	for _, a := range []string{guests[0], guests[2]} {
		l.wait(a+" to be protected", func() bool { return strings.Contains(explain(a), "SSH session") })
	}
	closeFirst()
	l.wait("the session's end", func() bool { return i.sessions(guests[0]) == 0 })
	if i.sessions(guests[1]) == 0 || i.sessions(guests[2]) == 0 {
		t.Error("the other sessions have ended")
	}
	if !strings.Contains(explain(guests[0]), "SSH session") {
		t.Errorf("whose session has just ended is not protected:\n%s", explain(guests[0]))
	}
	if strings.Contains(explain(guests[1]), "SSH session") {
		t.Errorf("a session of FTP counts:\n%s", explain(guests[1]))
	}
	for _, bad := range []string{"cannot see", "cannot watch"} {
		if said := i.run("journalctl", "-u", "tailban.service", "-o", "cat"); strings.Contains(said, bad) {
			t.Errorf("it said\n%s", said)
		}
	}
}

// session opens a session from somewhere by a service of PAM's.
func (i *inside) session(python, service, from string) (end func()) {
	i.Helper()
	cmd := exec.Command(python, "-c", openSession, service, from)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		i.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		i.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "open\n" {
		i.Fatalf("no session of %s from %s: %v", service, from, err)
	}
	return func() {
		i.Helper()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			i.Error(err)
		}
	}
}

// sessions counts those that logind tells of from an address.
func (i *inside) sessions(from string) (n int) {
	files, _ := filepath.Glob("/run/systemd/sessions/*[0-9]")
	for _, f := range files {
		if b, _ := os.ReadFile(f); strings.Contains(string(b), "REMOTE_HOST="+from+"\n") {
			n++
		}
	}
	return n
}
