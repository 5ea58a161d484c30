package daemon

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/state"
)

// What the kernel holds is neither longer nor shorter when the clock is set, and
// nothing is taken for somebody else's doing.
func TestKernelKeepsItsTimeWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	var by atomic.Int64
	by.Store(int64(-56 * year))
	now := func() time.Time { return clockSetTo(t, time.Now(), time.Duration(by.Load())) }
	until := now().Add(time.Hour)
	r := actions.NewReconciler(actions.Options{Name: "test", Action: l.firewall, Interval: time.Millisecond, Now: now})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.Set(pfx("192.0.2.1/32"), until)
	l2 := &kernelLab{l.siteFiles, l.ns, actions.NewNftables(actions.NftablesOptions{NetNS: l.ns.FD()})}
	t.Cleanup(func() { l2.firewall.Close() })
	l2.waitHeld("192.0.2.1")
	passes := func(n uint64) {
		t.Helper()
		before := r.Stats().Passes
		wait(t, "passes", func() bool { return r.Stats().Passes >= before+n })
	}
	passes(2)
	before := r.Stats()
	for _, d := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		by.Store(int64(d))
		passes(2)
		l2.wantStillHeld("192.0.2.1", time.Hour)
	}
	if s := r.Stats(); s.Applies != before.Applies || s.DriftAdded+s.DriftRemoved+s.DriftCorrected != 0 || s.Failing {
		t.Errorf("setting the clock had it change something: %+v", s)
	}
	cancel()
	check(t, <-done)
}

// The clock is set back by a day while no daemon runs: what is left of a ban is
// what the kernel says, and not all of its length again.
func TestClockIsSetBackWhileStopped(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	c.stop()
	check(t, l.firewall.Prepare(t.Context()))
	check(t, l.firewall.Apply(t.Context(), []actions.Entry{{Target: pfx("192.0.2.1/32"), Left: 20 * time.Minute}}, nil)) // time has passed
	s, loaded, err := state.Open(filepath.Join(l.state, stateFile), time.Now())
	check(t, err)
	b := loaded.Bans[0]
	b.Owners[0].Since, b.Owners[0].Until = b.Owners[0].Since.Add(24*time.Hour), b.Owners[0].Until.Add(24*time.Hour)
	check(t, s.Commit(state.Update{Bans: []state.Ban{b}}))
	check(t, s.Close())

	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 1, "bans compared with what the action held", "held", 1, "changed", 0)
	l.wantStillHeld("192.0.2.1", 20*time.Minute)
	if left := time.Until(banOf(l, "192.0.2.1/32").Until); left > 20*time.Minute || left < 19*time.Minute {
		t.Errorf("the ban is said to have %v left", left)
	}
	c.stop()
}
