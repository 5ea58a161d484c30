package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// client asks the lab's daemon.
func (l *kernelLab) client() *control.Client { return control.NewClient(l.runtime()) }

// reload has the lab's daemon go on with another configuration.
func (l *kernelLab) reload(config string) *control.ReloadResult {
	l.Helper()
	check(l, os.WriteFile(filepath.Join(l.dir, "jails.toml"), []byte(config), 0o644))
	r, err := l.client().Reload(context.Background())
	check(l, err)
	return r
}

// nft is what nft prints inside the namespace.
func (l *kernelLab) nft(args ...string) string {
	l.Helper()
	path, err := exec.LookPath("nft")
	if err != nil {
		l.Skip("needs nft")
	}
	var out strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	check(l, l.ns.Start(cmd))
	_ = cmd.Wait() // what it says is looked at
	return out.String()
}

// table looks at another table of the lab.
func (l *kernelLab) table(t *testing.T, name string) *kernelLab {
	other := *l
	other.firewall = actions.NewNftables(actions.NftablesOptions{NetNS: l.ns.FD(), Table: name})
	t.Cleanup(func() { other.firewall.Close() })
	return &other
}

// exists reports whether a table does.
func (l *kernelLab) exists(name string) bool {
	l.Helper()
	return strings.Contains(l.nft("list", "tables"), "table inet "+name+"\n")
}

func banOf(l *kernelLab, target string) control.Ban {
	l.Helper()
	bans, err := l.client().Bans(context.Background(), control.BansQuery{Overlap: pfx(target)})
	check(l, err)
	if len(bans.Bans) != 1 {
		l.Fatalf("bans of %s: %+v", target, bans.Bans)
	}
	return bans.Bans[0]
}

// Other ports: the rule changes, and the bans stay as they are.
func TestReloadOfPorts(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	got := l.reload(l.config(firewalled + "ports = [8080]\n"))
	if strings.Join(got.Changes, "") != "actions.firewall: ports [80 443] → [8080]" {
		t.Errorf("changes: %q", got.Changes)
	}
	wait(t, "the rule", func() bool { return strings.Contains(l.nft("list", "table", "inet", "tailban"), "8080") })
	l.wantStillHeld("192.0.2.1", before)
	if strings.Contains(l.nft("list", "table", "inet", "tailban"), "443") {
		t.Error("the rule before is still there")
	}
	l.requests("192.0.2.2", 1)
	l.waitHeld("192.0.2.2")
	c.stop()
	c.journal.want(t, 1, "banned", "client", "192.0.2.1")
	l.wantStillHeld("192.0.2.1", before)
}

// Another table: it takes over the bans, and the one before is gone.
func TestReloadOfATable(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	l.reload(l.config(firewalled + "table = \"edge\"\n"))
	edge := l.table(t, "edge")
	edge.waitHeld("192.0.2.1")
	edge.wantStillHeld("192.0.2.1", before)
	if l.exists("tailban") {
		t.Error("the table before is still there")
	}
	l.requests("192.0.2.2", 1)
	edge.waitHeld("192.0.2.2")
	// And back: the lock of each table goes with it.
	l.reload(l.config(firewalled))
	l.waitHeld("192.0.2.1")
	l.waitHeld("192.0.2.2")
	if l.exists("edge") {
		t.Error("the second table is still there")
	}
	other := newSite(t, filepath.Join(l.dir, "state")) // a daemon beside it, on the table that is free
	second := &kernelLab{other, l.ns, edge.firewall}
	d := second.child(second.config(firewalled+"table = \"edge\"\n"), false)
	d.waitSaid("bans compared with what the action held")
	d.stop()
	c.stop()
}

const secondAction = `
[actions.second]
type = "nftables"
table = "second"
reconcile = "1s"
`

