package daemon

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// The state file is deleted while the kernel holds bans. They stay, with
// their end, over that start and the next.
func TestBansWithoutStateAreAdopted(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	before := l.left("192.0.2.1")
	c.stop()
	check(t, os.RemoveAll(l.state))

	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 1, "took over bans that are in force and not in the state", "bans", 1)
	l.wantStillHeld("192.0.2.1", before)
	l.requests("192.0.2.1", 1)
	l.requests("192.0.2.2", 1)
	l.waitHeld("192.0.2.2")
	c.stop()
	c.journal.want(t, 0, "banned", "client", "192.0.2.1")

	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 0, "took over bans that are in force and not in the state")
	c.journal.want(t, 1, "bans compared with what the action held", "held", 2, "removed", 0, "changed", 0)
	l.wantStillHeld("192.0.2.1", before)
	c.stop()
}

// The kernel is ahead of the disk, as after a kill -9 between the two: what it
// holds is kept, and stored.
func TestBansAheadOfTheStateAreAdopted(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	c.stop()
	ahead := actions.NewNftables(actions.NftablesOptions{NetNS: l.ns.FD()})
	t.Cleanup(func() { ahead.Close() })
	check(t, ahead.Prepare(t.Context()))
	check(t, ahead.Apply(t.Context(), []actions.Entry{{Target: pfx("192.0.2.9/32"), Left: 40 * time.Minute}}, nil))

	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 1, "took over bans that are in force and not in the state", "bans", 1)
	c.journal.want(t, 1, "bans compared with what the action held", "held", 2, "removed", 0)
	l.wantStillHeld("192.0.2.9", 40*time.Minute)
	c.stop()
	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 0, "took over bans that are in force and not in the state")
	l.wantStillHeld("192.0.2.9", 40*time.Minute)
	c.stop()
}

// Each of two tables holds a ban of the same client: both stay.
func TestAdoptionFromTwoTables(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	config := l.config(firewalled + `
[actions.second]
type = "nftables"
table = "second"
`)
	c := l.daemon(config)
	second := actions.NewNftables(actions.NftablesOptions{NetNS: l.ns.FD(), Table: "second"})
	t.Cleanup(func() { second.Close() })
	heldTwice := func() bool {
		entries, err := second.List(context.Background())
		return err == nil && len(entries) == 1 && l.left("192.0.2.1") > 0
	}
	l.requests("192.0.2.1", 1)
	wait(t, "both tables to hold the ban", heldTwice)
	c.stop()
	check(t, os.RemoveAll(l.state))

	c = l.child(config, false)
	for _, action := range []string{"firewall", "second"} {
		c.waitSaid("bans compared with what the action held", "action", action, "held", 1, "removed", 0)
	}
	if !heldTwice() {
		t.Error("a table has lost the ban")
	}
}

// clockSlack is how far the kernel's clock for timeouts may be behind ours.
const clockSlack = 100 * time.Millisecond

// wantStillHeld checks that a ban is there and has not been made longer.
func (l *kernelLab) wantStillHeld(addr string, before time.Duration) {
	l.Helper()
	if left := l.left(addr); left <= before-time.Minute || left > before+clockSlack {
		l.Errorf("%s is banned for %v more, want a little less than %v", addr, left, before)
	}
}
