package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// byIptables runs a test with each variant of iptables.
func byIptables(t *testing.T, f func(t *testing.T, variant string)) {
	for _, variant := range []string{"nft", "legacy"} {
		t.Run(variant, func(t *testing.T) {
			for _, program := range []string{"iptables-" + variant, "ip6tables-" + variant, "ipset"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip("needs iptables and ipset: ", err)
				}
			}
			if lock, err := os.OpenFile("/run/xtables.lock", os.O_RDWR|os.O_CREATE, 0o600); err == nil {
				lock.Close()
			} else if variant == "legacy" {
				t.Skip("needs root outside of a user namespace: ", err)
			}
			f(t, variant)
		})
	}
}

// shell runs a program on the server, as an administrator would.
func (l *lab) shell(line string) string {
	l.t.Helper()
	cmd := exec.Command("sh", "-c", line)
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, out
	err := l.server.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		l.t.Fatalf("%s: %v: %s", line, err, out)
	}
	return out.String()
}

// teardown runs tailban teardown on the server.
func (l *lab) teardown() string {
	l.t.Helper()
	bin, err := build()
	if err != nil {
		l.t.Fatal(err)
	}
	return l.shell(bin + " teardown -c " + filepath.Join(l.dir, "jails.toml"))
}

// flood asks until the client is banned, which 50 requests do not do.
func (n *neighbour) flood(t *testing.T) {
	t.Helper()
	for i := range 51 {
		if err := n.get("/"); err != nil {
			t.Fatalf("request %d of 51 got no answer: %v", i+1, err)
		}
	}
}

func iptablesJail(dir, variant string, actions ...string) string {
	return fmt.Sprintf(`
[logs.site]
files = %q
[jails.web]
limit = 50
window = "60s"
ban = "1h"
[actions.old]
type = "iptables"
variant = %q
reconcile = "1s"
%s`, filepath.Join(dir, "access.log"), variant, strings.Join(actions, ""))
}

// The whole of it by iptables: a flood is dropped, by IPv4 and IPv6, whatever
// rules of others would let pass; a ban outlasts the daemon; rules that somebody
// flushes come back; who is unbanned is let in; nothing is left in the end.
func TestByIptables(t *testing.T) {
	byIptables(t, func(t *testing.T, variant string) {
		l := newLab(t)
		attacker := l.join("203.0.113.1", "203.0.113.66")
		sixth := l.join("2001:db8::1", "2001:db8::66")
		bystander := l.join("198.51.100.1", "198.51.100.10")
		iptables := "iptables-" + variant
		l.shell(iptables + " -A INPUT -p tcp --dport 80 -j ACCEPT")
		before := l.shell(iptables + " -S; ip6" + strings.TrimPrefix(iptables, "ip") + " -S; ipset save")
		l.nginx()
		config := iptablesJail(l.dir, variant)
		d := l.tailban(config)

		attacker.flood(t)
		l.wait("the ban", func() bool { return attacker.get("/") != nil })
		sixth.flood(t)
		l.wait("the ban of IPv6", func() bool { return sixth.get("/") != nil })
		if err := bystander.get("/"); err != nil {
			t.Errorf("a bystander is cut off: %v", err)
		}
		if sets := l.shell("ipset save"); !strings.Contains(sets, "add tailban4 203.0.113.66 timeout") || !strings.Contains(sets, "add tailban6-host 2001:db8::66 timeout") {
			t.Errorf("the sets are\n%s", sets)
		}
		l.run(words("status"), "old", "iptables", "works")
		l.run(words("bans"), "203.0.113.66", "2001:db8::66", "web")
		l.run(words("explain 203.0.113.66"), "203.0.113.66 is banned until", "old")

		d.stop(syscall.SIGKILL)
		if err := attacker.get("/"); err == nil {
			t.Error("the ban ended with the daemon")
		}
		d = l.tailban(config)
		l.wait("the bans to be compared", func() bool { return d.said("bans compared with what the action held") > 0 })
		if err := attacker.get("/"); err == nil {
			t.Error("the ban did not outlast a restart")
		}
		l.run(words("bans"), "203.0.113.66", "2001:db8::66")

		l.shell(iptables + " -F TAILBAN")
		l.wait("the rules to be repaired", func() bool {
			return d.said("iptables rules or sets were changed by somebody else, repaired") > 0
		})
		if err := attacker.get("/"); err == nil {
			t.Error("the repair let him in")
		}
		l.shell("ipset del tailban4 203.0.113.66")
		l.wait("the ban to be put back", func() bool { return strings.Contains(l.shell("ipset save tailban4"), "203.0.113.66") })

		l.run(words("unban 203.0.113.66"), "203.0.113.66")
		l.wait("the end of the ban", func() bool { return attacker.get("/") == nil })
		l.run(words("status --check"))

		d.stop(syscall.SIGTERM)
		if got := l.teardown(); got != "chain TAILBAN with sets tailban removed\n" {
			t.Errorf("the teardown said %q", got)
		}
		if after := l.shell(iptables + " -S; ip6" + strings.TrimPrefix(iptables, "ip") + " -S; ipset save"); after != before {
			t.Errorf("before\n%s\nafter the teardown\n%s", before, after)
		}
		l.wait("the end of the ban of IPv6", func() bool { return sixth.get("/") == nil })
		if got := l.teardown(); got != "there is no chain TAILBAN with sets tailban\n" {
			t.Errorf("the second teardown said %q", got)
		}
	})
}

