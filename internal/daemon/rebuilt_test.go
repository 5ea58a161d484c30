package daemon

import (
	"context"
	"testing"

	"github.com/tailban/tailban/actions"
)

// Somebody deletes the table. It is made again at once, and the bans in it, with
// the time that they had left.
func TestDeletedTableIsRebuilt(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.requests("192.0.2.2", 1)
	l.waitHeld("192.0.2.1")
	l.waitHeld("192.0.2.2")
	before := l.left("192.0.2.1")

	existed, err := actions.Teardown(context.Background(), actions.NftablesOptions{NetNS: l.ns.FD()})
	check(t, err)
	if !existed {
		t.Fatal("there was no table")
	}
	l.waitHeld("192.0.2.1")
	l.waitHeld("192.0.2.2")
	l.wantStillHeld("192.0.2.1", before)
	c.waitSaid("the action held other bans than it should, repaired", "added", 2)
	c.journal.want(t, 1, "banned", "client", "192.0.2.1")
}
