package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// iptabled is a jail that bans by iptables.
const iptabled = `
[jails.web]
limit = 0
window = "60s"
ban = "1h"
[actions.firewall]
type = "iptables"
variant = "nft"
reconcile = "1s"
`

// shell is what a program prints inside the namespace.
func (l *kernelLab) shell(line string) string {
	l.Helper()
	var out strings.Builder
	cmd := exec.Command("sh", "-c", line)
	cmd.Stdout, cmd.Stderr = &out, &out
	check(l, l.ns.Start(cmd))
	_ = cmd.Wait() // what it says is looked at
	return out.String()
}

func newIptablesLab(t *testing.T) *kernelLab {
	t.Helper()
	if testing.Short() {
		t.Skip("takes many seconds, most of them in other programs")
	}
	for _, program := range []string{"iptables-nft", "ip6tables-nft", "ipset"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs iptables and ipset: ", err)
		}
	}
	return newKernelLab(t)
}

// A reload changes what the rules are; another chain with other sets takes the
// place of the ones before, which go; what would mix the two is refused.
func TestReloadOfIptables(t *testing.T) {
	t.Parallel()
	l := newIptablesLab(t)
	l.daemon(l.config(iptabled))
	l.requests("192.0.2.1", 1)
	wait(t, "the ban", func() bool { return strings.Contains(l.shell("ipset save"), "add tailban4 192.0.2.1 ") })

	l.reload(l.config(iptabled + "ports = [8080]\nverdict = \"reject\"\n"))
	wait(t, "the rules", func() bool {
		rules := l.shell("iptables-nft -S")
		return strings.Contains(rules, "--dports 8080 ") && strings.Contains(rules, "tcp-reset") && !strings.Contains(rules, "443") && !strings.Contains(rules, "DROP")
	})
	if sets := l.shell("ipset save"); !strings.Contains(sets, "add tailban4 192.0.2.1 ") {
		t.Errorf("the ban is gone:\n%s", sets)
	}

	for want, more := range map[string]string{
		"a reload changes both or neither": "chain = \"OTHER\"\n",
		"can't follow chain \"TAILBAN\"":   "sets = \"other\"\n",
		"can't change the variant":         "",
	} {
		text := l.config(iptabled + more)
		if more == "" {
			text = strings.ReplaceAll(text, `"nft"`, `"legacy"`)
		}
		check(t, os.WriteFile(filepath.Join(l.dir, "jails.toml"), []byte(text), 0o644))
		if _, err := l.client().Reload(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", more, err, want)
		}
	}

	l.reload(l.config(iptabled + "chain = \"OTHER\"\nsets = \"other\"\n"))
	wait(t, "the other sets", func() bool { return strings.Contains(l.shell("ipset save"), "add other4 192.0.2.1 ") })
	gone := func(what string, names ...string) { // which takes a while, after the new ones are there
		t.Helper()
		wait(t, what, func() bool {
			left := l.shell("iptables-nft -S; ip6tables-nft -S; ipset save")
			return !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(left, name) })
		})
	}
	gone("the ones before to go", "TAILBAN", "tailban")

	l.reload(l.config(firewalled))
	l.waitHeld("192.0.2.1")
	gone("those of iptables to go, with nftables in their place", "OTHER", "other")
}

// Bans that only the kernel knows are taken over.
func TestAdoptFromIptables(t *testing.T) {
	t.Parallel()
	l := newIptablesLab(t)
	c := l.daemon(l.config(iptabled))
	l.requests("192.0.2.1", 1)
	wait(t, "the ban", func() bool { return strings.Contains(l.shell("ipset save"), "add tailban4 192.0.2.1 ") })
	c.stop()
	check(t, os.RemoveAll(filepath.Join(l.dir, "state")))
	c = l.daemon(l.config(iptabled))
	wait(t, "it to be taken over", func() bool {
		return len(c.journal.said("took over bans that are in force and not in the state", "action", "firewall", "bans", 1)) == 1
	})
	banOf(l, "192.0.2.1/32")
}

// iptables can't work here, as can be seen beforehand: the table before stays.
func TestReloadToIptablesThatCannotWork(t *testing.T) {
	t.Parallel()
	l := newIptablesLab(t)
	l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	l.nft("add table ip filter")
	l.nft("add chain ip filter INPUT { type filter hook input priority 0; }")
	l.nft("add rule ip filter INPUT ip saddr { 192.0.2.77, 192.0.2.78 } ct state vmap { new : drop }")
	check(t, os.WriteFile(filepath.Join(l.dir, "jails.toml"), []byte(l.config(iptabled)), 0o644))
	_, err := l.client().Reload(context.Background())
	if err == nil || !strings.Contains(err.Error(), "action firewall would not work: list the chains: ") {
		t.Errorf("the reload: %v", err)
	}
	if l.left("192.0.2.1") == 0 {
		t.Error("the ban is gone")
	}
}

// Two actions by iptables don't take each other for damage, also when one comes
// later.
func TestTwoActionsByIptables(t *testing.T) {
	t.Parallel()
	const second = "[actions.second]\ntype = \"iptables\"\nvariant = \"nft\"\nchain = \"SECOND\"\nsets = \"second\"\nports = [22]\nreconcile = \"1s\"\n"
	l := newIptablesLab(t)
	c := l.daemon(l.config(iptabled))
	l.reload(l.config(iptabled + second))
	l.requests("192.0.2.1", 1)
	wait(t, "both bans", func() bool {
		sets := l.shell("ipset save")
		return strings.Contains(sets, "add tailban4 192.0.2.1 ") && strings.Contains(sets, "add second4 192.0.2.1 ")
	})
	seen := map[string]bool{}
	wait(t, "some comparisons", func() bool {
		s, err := l.client().Status(context.Background())
		check(t, err)
		for _, a := range s.Actions {
			seen[a.Name+a.LastPass.String()] = true
		}
		return len(seen) >= 6
	})
	c.journal.want(t, 0, "iptables rules or sets were changed by somebody else, repaired")
	c.stop()
}
