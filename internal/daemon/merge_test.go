package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
)

const mergedOf3 = firewalled + "merge = 3\n"

// holding waits until the kernel holds exactly these targets.
func (l *kernelLab) holding(want ...string) {
	l.Helper()
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(patience); ; {
		entries, err := l.firewall.List(context.Background())
		got = nil
		for _, e := range entries {
			got = append(got, e.Target.String())
		}
		slices.Sort(got)
		if err == nil && slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("the kernel holds %v (%v), want %v", got, err, want)
		}
		tick := time.NewTimer(2 * time.Millisecond)
		<-tick.C
	}
}

// offend has clients banned, one after the other, so that the last ends last.
func (l *kernelLab) offend(from, to int) {
	l.Helper()
	for n := from; n <= to; n++ {
		l.requests(fmt.Sprintf("192.0.2.%d", n), 1)
		l.waitBan(fmt.Sprintf("192.0.2.%d", n))
	}
}

func (l *kernelLab) waitBan(addr string) {
	l.Helper()
	wait(l, "the ban of "+addr, func() bool {
		bans, err := l.client().Bans(context.Background(), control.BansQuery{Overlap: pfx(addr + "/32")})
		return err == nil && len(bans.Bans) > 0
	})
}

func (l *kernelLab) explain(addr string) *control.Explanation {
	l.Helper()
	x, err := l.client().Explain(context.Background(), netip.MustParseAddr(addr))
	check(l, err)
	return x
}

// From lines in the log to a network in the kernel, and what people are told.
func TestMergedNetwork(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(mergedOf3))
	l.offend(1, 2)
	l.holding("192.0.2.1/32", "192.0.2.2/32")
	if x := l.explain("192.0.2.77"); x.Conclusion != control.Unseen {
		t.Errorf("a neighbour is %s", x.Conclusion)
	}
	l.offend(3, 4)
	l.holding("192.0.2.0/24", "192.0.2.3/32", "192.0.2.4/32")
	c.waitSaid("network banned as one, as so many of its members are banned", "network", "192.0.2.0/24", "members", 3)

	for addr, network := range map[string]netip.Prefix{"192.0.2.1": pfx("192.0.2.0/24"), "192.0.2.4": {}} {
		at := banOf(l, addr+"/32").Actions[0]
		if at.Held == nil || !*at.Held || at.Network != network || at.Packets == nil {
			t.Errorf("of %s the action is said to hold %+v", addr, at)
		}
	}
	many, err := l.client().Bans(context.Background(), control.BansQuery{})
	check(t, err)
	for _, b := range many.Bans {
		if at := b.Actions[0]; at.Held == nil || !*at.Held {
			t.Errorf("%s is not held: %+v", b.Target, at)
		}
	}
	l.write(line("192.0.2.1", time.Now().Add(2*time.Second))) // which got through another way
	wait(t, "the line", func() bool { return banOf(l, "192.0.2.1/32").Seen > 0 })
	x := l.explain("192.0.2.1")
	if x.Conclusion != control.Banned || len(x.Networks) > 0 || strings.Contains(x.Through, "removed") {
		t.Errorf("a member is %+v", x)
	}
	x = l.explain("192.0.2.77")
	if x.Conclusion != control.InNetwork || len(x.Networks) != 1 || x.Networks[0].Members != 4 || x.Networks[0].Network != pfx("192.0.2.0/24") ||
		!strings.Contains(x.Text, "as part of 192.0.2.0/24 until") || !strings.Contains(x.Text, "4 of its members are banned") {
		t.Errorf("a neighbour is %+v", x)
	}
	s, err := l.client().Status(context.Background())
	check(t, err)
	if m := s.Actions[0].Merged; m == nil || m.Networks != 1 || m.Members != 4 || s.Actions[0].Desired != 4 || s.Bans != 4 {
		t.Errorf("the status says %+v of %d bans", m, s.Actions[0].Desired)
	}

	r, err := l.client().Unban(context.Background(), control.UnbanRequest{Target: pfx("192.0.2.77/32"), Reason: "our customer"})
	check(t, err)
	if r.Lifted != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "as part of a network") {
		t.Errorf("the unban says %+v", r)
	}
	all := []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32"}
	l.holding(all...)
	c.waitSaid("network is no longer banned as one, its members are banned one by one", "network", "192.0.2.0/24")
	l.offend(5, 5)
	l.holding(append(all, "192.0.2.5/32")...)
	c.stop()

	c = l.daemon(l.config(mergedOf3)) // which remembers whom it must not hit
	l.holding(append(all, "192.0.2.5/32")...)
	c.journal.want(t, 0, "network banned as one, as so many of its members are banned")
	c.stop()
}

