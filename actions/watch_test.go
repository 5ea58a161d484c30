//go:build linux

package actions_test

import (
	"context"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// guarded is a table that a reconciler keeps and watches.
type guarded struct {
	*testing.T
	ns         *netlab.NS
	action     *actions.Nftables
	reconciler *actions.Reconciler
	other      *nftables.Conn // somebody else's
}

// guard has a reconciler keep a table whose interval is too long to matter.
func guard(t *testing.T, opt actions.NftablesOptions, bans ...string) *guarded {
	t.Helper()
	return guardWith(t, func(*actions.Nftables) {}, opt, bans...)
}

// guardWith is guard with an action that is changed before it is used.
func guardWith(t *testing.T, change func(*actions.Nftables), opt actions.NftablesOptions, bans ...string) *guarded {
	t.Helper()
	g := &guarded{T: t, ns: newNS(t)}
	g.action = newNftables(t, g.ns, opt)
	change(g.action)
	g.reconciler = actions.NewReconciler(actions.Options{Name: "test", Action: g.action, Interval: time.Hour})
	for _, b := range bans {
		g.reconciler.Set(pfx(b), time.Now().Add(time.Hour))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- g.reconciler.Run(ctx) }()
	go func() { done <- g.reconciler.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	var err error
	g.other, err = nftables.New(nftables.WithNetNSFd(g.ns.FD()))
	check(t, err)
	g.until("the bans are in force and watched over", func() bool {
		s := g.reconciler.Stats()
		return s.Passes > 0 && s.Watched && g.holds(bans...)
	})
	g.settled()
	return g
}

// settled waits for the passes of the beginning, and returns how many they were:
// what is asked for behind them is done behind them, by itself or by the last.
func (g *guarded) settled() uint64 {
	g.Helper()
	extra := pfx("192.0.2.250/32")
	held := func() bool {
		_, yes, err := g.action.Held(g.Context(), extra)
		return err == nil && yes
	}
	g.reconciler.Set(extra, time.Now().Add(time.Hour))
	g.until("settled", held)
	g.reconciler.Delete(extra)
	g.until("settled again", func() bool { return !held() && g.reconciler.Stats().Pending == 0 })
	return g.reconciler.Stats().Passes
}

func (g *guarded) until(what string, ok func() bool) {
	g.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			g.Fatalf("%s: not in time (%+v)", what, g.reconciler.Stats())
		}
		<-tick.C
	}
}

// holds reports whether the kernel holds exactly these bans.
func (g *guarded) holds(bans ...string) bool {
	entries, err := g.action.List(g.Context())
	if err != nil || len(entries) != len(bans) {
		return false
	}
	held := map[string]bool{}
	for _, e := range entries {
		held[e.Target.String()] = e.Left > 50*time.Minute
	}
	for _, b := range bans {
		if !held[b] {
			return false
		}
	}
	return true
}

// right reports whether rules and bans are as they should be, to somebody else.
func (g *guarded) right(bans ...string) bool {
	rules, err := g.other.GetRules(ourTable, ourChain)
	return err == nil && len(rules) == 7 && g.holds(bans...)
}

func addressElement(a string, timeout time.Duration) []nftables.SetElement {
	return []nftables.SetElement{{Key: netip.MustParseAddr(a).AsSlice(), Timeout: timeout}}
}

// What others do to the table is repaired when the kernel tells of it, long
// before the interval is over.
func TestWatchRepairsAtOnce(t *testing.T) {
	bans := []string{"192.0.2.1/32", "2001:db8:0:1::/64", "203.0.113.0/24"}
	for _, c := range []struct {
		name   string
		damage func(g *guarded)
		drift  func(s actions.Stats) bool
	}{
		{"the ruleset flushed", func(g *guarded) { g.other.FlushRuleset() }, func(s actions.Stats) bool { return s.DriftAdded == 3 }},
		{"our table deleted", func(g *guarded) { g.other.DelTable(ourTable) }, func(s actions.Stats) bool { return s.DriftAdded == 3 }},
		{"rules flushed", func(g *guarded) { g.other.FlushChain(ourChain) }, nil},
		{"the chain deleted", func(g *guarded) {
			g.other.FlushChain(ourChain)
			g.other.DelChain(ourChain)
		}, nil},
		{"a rule in front", func(g *guarded) {
			g.other.InsertRule(&nftables.Rule{Table: ourTable, Chain: ourChain})
		}, nil},
		{"a ban deleted", func(g *guarded) {
			check(g.T, g.other.SetDeleteElements(ourBan4, addressElement("192.0.2.1", 0)))
		}, func(s actions.Stats) bool { return s.DriftAdded == 1 }},
		{"a ban of another time", func(g *guarded) {
			check(g.T, g.other.SetDeleteElements(ourBan4, addressElement("192.0.2.1", 0)))
			check(g.T, g.other.SetAddElements(ourBan4, addressElement("192.0.2.1", time.Minute)))
		}, func(s actions.Stats) bool { return s.DriftCorrected == 1 }},
		{"a ban that isn't ours", func(g *guarded) {
			check(g.T, g.other.SetAddElements(ourBan4, addressElement("192.0.2.77", time.Hour)))
		}, func(s actions.Stats) bool { return s.DriftRemoved == 1 }},
		{"a set flushed", func(g *guarded) { g.other.FlushSet(ourBan4) }, func(s actions.Stats) bool { return s.DriftAdded == 1 }},
		{"the networks flushed", func(g *guarded) { g.other.FlushSet(ourNet4) }, func(s actions.Stats) bool { return s.DriftAdded == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard(t, actions.NftablesOptions{}, bans...)
			c.damage(g)
			began := time.Now()
			check(t, g.other.Flush())
			g.until("repaired", func() bool {
				s := g.reconciler.Stats()
				return s.Noticed > 0 && (c.drift == nil || c.drift(s)) && g.right(bans...)
			})
			t.Logf("repaired after %v", time.Since(began))
		})
	}
}

