package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// blackhole is the action of docs/configuration.md.
const blackhole = `
[actions.blackhole]
type        = "command"
ban         = ["/usr/sbin/ip", "route", "replace", "blackhole", "{prefix}", "proto", "116"]
unban       = ["/usr/sbin/ip", "route", "del", "blackhole", "{prefix}", "proto", "116"]
list        = ["/usr/sbin/ip", "-json", "-{family}", "route", "show", "type", "blackhole", "proto", "116"]
list_target = "dst"
`

func commandJail(dir, actions string) string {
	return fmt.Sprintf(`
[logs.site]
files = %q
[jails.web]
limit = 5
window = "60s"
ban = "1h"
`, filepath.Join(dir, "access.log")) + actions
}

// Bans are routes into nowhere, beside those of nftables: each action says for
// itself what it holds. A route that somebody takes out comes back, one that is
// nobody's goes, and when the action is gone so are its routes.
func TestBansByCommand(t *testing.T) {
	l := newLab(t)
	if _, err := os.Stat("/usr/sbin/ip"); err != nil {
		t.Skip("needs iproute2: ", err)
	}
	l.write("access.log", "")
	both := commandJail(l.dir, strings.Replace(blackhole, "list ", "reconcile   = \"1s\"\nlist ", 1)+"[actions.firewall]\ntype = \"nftables\"\n")
	d := l.tailban(both)
	const client, v6, other = "198.51.100.66", "2001:db8:77::1", "198.51.100.67"
	routes := func() string { return l.shell("ip route show proto 116; ip -6 route show proto 116") }
	routed := func(target string) bool { return strings.Contains(routes(), "blackhole "+target+" ") }
	l.appends(requests("GET", client, "-", 6), requests("GET", v6, "-", 6))
	l.wait("routes", func() bool { return routed(client) && routed("2001:db8:77::/64") })
	l.wait("the firewall", func() bool { return l.isHeld(client) })
	l.shows("explain "+client, "blackhole  holds it")
	l.run(words("explain "+client), "firewall   holds it")
	l.run(words("status"), "command", "nftables")

	l.shell("ip route del blackhole " + client + " proto 116; ip route add blackhole " + other + " proto 116")
	l.wait("what others did to be repaired", func() bool { return routed(client) && !routed(other) })
	d.stop(syscall.SIGTERM)
	if !routed(client) {
		t.Error("the ban is gone with the daemon")
	}
	d = l.tailban(both)
	l.wait("bans to be compared", func() bool { return d.said("bans compared with what the action held") == 2 })
	if got := l.teardown(); !strings.Contains(got, "2 bans of action blackhole taken out\n") {
		t.Errorf("teardown says %s", got)
	}
	l.wait("the bans to be made again, as the daemon runs", func() bool { return routed(client) && l.isHeld(client) })
	l.run(words("unban "+client), client)
	l.wait("the route to be gone", func() bool { return !routed(client) && routed("2001:db8:77::/64") })

	l.write("jails.toml", fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n", filepath.Join(l.dir, "state"), filepath.Join(l.dir, "run"))+
		commandJail(l.dir, "[actions.firewall]\ntype = \"nftables\"\n"))
	l.run(words("reload"))
	l.wait("the routes to be gone", func() bool { return routes() == "" })
}

// A program that hangs holds up its own action, not the other one.
func TestHangingCommand(t *testing.T) {
	l := newLab(t)
	l.write("access.log", "")
	program := l.write("hang", "#!/bin/sh\nexec sleep 1000\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	l.tailban(commandJail(l.dir, fmt.Sprintf("[actions.slow]\ntype = \"command\"\nban = [%[1]q]\nunban = [%[1]q]\ntimeout = \"1s\"\n[actions.firewall]\ntype = \"nftables\"\n", program)))
	l.appends(requests("GET", "198.51.100.66", "-", 6))
	l.wait("the firewall", func() bool { return l.isHeld("198.51.100.66") })
	l.shows("status", "failing")
	l.appends(requests("GET", "198.51.100.67", "-", 6))
	l.wait("the firewall again", func() bool { return l.isHeld("198.51.100.67") })
	l.run(words("explain 198.51.100.67"), "slow", "firewall  holds it")
}