// What people ban and allow goes before what is banned as one.
func TestMergedNetworkAndPeople(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(mergedOf3))
	l.offend(1, 4)
	merged := []string{"192.0.2.0/24", "192.0.2.3/32", "192.0.2.4/32"}
	all := []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32"}
	l.holding(merged...)
	allow := control.AllowRequest{Target: pfx("192.0.2.200/32"), For: 3600, Reason: "our customer"}
	_, err := l.client().Allow(context.Background(), allow)
	check(t, err)
	l.holding(all...)
	c.journal.want(t, 1, "network is no longer banned as one, its members are banned one by one")
	_, err = l.client().Allow(context.Background(), control.AllowRequest{Target: allow.Target, End: true})
	check(t, err)
	l.holding(merged...)
	_, err = l.client().Ban(context.Background(), control.BanRequest{Target: pfx("192.0.2.128/28"), For: 1800, Reason: "by hand"})
	check(t, err)
	l.holding(append(all, "192.0.2.128/28")...)
	l.offend(5, 5)
	l.holding(append(all, "192.0.2.128/28", "192.0.2.5/32")...)
	c.stop()
	c = l.daemon(l.config(mergedOf3))
	c.journal.want(t, 1, "bans compared with what the action held", "held", 6, "removed", 0, "changed", 0)
	l.holding(append(all, "192.0.2.128/28", "192.0.2.5/32")...)
	c.stop()
}

// A restart goes on with its networks, and takes over none as a ban.
func TestMergedNetworkOverARestart(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(mergedOf3))
	l.offend(1, 6)
	merged := []string{"192.0.2.0/24", "192.0.2.5/32", "192.0.2.6/32"}
	l.holding(merged...)
	c.stop()
	l.holding(merged...)

	c = l.daemon(l.config(mergedOf3))
	c.journal.want(t, 0, "took over bans that are in force and not in the state")
	c.journal.want(t, 1, "bans compared with what the action held", "held", 3, "removed", 0, "changed", 0)
	l.holding(merged...)
	c.stop()
	if n := len(l.stored().Bans); n != 6 {
		t.Errorf("%d bans are stored, want 6", n)
	}

	c = l.daemon(l.config(firewalled + "merge = 7\n"))
	c.journal.want(t, 0, "took over bans that are in force and not in the state")
	l.holding("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32", "192.0.2.6/32")
	_, err := l.client().Unban(context.Background(), control.UnbanRequest{Target: pfx("192.0.2.6/32"), Reason: "mistake"})
	check(t, err)
	l.holding("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32")
	c.stop()
	if n := len(l.stored().Bans); n != 5 {
		t.Errorf("%d bans are stored, want 5", n)
	}
}

// A reload switches it on and off, and changes how many it takes.
func TestMergeByReload(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	l.offend(1, 4)
	all := []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32"}
	l.holding(all...)
	before := l.left("192.0.2.1")
	for _, x := range []struct {
		config, change string
		want           []string
	}{
		{mergedOf3, "merge 0 → 3", []string{"192.0.2.0/24", "192.0.2.3/32", "192.0.2.4/32"}},
		{firewalled + "merge = 2\n", "merge 3 → 2", []string{"192.0.2.0/24", "192.0.2.4/32"}},
		{firewalled + "merge = 5\n", "merge 2 → 5", all},
		{mergedOf3, "merge 5 → 3", []string{"192.0.2.0/24", "192.0.2.3/32", "192.0.2.4/32"}},
		{firewalled, "merge 3 → 0", all},
	} {
		if got := l.reload(l.config(x.config)); strings.Join(got.Changes, "") != "actions.firewall: "+x.change {
			t.Errorf("changes: %q", got.Changes)
		}
		l.holding(x.want...)
	}
	l.wantStillHeld("192.0.2.1", before)
	c.stop()
}