// A new action takes the bans of the jails that name it; one that is gone leaves
// nothing behind, and the others go on.
func TestReloadOfActions(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	one := l.config(firewalled)
	both := l.config(firewalled + secondAction) // a jail that names none has all
	c := l.daemon(one)
	second := l.table(t, "second")
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")

	if got := l.reload(both); strings.Join(got.Changes, ", ") != "jails.web: actions firewall → firewall, second, actions.second: new" {
		t.Errorf("changes: %q", got.Changes)
	}
	second.waitHeld("192.0.2.1")
	second.wantStillHeld("192.0.2.1", before)
	l.wantStillHeld("192.0.2.1", before)
	if b := banOf(l, "192.0.2.1/32"); strings.Join(b.Owners[0].Actions, " ") != "firewall second" || len(b.Actions) != 2 {
		t.Errorf("with both: %+v", b)
	}

	l.reload(one)
	if second.exists("second") {
		t.Error("the table of the action that is gone is still there")
	}
	l.wantStillHeld("192.0.2.1", before)
	if b := banOf(l, "192.0.2.1/32"); strings.Join(b.Owners[0].Actions, " ") != "firewall" || len(b.Actions) != 1 {
		t.Errorf("with one: %+v", b)
	}

	// A jail that doesn't name it: only what comes by the one that does.
	l.reload(l.config(strings.Replace(firewalled, "limit = 0", "limit = 0\nactions = \"firewall\"", 1) + secondAction + `
[jails.other]
limit = 0
window = "60s"
ban = "1h"
where = { path = "/other" }
`))
	l.write(strings.Replace(line("192.0.2.9", time.Now()), "GET /", "GET /other", 1))
	second.waitHeld("192.0.2.9")
	if second.left("192.0.2.1") != 0 {
		t.Error("an action got a ban of a jail that doesn't name it")
	}
	l.wantStillHeld("192.0.2.1", before)
	c.stop()
}

// A ban by hand goes on at the action that takes the place of its own.
func TestReloadMovesBansByHand(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx("192.0.2.64/28"), For: 3600})
	check(t, err)
	renamed := l.config(strings.Replace(firewalled, "actions.firewall", "actions.edge", 1) + "table = \"edge\"\n")
	l.reload(renamed)
	edge := l.table(t, "edge")
	wait(t, "the network", func() bool {
		entries, err := edge.firewall.List(context.Background())
		return err == nil && len(entries) == 1 && entries[0].Target == pfx("192.0.2.64/28")
	})
	if b := banOf(l, "192.0.2.64/28"); strings.Join(b.Owners[0].Actions, " ") != "edge" {
		t.Errorf("%+v", b)
	}
	c.stop()
}

// No jail enforces any more: the kernel is let go of, bans and all.
func TestReloadToObserve(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	l.reload("mode = \"observe\"\n" + l.config(firewalled))
	if l.exists("tailban") {
		t.Error("the table is still there")
	}
	if b := banOf(l, "192.0.2.1/32"); !b.Observed {
		t.Errorf("%+v", b)
	}
	l.requests("192.0.2.2", 1)
	c.waitSaid("would be banned (observe)", "client", "192.0.2.2")
	l.reload(l.config(firewalled))
	l.requests("192.0.2.3", 1)
	l.waitHeld("192.0.2.3")
	c.stop()
}

// Who is allowed reaches the kernel: by the configuration, and by hand.
func TestAllowReachesKernel(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(`allow = ["192.0.2.1"]` + "\n" + l.config(firewalled))
	passes := func(address string) bool {
		return strings.Contains(l.nft("list", "set", "inet", "tailban", "allow4"), address)
	}
	want := func(yes bool, addresses ...string) {
		t.Helper()
		for _, a := range addresses {
			wait(t, a, func() bool { return passes(a) == yes })
		}
	}
	want(true, "192.0.2.1")
	l.reload(`allow = ["192.0.2.2", "198.51.100.0/24"]` + "\n" + l.config(firewalled))
	want(true, "192.0.2.2", "198.51.100.0/24")
	want(false, "192.0.2.1")

	_, err := l.client().Allow(t.Context(), control.AllowRequest{Target: pfx("192.0.2.3/32"), For: 3600})
	check(t, err)
	want(true, "192.0.2.3")
	l.reload(`allow = ["192.0.2.4"]` + "\n" + l.config(firewalled+"ports = [8080]\n")) // another action of the same table
	want(true, "192.0.2.3", "192.0.2.4")
	want(false, "192.0.2.2", "198.51.100.0/24")
	c.stop()
	c = l.daemon(`allow = ["192.0.2.4"]` + "\n" + l.config(firewalled))
	want(true, "192.0.2.3", "192.0.2.4")
	_, err = l.client().Allow(t.Context(), control.AllowRequest{Target: pfx("192.0.2.3/32"), End: true})
	check(t, err)
	want(false, "192.0.2.3")
	want(true, "192.0.2.4")
	c.stop()
}

// The signal that a service manager sends.
func TestReloadBySIGHUP(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	check(t, os.WriteFile(filepath.Join(l.dir, "jails.toml"), []byte(l.config(strings.Replace(firewalled, "limit = 0", "limit = 1", 1))), 0o644))
	check(t, c.cmd.Process.Signal(syscall.SIGHUP))
	c.waitSaid("configuration reloaded")
	l.requests("192.0.2.1", 1)
	l.requests("192.0.2.2", 2)
	l.waitHeld("192.0.2.2")
	if l.left("192.0.2.1") != 0 {
		t.Error("the limit before is still in force")
	}
	c.stop()
}
