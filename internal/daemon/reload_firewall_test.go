package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailban/tailban/actions"
)

// wantReload reloads and fails unless that is all that has changed.
func (l *kernelLab) wantReload(config, change string) {
	l.Helper()
	if got := l.reload(config); strings.Join(got.Changes, ", ") != change || len(got.Restart) > 0 {
		l.Errorf("changes are %q, after a restart %q; want %q", got.Changes, got.Restart, change)
	}
}

// waitProtected waits until a flush of all rules leaves the table, or fails.
func (l *kernelLab) waitProtected() {
	l.Helper()
	wait(l, "the table to be protected", func() bool {
		return strings.Contains(l.nft("add", "table", "inet", "tailban"), "Operation not permitted")
	})
	l.nft("flush", "ruleset")
	if !l.exists("tailban") {
		l.Error("the table was flushed with all others")
	}
}

// The rules change, and the bans stay as they are.
func TestReloadOfVerdict(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	rejects := func() bool {
		return strings.Contains(l.nft("list", "table", "inet", "tailban"), "reject with tcp reset")
	}
	l.wantReload(l.config(firewalled+"verdict = \"reject\"\n"), "actions.firewall: verdict drop → reject")
	wait(t, "the rules", rejects)
	l.wantStillHeld("192.0.2.1", before)
	l.wantReload(l.config(firewalled), "actions.firewall: verdict reject → drop")
	wait(t, "the rules", func() bool { return !rejects() })
	l.wantStillHeld("192.0.2.1", before)
	c.stop()
	c.journal.want(t, 1, "banned", "client", "192.0.2.1")
	c.journal.want(t, 0, "bans are not enforced, trying again until they are")
}

// Protection comes and goes with a reload, and the bans with neither. What
// takes an action's place is not kept from the table by the one before.
func TestReloadOfProtection(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	plain, protected := l.config(firewalled), l.config(firewalled+"protect_table = true\n")
	c := l.daemon(plain)
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	for range 2 {
		l.wantReload(protected, "actions.firewall: protect_table false → true")
		l.waitProtected()
		l.waitHeld("192.0.2.1")
		l.wantStillHeld("192.0.2.1", before)
		l.wantReload(plain, "actions.firewall: protect_table true → false")
		l.wantStillHeld("192.0.2.1", before)
	}
	l.wantReload(protected, "actions.firewall: protect_table false → true")
	l.wantReload(l.config(firewalled+"protect_table = true\nports = [8080]\n"), "actions.firewall: ports [80 443] → [8080]")
	wait(t, "the rule", func() bool { return strings.Contains(l.nft("list", "table", "inet", "tailban"), "8080") })
	l.waitProtected()
	l.wantReload(l.config(firewalled+"protect_table = true\ntable = \"edge\"\n"), "actions.firewall: table tailban → edge, ports [8080] → [80 443]")
	edge := l.table(t, "edge")
	edge.waitHeld("192.0.2.1")
	edge.wantStillHeld("192.0.2.1", before)
	if l.exists("tailban") {
		t.Error("the table before is still there")
	}
	c.stop()
	c.journal.want(t, 0, "bans are not enforced, trying again until they are")
	c.journal.want(t, 0, "nftables ruleset was changed by somebody else, repaired")
}

// However a daemon ends, the table stays and the next one has it.
func TestProtectedTableOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	config := l.config(firewalled + "protect_table = true\n")
	c := l.daemon(config)
	l.waitProtected()
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	teardown := func() (bool, error) {
		return actions.Teardown(context.Background(), actions.NftablesOptions{NetNS: l.ns.FD()})
	}
	if _, err := teardown(); !errors.Is(err, actions.ErrTableOwned) {
		t.Errorf("beside the daemon a teardown says %v", err)
	}
	check(t, c.cmd.Process.Kill())
	_ = c.wait()
	l.wantStillHeld("192.0.2.1", before)

	c = l.daemon(config)
	l.waitProtected()
	l.wantStillHeld("192.0.2.1", before)
	l.requests("192.0.2.2", 1)
	l.waitHeld("192.0.2.2")
	c.stop()
	l.wantStillHeld("192.0.2.1", before)
	if existed, err := teardown(); err != nil || !existed {
		t.Errorf("without a daemon a teardown says %t, %v", existed, err)
	}
}