// Killed at any instant around a merge, a daemon leaves nothing that outlives the
// members' bans, and the next has all members banned and the network merged.
func TestKilledAroundAMerge(t *testing.T) {
	t.Parallel()
	for i, pause := range []time.Duration{0, 1, 2, 4, 8, 20} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			l := newKernelLab(t)
			c := l.daemon(l.config(mergedOf3))
			l.offend(1, 2)
			l.write(line("192.0.2.3", time.Now()), line("192.0.2.4", time.Now()), line("192.0.2.5", time.Now()))
			wait(t, "the network", func() bool {
				_, held, err := l.firewall.Held(context.Background(), pfx("192.0.2.0/24"))
				return held && err == nil
			})
			<-time.After(pause * time.Millisecond)
			check(t, c.cmd.Process.Kill())
			_ = c.wait() // it was killed
			entries, err := l.firewall.List(context.Background())
			check(t, err)
			for _, e := range entries {
				if e.Left > time.Hour {
					t.Errorf("%s is banned for %v", e.Target, e.Left)
				}
			}

			c = l.daemon(l.config(mergedOf3))
			for n := 1; n <= 5; n++ {
				l.waitBan(fmt.Sprintf("192.0.2.%d", n))
			}
			wait(t, "the network and two members", func() bool {
				entries, err := l.firewall.List(context.Background())
				return err == nil && len(entries) == 3 && slices.ContainsFunc(entries, func(e actions.Entry) bool {
					return e.Target == pfx("192.0.2.0/24") && e.Merged == 3
				})
			})
			bans, err := l.client().Bans(context.Background(), control.BansQuery{})
			check(t, err)
			if len(bans.Bans) != 5 {
				t.Errorf("there are %d bans: %+v", len(bans.Bans), bans.Bans)
			}
			_, err = l.client().Unban(context.Background(), control.UnbanRequest{Target: pfx("192.0.2.2/32")})
			check(t, err)
			l.holding("192.0.2.1/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32")
			c.stop()
			if n := len(l.stored().Bans); n != 4 {
				t.Errorf("%d bans are stored, want 4", n)
			}
		})
	}
}

// The state file is gone, and with it the members that a network covers. It goes
// on to its end, as nobody's ban, and can be split.
func TestMergedNetworkWithoutItsMembers(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(mergedOf3))
	l.offend(1, 5)
	merged := []string{"192.0.2.0/24", "192.0.2.4/32", "192.0.2.5/32"}
	l.holding(merged...)
	c.stop()
	check(t, os.RemoveAll(l.state))
	check(t, os.Truncate(l.log, 0)) // or the lines would ban them again

	c = l.daemon(l.config(mergedOf3))
	c.journal.want(t, 1, "took over bans that are in force and not in the state", "bans", 2)
	c.journal.want(t, 1, "bans compared with what the action held", "held", 3, "removed", 0, "changed", 0)
	l.holding(merged...)
	if x := l.explain("192.0.2.1"); x.Conclusion != control.InNetwork {
		t.Errorf("a member that is not known is %s", x.Conclusion)
	}
	c.stop()
	c = l.daemon(l.config(mergedOf3))
	l.holding(merged...)
	_, err := l.client().Unban(context.Background(), control.UnbanRequest{Target: pfx("192.0.2.1/32")})
	check(t, err)
	l.holding("192.0.2.4/32", "192.0.2.5/32")
	c.stop()
	c = l.daemon(l.config(mergedOf3))
	l.holding("192.0.2.4/32", "192.0.2.5/32")
	c.stop()
}

