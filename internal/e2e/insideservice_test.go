package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// service is our unit in a machine of its own.
type service struct {
	*inside
	clients int
}

// TestInsideService runs in the machine of TestService.
func TestInsideService(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestService")
	}
	l := &lab{t: t}
	s := &service{inside: &inside{T: t, wait: l.wait}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.said())
		}
	})
	began := time.Now()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"start", s.starts}, {"reload", s.reloads}, {"restart", s.restarts}, {"stop", s.stops},
		{"kill", s.killed}, {"drop-ins", s.dropIns}, {"disks", s.disks}, {"wedge", s.wedged},
	} {
		step.do()
		t.Logf("%s: done after %v", step.name, time.Since(began).Round(time.Millisecond))
	}
}

func (s *service) said() string {
	return s.run("journalctl", "-q", "-u", "tailban.service", "-o", "cat")
}

// show is a property of the unit.
func (s *service) show(property string) string {
	s.Helper()
	return strings.TrimSpace(s.run("systemctl", "show", "--value", "-p", property, "tailban.service"))
}

// dropIn has the unit changed, in place of what an earlier call did.
func (s *service) dropIn(lines ...string) {
	s.Helper()
	const path = "/etc/systemd/system/tailban.service.d/step.conf"
	if err := os.WriteFile(path, []byte("[Service]\n"+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	s.run("systemctl", "daemon-reload")
}

// floods has a client of its own banned by lines in a log, and returns it.
func (s *service) floods(log string) string {
	s.Helper()
	s.clients++
	client := fmt.Sprintf("203.0.113.%d", s.clients)
	s.requests(log, client)
	return client
}

func (s *service) requests(log string, clients ...string) {
	s.Helper()
	var lines strings.Builder
	for _, c := range clients {
		line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", c, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		lines.WriteString(strings.Repeat(line, 3))
	}
	s.append(log, lines.String())
}

func (s *service) append(log, text string) {
	s.Helper()
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

// held reports whether the kernel keeps a client away.
func (s *service) held(client string) bool {
	s.Helper()
	out, _ := exec.Command("nft", "list", "table", "inet", "tailban").CombinedOutput() // the table may not be there yet
	return strings.Contains(string(out), client+" ")
}

func (s *service) waitHeld(client string) {
	s.Helper()
	s.wait("the ban of "+client, func() bool { return s.held(client) })
}

const (
	siteLog  = "/srv/log/access.log"
	otherLog = "/disk/log/access.log"
	ownLog   = "/disk/log/tailban.log"
)

// starts: it runs as its user, with one capability, and bans.
func (s *service) starts() {
	s.run("systemctl", "start", "tailban.service")
	status, err := os.ReadFile("/proc/" + s.show("MainPID") + "/status")
	if err != nil {
		s.Fatal(err)
	}
	u, err := user.Lookup("tailban")
	if err != nil {
		s.Fatal(err)
	}
	groups := ""
	for _, name := range []string{"adm", "systemd-journal", "tailban"} {
		g, err := user.LookupGroup(name)
		if err != nil {
			s.Fatal(err)
		}
		groups += g.Gid + " "
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":\t")
		want := map[string]string{
			"Uid": strings.TrimSuffix(strings.Repeat(u.Uid+"\t", 4), "\t"), "Gid": strings.TrimSuffix(strings.Repeat(u.Gid+"\t", 4), "\t"),
			"CapEff": "0000000000001000", "CapPrm": "0000000000001000", "CapBnd": "0000000000001000", "CapAmb": "0000000000001000",
			"NoNewPrivs": "1", "Seccomp": "2",
		}[name]
		if name == "Groups" {
			for g := range strings.FieldsSeq(value) {
				if !strings.Contains(" "+groups, " "+g+" ") {
					s.Errorf("it is in group %s", g)
				}
			}
			if n := len(strings.Fields(value)); n != 3 {
				s.Errorf("it is in the groups %s, want %s", value, groups)
			}
		}
		if want != "" && value != want {
			s.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if got := s.run("stat", "-c", "%U %G %a", "/var/lib/tailban", "/var/lib/tailban/tailban.db"); got != "tailban tailban 700\ntailban tailban 600\n" {
		s.Errorf("the state is\n%s", got)
	}
	s.waitHeld(s.floods(siteLog))
	s.waitHeld(s.floods(otherLog))
	s.run("/usr/local/bin/tailban", "status", "--check")
	if out := s.run("env", "-u", insideSystemd, "/usr/local/bin/tailban", "check", "--user", "tailban"); strings.Contains(out, "warning") {
		s.Errorf("the check for its user says\n%s", out)
	}
	s.run("systemd-analyze", "security", "--no-pager", "--threshold=20", "tailban.service")
}

// reloads: by systemctl, which says whether that went well.
func (s *service) reloads() {
	const path = "/etc/tailban/jails.toml"
	good, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	pid := s.show("MainPID")
	write(string(good) + "[jails.more]\nlimit = 1000\nwindow = \"60s\"\nban = \"1h\"\n")
	s.run("systemctl", "reload", "tailban.service")
	if out := s.run("/usr/local/bin/tailban", "status"); !strings.Contains(out, "more") {
		s.Errorf("after a reload the status is\n%s", out)
	}
	write(string(good) + "[jails.more]\nlimit = \"many\"\n")
	if out, err := exec.Command("systemctl", "reload", "tailban.service").CombinedOutput(); err == nil {
		s.Errorf("a reload of nonsense went well: %s", out)
	}
	s.wait("the problem in the journal", func() bool {
		return strings.Contains(s.said(), path+":12: jails.more.limit = \"many\": must be a whole number")
	})
	write(string(good))
	if got := s.show("ActiveState") + " " + s.show("MainPID"); got != "active "+pid {
		s.Errorf("after a bad reload it is %s, want active %s", got, pid)
	}
	s.waitHeld(s.floods(siteLog))
	s.run("systemctl", "kill", "--kill-who=main", "-s", "HUP", "tailban.service") // systemd is told of this one as well
	s.wait("the reload by a signal", func() bool { return strings.Count(s.said(), `"msg":"configuration reloaded"`) == 2 })
	s.wait("the end of the reload", func() bool { return s.show("ActiveState") == "active" })
}

// restarts: bans stay, and who asks systemd is told of them.
func (s *service) restarts() {
	s.run("systemctl", "restart", "tailban.service")
	for n := 1; n <= s.clients; n++ {
		s.waitHeld(fmt.Sprintf("203.0.113.%d", n))
	}
	s.wait("the status line", func() bool { return s.show("StatusText") == "3 bans; 2 logs" })
}

// stops: bans stay. What a unit with a dynamic user had left is taken over.
func (s *service) stops() {
	s.run("systemctl", "stop", "tailban.service")
	if got := s.show("ActiveState") + " " + s.show("Result"); got != "inactive success" {
		s.Errorf("after a stop it is %s", got)
	}
	if !strings.Contains(s.said(), "stopped; bans stay in force until their time is up") {
		s.Error("it didn't say that it has stopped")
	}
	if !s.held("203.0.113.1") {
		s.Error("the ban has gone with the service")
	}
	s.run("/bin/sh", "-c", `set -e
mkdir -p -m 700 /var/lib/private
mv /var/lib/tailban /var/lib/private/tailban
chown -R 61234:61234 /var/lib/private/tailban
ln -s private/tailban /var/lib/tailban
nft delete table inet tailban`)
	s.run("systemctl", "start", "tailban.service")
	s.waitHeld("203.0.113.1") // by what is stored
	if got := s.run("stat", "-c", "%F %U %a", "/var/lib/tailban", "/var/lib/tailban/tailban.db"); got != "directory tailban 700\nregular file tailban 600\n" {
		s.Errorf("the state of a dynamic user has become\n%s", got)
	}
}

// killed: it comes back, and bans stay meanwhile.
func (s *service) killed() {
	pid := s.show("MainPID")
	n, err := strconv.Atoi(pid)
	if err != nil {
		s.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
	s.wait("systemd to notice", func() bool { return s.show("MainPID") != pid })
	if !s.held("203.0.113.1") {
		s.Error("the ban has gone with the process")
	}
	s.wait("another process", func() bool { return s.show("ActiveState") == "active" && s.show("NRestarts") == "1" })
	s.waitHeld(s.floods(siteLog))
}

// disks: while the disks of the state, of a log and of what it says itself are
// frozen, clients in another log are banned all the same; what is wrong is told; and
// the watchdog has no part in it.
func (s *service) disks() {
	s.run("systemctl", "stop", "tailban.service")
	s.run("/bin/sh", "-c", "cp -a /var/lib/tailban/. /disk/state/ && mount --bind /disk/state /var/lib/tailban")
	s.dropIn("StandardError=append:" + ownLog)
	s.run("systemctl", "start", "tailban.service")
	s.waitHeld(s.floods(otherLog))
	restarts := s.show("NRestarts")

	// Whatever becomes of this test, what waits for the disks must be let go.
	thaw := exec.Command("/bin/sh", "-c", "read x; fsfreeze -u /disk/state; fsfreeze -u /disk/log")
	end, err := thaw.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := thaw.Start(); err != nil {
		s.Fatal(err)
	}
	defer func() {
		_ = end.Close() // it goes on, then
		_ = thaw.Wait()
	}()
	s.run("fsfreeze", "-f", "/disk/state")
	s.run("fsfreeze", "-f", "/disk/log")
	froze := time.Now()
	started := make(chan error, 1) // meanwhile: a start that takes longer than systemd waits
	go func() {
		out, err := exec.Command("systemd-run", "--quiet", "--unit=slow.service", "-p", "Type=notify", "-p", "TimeoutStartSec=6s",
			"-p", "StateDirectory=slow", "-p", "RuntimeDirectory=slow", "-E", insideSystemd+"=1", "-E", slowStart+"=8s",
			"/inside", "-test.run=^TestInsideWedged$").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		started <- err
	}()
	s.waitHeld(s.floods(siteLog))
	var crowd []string
	for n := range 2000 {
		crowd = append(crowd, fmt.Sprintf("198.18.%d.%d", n/250, n%250+1))
	}
	s.requests(siteLog, crowd...)
	s.waitHeld(crowd[len(crowd)-1])
	s.wait("the state file to be in trouble", func() bool {
		out, _ := exec.Command("/usr/local/bin/tailban", "status").CombinedOutput()
		return strings.Contains(string(out), "changes wait for the disk, which doesn't answer")
	})
	s.waitHeld(s.floods(siteLog))
	if err := <-started; err != nil {
		s.Errorf("a slow start: %v", err)
	}
	s.Logf("frozen for %v", time.Since(froze))
	if err := end.Close(); err != nil {
		s.Fatal(err)
	}
	if err := thaw.Wait(); err != nil {
		s.Errorf("what lets the disks go: %v", err)
	}
	s.wait("all to be well", func() bool {
		return exec.Command("/usr/local/bin/tailban", "status", "--check").Run() == nil
	})
	if got := s.show("NRestarts"); got != restarts {
		s.Errorf("%s restarts, %s before", got, restarts)
	}
	s.waitHeld(s.floods(otherLog))
	if said, _ := os.ReadFile(ownLog); !strings.Contains(string(said), "commit takes long; is the disk hung?") {
		s.Errorf("it said\n%s", said)
	}
}

// wedged: the engine's goroutine alone hangs, and systemd starts the daemon anew.
// Bans stay meanwhile. TestInsideWedged is the daemon.
func (s *service) wedged() {
	s.run("systemctl", "stop", "tailban.service")
	s.dropIn("Environment="+insideSystemd+"=1", "ExecStart=", "ExecStart=/inside -test.v -test.run=^TestInsideWedged$")
	s.run("systemctl", "start", "tailban.service")
	before := s.show("NRestarts")
	s.waitHeld(s.floods(siteLog))
	s.requests(siteLog, wedging)
	s.wait("systemd to notice", func() bool { return s.show("NRestarts") != before })
	if !s.held("203.0.113.1") {
		s.Error("the ban has gone with the process")
	}
	s.waitHeld(wedging)
	if said := s.run("journalctl", "-q", "-o", "cat", "-u", "tailban.service"); !strings.Contains(said, "Watchdog timeout") || !strings.Contains(said, ".(*engine).loop(") {
		s.Error("the journal doesn't tell where it hung")
	}
}