// One ban, two actions: each has a state of its own, and one that can't work
// takes nothing from the other.
func TestByIptablesAndNftables(t *testing.T) {
	byIptables(t, func(t *testing.T, variant string) {
		l := newLab(t)
		attacker := l.join("203.0.113.1", "203.0.113.66")
		l.nginx()
		d := l.tailban(iptablesJail(l.dir, variant, "[actions.new]\ntype = \"nftables\"\n"))
		l.wait("both to compare their bans", func() bool { return d.said("bans compared with what the action held") > 1 })
		attacker.flood(t)
		l.wait("both to ban", func() bool {
			_, yes := l.held(attacker.addr)
			return yes && strings.Contains(l.shell("ipset save tailban4"), "203.0.113.66")
		})
		l.run(words("status"), "new", "old")
		l.run(words("explain 203.0.113.66"), "new  holds it", "old  holds it")

		// A set that somebody else's rule looks into can't be made anew.
		// The daemon stands still meanwhile, or it would put its own back in between.
		if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		l.shell("iptables-" + variant + " -F OUTPUT; iptables-" + variant + " -F TAILBAN-BAN; " +
			// The kernel lets go of it some time after the rules are gone.
			"until ipset destroy tailban4; do sleep 0.02; done; ipset create tailban4 hash:net; " +
			"iptables-" + variant + " -A OUTPUT -m set --match-set tailban4 dst -j DROP")
		if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		l.wait("one to fail", func() bool {
			out, _ := l.command("status", "--check")
			return strings.Contains(out, "tailban4")
		})
		l.run(words("explain 203.0.113.66"), "new  holds it", "old  does not hold it")
		l.run(words("status"), "iptables  failing", "nftables  works", "a rule that is not ours looks into it")
		if _, yes := l.held(attacker.addr); !yes {
			t.Error("the other action lost its ban")
		}
		l.shell("iptables-" + variant + " -F OUTPUT")
		l.wait("it to recover", func() bool { _, err := l.command("status", "--check"); return err == nil })
		if !strings.Contains(l.shell("ipset save tailban4"), "add tailban4 203.0.113.66 timeout") {
			t.Error("the ban is not back")
		}
		d.stop(syscall.SIGTERM)
		if got := l.teardown(); !strings.Contains(got, "chain TAILBAN with sets tailban removed\n") || !strings.Contains(got, "table inet tailban removed\n") {
			t.Errorf("the teardown said %q", got)
		}
		l.wait("the end of both bans", func() bool { return attacker.get("/") == nil })
	})
}

// A teardown by another configuration also removes what the last daemon had by the
// one before: chains, sets, and what programs have put in, whose names are in no
// file but the state's.
func TestTeardownOfWhatRanLast(t *testing.T) {
	byIptables(t, func(t *testing.T, variant string) {
		l := newLab(t)
		l.write("access.log", "")
		d := l.tailban(iptablesJail(l.dir, variant, blackhole))
		l.appends(requests("GET", "198.51.100.66", "-", 51))
		l.wait("both bans", func() bool {
			return strings.Contains(l.shell("ip route show proto 116"), "198.51.100.66") && strings.Contains(l.shell("ipset save"), "add tailban4 198.51.100.66")
		})
		d.stop(syscall.SIGTERM)
		l.write("jails.toml", fmt.Sprintf("state_dir = %q\n", filepath.Join(l.dir, "state"))+commandJail(l.dir, "[actions.firewall]\ntype = \"nftables\"\n"))
		got := l.teardown()
		for _, want := range []string{"chain TAILBAN with sets tailban removed, which an earlier configuration had\n", "1 ban of action blackhole taken out\n", "there is no table inet tailban\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("the teardown does not say %q: %q", want, got)
			}
		}
		if left := l.shell("ip route show proto 116; ipset save; iptables-" + variant + " -S"); strings.Contains(left, "198.51.100.66") || strings.Contains(left, "TAILBAN") {
			t.Errorf("there is left\n%s", left)
		}
	})
}