// If networks are not merged any more, one whose members are lost is a ban like
// any other that the kernel holds and the state doesn't.
func TestMergedNetworkOfADaemonThatMerged(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	c.stop()
	ahead := actions.NewNftables(actions.NftablesOptions{NetNS: l.ns.FD()})
	t.Cleanup(func() { ahead.Close() })
	check(t, ahead.Prepare(t.Context()))
	check(t, ahead.Apply(t.Context(), []actions.Entry{
		{Target: pfx("192.0.2.0/24"), Left: 30 * time.Minute, Merged: 2}, {Target: pfx("192.0.2.9/32"), Left: 40 * time.Minute},
		{Target: pfx("198.51.100.0/24"), Left: 30 * time.Minute, Merged: 2},
		{Target: pfx("198.51.100.1/32"), Left: 40 * time.Minute}, {Target: pfx("198.51.100.2/32"), Left: 40 * time.Minute},
	}, nil))
	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 1, "took over bans that are in force and not in the state", "bans", 4)
	l.holding("192.0.2.0/24", "192.0.2.9/32", "198.51.100.1/32", "198.51.100.2/32")
	if b := banOf(l, "192.0.2.77/32"); time.Until(b.Until) > 30*time.Minute {
		t.Errorf("the network is banned until %v", b.Until)
	}
	c.stop()
}

// Pardons are kept for as long as they keep a network from being merged.
func TestPardonKeepsANetworkApart(t *testing.T) {
	r := newRig(t, start{config: site + enforced, actions: []string{"firewall"}})
	m := actions.NewMerger(actions.MergeOptions{Least: 2, Enforcer: &nobody{}})
	r.mergers["firewall"], r.reconciler["firewall"] = m, m
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		m.Set(pfx(a+"/32"), r.now.Add(48*time.Hour))
	}
	_, err := r.unban(release{target: pfx("192.0.2.9/32"), forgive: time.Minute}, r.now)
	check(t, err)
	r.took()
	r.forgetPardons(r.now.Add(24 * time.Hour))
	if len(r.pardons.keys) != 1 || len(r.update.Pardons) != 1 || r.update.Pardons[0].Keep.Before(r.now.Add(47*time.Hour)) {
		t.Errorf("kept are %v, to be stored %v", r.pardons.keys, r.update.Pardons)
	}
	r.forgetPardons(r.now.Add(49 * time.Hour))
	if len(r.pardons.keys) != 0 || len(r.update.ForgetPardons) != 1 {
		t.Errorf("kept are %v", r.pardons.keys)
	}
}

// Networks are looked at again as soon as others are protected.
func TestProtectedInANetwork(t *testing.T) {
	r := newRig(t, start{config: site + enforced, actions: []string{"firewall"}})
	m := actions.NewMerger(actions.MergeOptions{Least: 2, Enforcer: &nobody{}, Protected: r.guard.Protected})
	r.mergers["firewall"], r.reconciler["firewall"] = m, m
	m.Set(pfx("192.0.2.1/32"), r.now.Add(time.Hour))
	m.Set(pfx("192.0.2.2/32"), r.now.Add(time.Hour))
	r.liftProtected(r.now)
	if m.Stats().Networks != 1 {
		t.Fatal("nothing is merged")
	}
	r.guard.UpdateNames([]guard.Entry{{Prefix: pfx("192.0.2.9/32"), Reason: "allowed: office.example.net"}})
	r.liftProtected(r.now)
	if m.Stats().Networks != 0 {
		t.Error("the network is still banned as one")
	}
}

// nobody bans nobody.
type nobody struct{}

func (nobody) Set(netip.Prefix, time.Time)            {}
func (nobody) Delete(netip.Prefix)                    {}
func (nobody) SetMerged(netip.Prefix, time.Time, int) {}
func (nobody) SetCovered(netip.Prefix, time.Time)     {}
