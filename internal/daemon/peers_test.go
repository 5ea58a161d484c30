package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// The tables of other programs that ban, in the form in which they make them.
const peersTables = `
table inet f2b-table {
	set addr-set-sshd {
		type ipv4_addr
		elements = { 198.51.100.201, 203.0.113.7 }
	}
	set addr6-set-sshd {
		type ipv6_addr
		elements = { 2001:db8:66::1 }
	}
	chain f2b-chain {
		type filter hook input priority filter - 1; policy accept;
		tcp dport 22 ip saddr @addr-set-sshd reject with icmp port-unreachable
		tcp dport 22 ip6 saddr @addr6-set-sshd reject with icmpv6 port-unreachable
	}
}
table ip crowdsec {
	set crowdsec-blacklists {
		type ipv4_addr
		flags timeout
		elements = { 203.0.113.9 timeout 4h, 203.0.113.10 timeout 10d }
	}
	chain crowdsec-chain-input {
		type filter hook input priority filter - 10; policy accept;
		ip saddr @crowdsec-blacklists counter drop
	}
	chain crowdsec-chain-forward {
		type filter hook forward priority filter - 10; policy accept;
		ip saddr @crowdsec-blacklists counter drop
	}
}
table ip6 crowdsec6 {
	set crowdsec6-blacklists {
		type ipv6_addr
		flags timeout
		elements = { 2001:db8:67::1 timeout 4h }
	}
	chain crowdsec6-chain-input {
		type filter hook input priority filter - 10; policy accept;
		ip6 saddr @crowdsec6-blacklists counter drop
	}
}
`

// What a container engine does by iptables, which keeps it in the kernel as
// tables ip nat and ip filter.
const containersRules = `
-t nat -N DOCKER
-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-t nat -A DOCKER -i docker0 -j RETURN
-t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80
-N DOCKER
-N DOCKER-USER
-N DOCKER-ISOLATION-STAGE-1
-P FORWARD DROP
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-USER -j RETURN
`

// command runs a program inside the lab; false: there is none of that name.
func (l *kernelLab) command(name string, args ...string) (out string, ok bool) {
	l.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		return "", false
	}
	var text strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &text, &text
	check(l, l.ns.Start(cmd))
	if err := cmd.Wait(); err != nil {
		l.Fatalf("%s %q: %v\n%s", name, args, err, &text)
	}
	return text.String(), true
}

// peers is the whole ruleset but for our tables.
func (l *kernelLab) peers() string {
	l.Helper()
	all := expires.ReplaceAllString(l.nft("-s", "list", "ruleset"), "")
	return ours.ReplaceAllString(all, "")
}

var ours = regexp.MustCompile(`(?ms)^table inet (tailban|edge) \{.*?^\}\n`)

// In its whole life tailban leaves the tables of others as they are, byte for
// byte: bans, repairs of what was done to its own table, reloads, restarts and
// the teardown.
func TestTablesOfOthersStay(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	l.nft("--version")
	path := filepath.Join(l.dir, "peers.nft")
	check(t, os.WriteFile(path, []byte(peersTables), 0o644))
	if out := l.nft("-f", path); out != "" {
		t.Fatal(out)
	}
	for rule := range strings.Lines(strings.TrimSpace(containersRules)) {
		if _, ok := l.command("iptables-nft", strings.Fields(rule)...); !ok {
			t.Log("without the rules of containers, as there is no iptables-nft")
			break
		}
	}
	before := l.peers()
	for _, name := range []string{"f2b-table", "crowdsec", "crowdsec6"} {
		if !strings.Contains(before, name) {
			t.Fatalf("no table %s in\n%s", name, before)
		}
	}
	same := func(when string) {
		t.Helper()
		if got := l.peers(); got != before {
			t.Errorf("%s the tables of others are\n%s\nthey were\n%s", when, got, before)
		}
	}
	c := l.daemon(l.config(firewalled))
	same("at the start")
	for _, client := range []string{"203.0.113.9", "198.51.100.201", "2001:db8:67::1", "192.0.2.1"} { // whom others ban, too
		l.requests(client, 1)
	}
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx("203.0.113.64/28"), For: 3600})
	check(t, err)
	wait(t, "the bans", func() bool { return len(l.targets()) == 5 })
	same("with bans")
	for _, damage := range []string{"delete table inet tailban", "flush set inet tailban ban4", "flush chain inet tailban prerouting"} {
		want := l.rules()
		l.nft(damage)
		wait(t, "the repair", func() bool { return l.rules() == want })
		same("after the repair of " + damage)
	}
	l.reload(l.config(firewalled + "verdict = \"reject\"\nports = \"all\"\n"))
	wait(t, "the rules", func() bool { return strings.Contains(l.rules(), "reject") })
	same("with another verdict")
	l.reload(l.config(firewalled + "table = \"edge\"\n"))
	same("with another table")
	l.reload(l.config(firewalled))
	l.waitHeld("192.0.2.1")
	check(t, c.cmd.Process.Kill())
	_ = c.wait()
	c = l.daemon(l.config(firewalled))
	_, err = l.client().Unban(t.Context(), control.UnbanRequest{All: true})
	check(t, err)
	wait(t, "the end of all bans", func() bool { return len(l.targets()) == 0 })
	same("after an unban")
	c.stop()
	same("after a stop")
	existed, err := actions.Teardown(t.Context(), actions.NftablesOptions{NetNS: l.ns.FD()})
	check(t, err)
	if !existed || l.exists("tailban") {
		t.Error("there is no table to tear down, or it is left")
	}
	same("after the teardown")
	if all := expires.ReplaceAllString(l.nft("-s", "list", "ruleset"), ""); all != before {
		t.Errorf("the ruleset is\n%s\nit was\n%s", all, before)
	}
}
