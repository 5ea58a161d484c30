package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ask runs a command of the program against the daemon of the lab.
func (l *lab) command(args ...string) (string, error) {
	l.t.Helper()
	bin, err := build()
	if err != nil {
		l.t.Fatal(err)
	}
	args = append(args, "--socket-dir", filepath.Join(l.dir, "run"), "-c", filepath.Join(l.dir, "jails.toml"))
	out, err := exec.Command(bin, args...).CombinedOutput()
	return string(out), err
}

// run is command where it must succeed; its output holds each of the texts.
func (l *lab) run(args []string, texts ...string) string {
	l.t.Helper()
	out, err := l.command(args...)
	if err != nil {
		l.t.Fatalf("tailban %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			l.t.Errorf("tailban %s: no %q in\n%s", strings.Join(args, " "), text, out)
		}
	}
	return out
}

func words(s string) []string { return strings.Fields(s) }

// A day in the life of an administrator: see who is banned and why, let him
// go, ban a network by hand, allow somebody inside it; all of it lasts over a
// kill -9, and all of it is what the kernel does.
func TestSeeingAndSteering(t *testing.T) {
	l := newLab(t)
	attacker := l.join("203.0.113.1", "203.0.113.66")
	bystander := l.join("198.51.100.1", "198.51.100.10")
	l.nginx()
	config := webJail(l.dir, 50, "1h")
	d := l.tailban(config)

	for i := range 51 {
		if err := attacker.get("/sign-in?password=secret"); err != nil {
			t.Fatalf("request %d of 51: %v", i+1, err)
		}
	}
	l.wait("the ban", func() bool { _, yes := l.held(attacker.addr); return yes })
	if err := attacker.get("/"); err == nil {
		t.Fatal("the ban is not in force")
	}
	l.run(words("status"), "web", "site", "firewall")
	l.run(words("bans"), "203.0.113.66", "web")
	out := l.run(words("explain 203.0.113.66"), "203.0.113.66 is banned until", "web", "51", "/sign-in", "firewall")
	if strings.Contains(out, "secret") {
		t.Errorf("a query is shown:\n%s", out)
	}
	l.run(words("explain 198.51.100.10"), "198.51.100.10 is not banned")

	l.run(words("unban 203.0.113.66 --reason test"), "203.0.113.66")
	l.wait("the end of the ban", func() bool { return attacker.get("/") == nil })

	d.stop(syscall.SIGKILL)
	d = l.tailban(config)
	if err := attacker.get("/"); err != nil {
		t.Errorf("after a restart he is banned for the same lines: %v", err)
	}

	out, err := l.command(words("ban 203.0.113.0/24")...)
	if err == nil || !strings.Contains(out, "own address") {
		t.Errorf("the server's own network can be banned: %v\n%s", err, out)
	}
	l.run(words("ban 203.0.113.64/26 --for 1h --reason botnet"), "203.0.113.64/26")
	l.wait("the ban of the network", func() bool { return attacker.get("/") != nil })
	if err := bystander.get("/"); err != nil {
		t.Errorf("a client of another network is cut off: %v", err)
	}
	d.stop(syscall.SIGKILL)
	d = l.tailban(config)
	if err := attacker.get("/"); err == nil {
		t.Error("the ban by hand did not outlast the daemon")
	}
	l.run(words("bans"), "203.0.113.64/26", "botnet")

	l.run(words("allow 203.0.113.66 --for 1h"), "203.0.113.66")
	l.wait("the allowed one to be let in", func() bool { return attacker.get("/") == nil })
	d.stop(syscall.SIGKILL)
	l.tailban(config)
	if err := attacker.get("/"); err != nil {
		t.Errorf("the allowance did not outlast the daemon: %v", err)
	}
	l.run(words("explain 203.0.113.66"), "allowed")
	l.run(words("bans"), "no bans") // a network that holds somebody allowed is no target
	l.run(words("allow --end 203.0.113.66"))
	l.run(words("ban 203.0.113.66"))
	l.wait("the ban", func() bool { return attacker.get("/") != nil })
	l.run(words("unban --all"), "1")
	l.wait("the end of all bans", func() bool { return attacker.get("/") == nil })
	l.run(words("status --check"))
}