// What we do ourselves is no news, nor is a ban's end, nor other tables.
func TestWatchHearsOthersOnly(t *testing.T) {
	g := guard(t, actions.NftablesOptions{})
	passes := g.settled()
	for i := range 3000 {
		g.reconciler.Set(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32), time.Now().Add(time.Hour))
	}
	g.reconciler.Set(pfx("192.0.2.1/32"), time.Now().Add(300*time.Millisecond))
	check(t, g.action.SetAllow(t.Context(), []netip.Prefix{pfx("198.51.100.1/32")}))
	other := g.other.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
	check(t, g.other.AddSet(&nftables.Set{Table: other, Name: "ban4", KeyType: nftables.TypeIPAddr}, addressElement("192.0.2.2", 0)))
	check(t, g.other.Flush())
	g.until("all are in force and one is over", func() bool {
		entries, err := g.action.List(t.Context())
		return err == nil && len(entries) == 3000 && g.reconciler.Stats().Pending == 0
	})
	if s := g.reconciler.Stats(); s.Noticed != 0 || s.Passes != passes {
		t.Errorf("%d changes by others were noticed, %d passes: want none, and %d", s.Noticed, s.Passes, passes)
	}
	// It does hear, or the test would prove nothing, and compares only what was
	// changed.
	g.other.FlushSet(ourBan4)
	check(t, g.other.Flush())
	g.until("repaired", func() bool { return g.reconciler.Stats().DriftAdded == 3000 })
	if s := g.reconciler.Stats(); s.Passes != passes {
		t.Errorf("%d passes, want %d: elements are repaired by themselves", s.Passes, passes)
	}
}

// A socket that was closed after an error is replaced by one with another
// address, whose changes are ours as well.
func TestWatchKnowsOurNextSocket(t *testing.T) {
	t.Parallel()
	g := guard(t, actions.NftablesOptions{}, "192.0.2.1/32")
	check(t, g.action.Close())
	g.reconciler.Set(pfx("192.0.2.2/32"), time.Now().Add(time.Hour)) // fails: not prepared
	g.until("connected again", func() bool { return g.holds("192.0.2.1/32", "192.0.2.2/32") })
	g.reconciler.Set(pfx("192.0.2.3/32"), time.Now().Add(time.Hour))
	g.until("banned", func() bool { return g.holds("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32") })
	if s := g.reconciler.Stats(); s.Noticed != 0 {
		t.Errorf("%d changes of our own were noticed", s.Noticed)
	}
}

// nft's own "flush ruleset", as a reload of the nftables service does it.
func TestWatchFlushByNft(t *testing.T) {
	g := guard(t, actions.NftablesOptions{}, "192.0.2.1/32")
	cmd := exec.Command("nft", "flush", "ruleset")
	check(t, g.ns.Start(cmd))
	check(t, cmd.Wait())
	g.until("repaired", func() bool { return g.right("192.0.2.1/32") })
}

// Many changes at once are more than a socket holds: everything is compared. A
// reader that is quick may keep up with them once, so they come again and again.
func TestWatchOverflow(t *testing.T) {
	g := guardWith(t, actions.HearLittle, actions.NftablesOptions{}, "192.0.2.1/32")
	passes := g.settled()
	var elements []nftables.SetElement
	for i := range 20_000 {
		elements = append(elements, nftables.SetElement{Key: []byte{10, 0, byte(i >> 8), byte(i)}, Timeout: time.Hour})
	}
	for range 20 {
		check(t, g.other.SetAddElements(ourBan4, elements))
		check(t, g.other.Flush())
		g.until("they are gone again", func() bool { return g.right("192.0.2.1/32") })
		if g.reconciler.Stats().Passes > passes {
			return
		}
	}
	t.Error("the socket held all: the test proves nothing")
}
