//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// mergeBench is a Merger before a reconciler that runs on a fake.
type mergeBench struct {
	*bench
	merger    *actions.Merger
	protected map[netip.Prefix]string
}

func (b *mergeBench) guarded(target netip.Prefix) (string, bool) {
	for p, reason := range b.protected {
		if p.Overlaps(target) {
			return reason, true
		}
	}
	return "", false
}

func merging(t *testing.T, least int, a actions.Action, f *fake, test func(b *mergeBench)) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		logger := slog.New(slog.NewTextHandler(log, nil))
		b := &mergeBench{protected: map[netip.Prefix]string{}}
		r := actions.NewReconciler(actions.Options{Name: "test", Action: a, Log: logger})
		b.bench = &bench{T: t, Reconciler: r, fake: f, log: log}
		o := actions.MergeOptions{Name: "test", Least: least, Enforcer: r, Protected: b.guarded, Log: logger}
		o.Bounded, _ = a.(actions.Bounded)
		b.merger = actions.NewMerger(o)
		test(b)
	})
}

// ban bans for some time from now.
func (b *mergeBench) ban(target string, left time.Duration) {
	b.merger.Set(pfx(target), time.Now().Add(left))
}

// now waits for the effect, and compares what is held: "TARGET LEFT", by target.
func (b *mergeBench) now(want ...string) {
	b.Helper()
	synctest.Wait()
	b.fake.mu.Lock()
	var got []string
	for target, until := range b.fake.held {
		if left := time.Until(until); left > 0 {
			got = append(got, fmt.Sprint(target, " ", left))
		}
	}
	b.fake.mu.Unlock()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("held are\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}

// A network takes the place of all members but those that end last, and ends
// when too few are left.
func TestMerge(t *testing.T) {
	f := &fake{}
	merging(t, 3, f, f, func(b *mergeBench) {
		b.start()
		b.ban("10.0.0.1/32", 1*time.Hour)
		b.ban("10.0.0.2/32", 2*time.Hour)
		b.ban("10.0.1.3/32", 2*time.Hour) // of another network
		b.ban("10.0.0.1/32", 90*time.Minute)
		b.now("10.0.0.1/32 1h30m0s", "10.0.0.2/32 2h0m0s", "10.0.1.3/32 2h0m0s")
		b.ban("10.0.0.3/32", 3*time.Hour)
		b.now("10.0.0.0/24 1h30m0s", "10.0.0.2/32 2h0m0s", "10.0.0.3/32 3h0m0s", "10.0.1.3/32 2h0m0s")
		b.ban("10.0.0.4/32", 30*time.Minute) // ends first
		b.now("10.0.0.0/24 1h30m0s", "10.0.0.2/32 2h0m0s", "10.0.0.3/32 3h0m0s", "10.0.1.3/32 2h0m0s")
		b.ban("10.0.0.5/32", 150*time.Minute)
		b.now("10.0.0.0/24 2h0m0s", "10.0.0.3/32 3h0m0s", "10.0.0.5/32 2h30m0s", "10.0.1.3/32 2h0m0s")
		b.ban("10.0.0.1/32", 4*time.Hour) // one that was covered is banned for longer
		b.now("10.0.0.0/24 2h30m0s", "10.0.0.1/32 4h0m0s", "10.0.0.3/32 3h0m0s", "10.0.1.3/32 2h0m0s")
		if s := b.merger.Stats(); s.Networks != 1 || s.Members != 5 || s.Merges != 1 || s.Splits != 0 {
			b.Errorf("stats %+v", s)
		}
		if s := b.Stats(); s.Desired != 6 || s.Pending != 0 || s.DriftAdded+s.DriftRemoved+s.DriftCorrected != 0 {
			b.Errorf("the reconciler's are %+v", s)
		}
		for addr, want := range map[string]bool{"10.0.0.1": true, "10.0.0.77": true, "10.0.1.3": false, "10.0.2.1": false, "2001:db8::": false} {
			if n, ok := b.merger.Network(netip.MustParseAddr(addr)); ok != want || ok && (n.Network != pfx("10.0.0.0/24") || n.Members != 5) {
				b.Errorf("%s is in %+v (%v)", addr, n, ok)
			}
		}
		b.after(151 * time.Minute)
		b.now("10.0.0.1/32 1h29m0s", "10.0.0.3/32 29m0s")
		b.said("network banned as one", 1)
		b.merger.Recheck()
		b.said("no longer banned as one", 1)
		b.ban("10.0.0.9/32", time.Hour) // three again
		b.now("10.0.0.0/24 29m0s", "10.0.0.1/32 1h29m0s", "10.0.0.9/32 1h0m0s")
	})
}

// IPv6 networks of /64 are merged as a /48, and nothing else is a member.
func TestMerge6(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.start()
		b.ban("2001:db8:1:1::/64", time.Hour)
		b.ban("2001:db8:1:2::1/128", time.Hour)
		b.ban("2001:db8:2::/64", time.Hour)
		b.now("2001:db8:1:1::/64 1h0m0s", "2001:db8:1:2::1/128 1h0m0s", "2001:db8:2::/64 1h0m0s")
		b.ban("2001:db8:1:ffff::/64", 2*time.Hour)
		b.now("2001:db8:1::/48 1h0m0s", "2001:db8:1:2::1/128 1h0m0s", "2001:db8:1:ffff::/64 2h0m0s", "2001:db8:2::/64 1h0m0s")
	})
}

// Whoever is let go is not hit again as part of the network before all others
// are free as well.
func TestMergeSplitByDelete(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.start()
		for i := range 4 {
			b.ban(fmt.Sprintf("10.0.0.%d/32", i+1), time.Hour)
		}
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.4/32 1h0m0s")
		b.merger.Delete(pfx("10.0.0.99/32")) // nobody
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.4/32 1h0m0s")
		b.merger.Delete(pfx("10.0.0.2/32"))
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.3/32 1h0m0s", "10.0.0.4/32 1h0m0s")
		b.said("banned one by one", 1)
		b.after(30 * time.Minute)
		b.merger.Recheck()
		b.ban("10.0.0.5/32", time.Hour)
		b.merger.Recheck()
		b.now("10.0.0.1/32 30m0s", "10.0.0.3/32 30m0s", "10.0.0.4/32 30m0s", "10.0.0.5/32 1h0m0s")
		b.after(31 * time.Minute) // 5 is left, who was there with those before
		b.merger.Recheck()
		b.ban("10.0.0.6/32", time.Minute)
		b.now("10.0.0.5/32 29m0s", "10.0.0.6/32 1m0s")
		b.after(30 * time.Minute)
		b.ban("10.0.0.7/32", time.Hour)
		b.ban("10.0.0.2/32", time.Hour)
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.7/32 1h0m0s")
		if got := b.merger.Spared(pfx("10.0.0.2/32")); !got.IsZero() {
			b.Errorf("spared until %v", got)
		}
	})
}

// A neighbour is let go who was never banned; and what is spared at the start is
// so however many bans are set then.
func TestMergeSpare(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.merger.Spare(pfx("10.0.9.77/32"), time.Now().Add(-time.Minute))
		b.ban("10.0.9.1/32", 2*time.Hour)
		b.ban("10.0.9.2/32", 2*time.Hour)
		b.start()
		b.merger.Recheck()
		b.now("10.0.9.1/32 2h0m0s", "10.0.9.2/32 2h0m0s")
		if got := time.Until(b.merger.Spared(pfx("10.0.9.77/32"))); got != 2*time.Hour {
			b.Errorf("spared for %v, want until the bans there end", got)
		}
		b.ban("10.0.0.1/32", time.Hour)
		b.ban("10.0.0.2/32", time.Hour)
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.9.1/32 2h0m0s", "10.0.9.2/32 2h0m0s")
		b.merger.Spare(pfx("10.0.0.77/32"), time.Now().Add(3*time.Hour)) // forgiven for as long
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.9.1/32 2h0m0s", "10.0.9.2/32 2h0m0s")
		b.after(2*time.Hour + time.Minute)
		b.merger.Recheck()
		b.ban("10.0.0.3/32", time.Minute)
		b.ban("10.0.0.4/32", time.Minute)
		b.ban("10.0.9.3/32", time.Minute)
		b.ban("10.0.9.4/32", time.Minute)
		b.now("10.0.0.3/32 1m0s", "10.0.0.4/32 1m0s", "10.0.9.0/24 1m0s", "10.0.9.4/32 1m0s")
		b.after(time.Hour)
		b.merger.Recheck()
		b.ban("10.0.0.3/32", time.Minute)
		b.ban("10.0.0.4/32", time.Minute)
		b.now("10.0.0.0/24 1m0s", "10.0.0.4/32 1m0s")
	})
}

// A network that is banned for its own sake splits those it overlaps.
func TestMergeBesideANetworkByHand(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.start()
		b.ban("10.0.0.1/32", time.Hour)
		b.ban("10.0.0.2/32", time.Hour)
		b.ban("10.0.1.1/32", time.Hour)
		b.ban("10.0.1.2/32", time.Hour)
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.1.0/24 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.ban("10.0.0.16/28", time.Minute) // inside
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.16/28 1m0s", "10.0.0.2/32 1h0m0s", "10.0.1.0/24 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.ban("10.0.0.3/32", 2*time.Hour)
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.16/28 1m0s", "10.0.0.2/32 1h0m0s", "10.0.0.3/32 2h0m0s", "10.0.1.0/24 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.ban("10.0.0.0/16", 2*time.Minute) // around
		b.merger.Delete(pfx("10.0.0.16/28"))
		b.merger.Recheck()
		b.now("10.0.0.0/16 2m0s", "10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.0.3/32 2h0m0s", "10.0.1.1/32 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.after(2 * time.Minute)
		b.merger.Recheck() // over
		b.now("10.0.0.0/24 58m0s", "10.0.0.3/32 1h58m0s", "10.0.1.0/24 58m0s", "10.0.1.2/32 58m0s")
		b.ban("10.0.1.0/24", 5*time.Hour) // the very same
		b.now("10.0.0.0/24 58m0s", "10.0.0.3/32 1h58m0s", "10.0.1.0/24 5h0m0s", "10.0.1.1/32 58m0s", "10.0.1.2/32 58m0s")
		if as := b.fake.as; len(as) != 1 || as[pfx("10.0.0.0/24")] != 2 {
			b.Errorf("held as merged: %v", as)
		}
		b.after(time.Hour)
		b.now("10.0.0.3/32 58m0s", "10.0.1.0/24 4h0m0s")
	})
}

// Who is protected is not hit: from the start, and when that comes later.
func TestMergeProtected(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.protected[pfx("10.0.0.200/32")] = "own address"
		b.start()
		b.ban("10.0.0.1/32", time.Hour)
		b.ban("10.0.0.2/32", time.Hour)
		b.ban("10.0.1.1/32", time.Hour)
		b.ban("10.0.1.2/32", time.Hour)
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.1.0/24 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.protected = map[netip.Prefix]string{pfx("10.0.1.200/32"): "the gateway"}
		b.merger.Recheck()
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.1.1/32 1h0m0s", "10.0.1.2/32 1h0m0s")
		b.said(`reason="the gateway"`, 1)
		b.protected = map[netip.Prefix]string{pfx("10.0.0.0/30"): "allowed"}
		b.ban("10.0.0.3/32", time.Hour) // noticed by the next ban
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.0.3/32 1h0m0s", "10.0.1.1/32 1h0m0s", "10.0.1.2/32 1h0m0s")
	})
}

// crowdedNetworks is a fake with room for two networks.
type crowdedNetworks struct{ *fake }

func (c crowdedNetworks) Room(target netip.Prefix) (string, int) {
	if target.Addr().Is4() && target.Bits() < 32 {
		return "net4", 2
	}
	return "", 0
}

// Where there is no room for a network its members are banned one by one, and
// networks by hand go first.
func TestMergeWithoutRoom(t *testing.T) {
	f := &fake{}
	merging(t, 2, crowdedNetworks{f}, f, func(b *mergeBench) {
		b.start()
		for n := range 3 {
			b.ban(fmt.Sprintf("10.0.%d.1/32", n), time.Duration(n+1)*time.Hour)
			b.ban(fmt.Sprintf("10.0.%d.2/32", n), time.Duration(n+1)*time.Hour)
		}
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.1.0/24 2h0m0s", "10.0.1.2/32 2h0m0s", "10.0.2.1/32 3h0m0s", "10.0.2.2/32 3h0m0s")
		b.ban("10.9.0.0/16", time.Minute)
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.1.0/24 2h0m0s", "10.0.1.2/32 2h0m0s", "10.0.2.1/32 3h0m0s", "10.0.2.2/32 3h0m0s", "10.9.0.0/16 1m0s")
		b.after(time.Minute)
		b.merger.Recheck() // the first that is looked at
		synctest.Wait()
		networks := 0
		for _, held := range b.held() {
			if strings.HasSuffix(held, "/24") {
				networks++
			}
		}
		if s := b.Stats(); networks != 2 || s.Evicted != 0 || b.merger.Stats().Networks != 2 {
			b.Errorf("%d networks are held, %+v", networks, s)
		}
	})
}

// Members keep their own bans until the network is really in force, and get them
// back when it is not.
func TestMergeRefused(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.start()
		refuse := func(err error) {
			f.interfere(script{onApply: func(_ context.Context, add []actions.Entry, _ []netip.Prefix) error {
				for _, e := range add {
					if e.Merged > 0 {
						return err
					}
				}
				return nil
			}})
		}
		refuse(errors.New("broken"))
		b.ban("10.0.0.1/32", time.Hour)
		b.ban("10.0.0.2/32", time.Hour)
		b.ban("10.0.0.3/32", time.Hour)
		synctest.Wait()
		if b.Stats().State.Err == nil {
			b.Error("nothing failed")
		}
		f.interfere(script{})
		b.after(5 * time.Minute)
		b.now("10.0.0.0/24 55m0s", "10.0.0.3/32 55m0s")
		f.edit("10.0.0.0/24", -1) // as another program would
		refuse(&actions.RejectedError{Rejected: []actions.Rejection{{Target: pfx("10.0.0.0/24"), Err: actions.ErrOverlaps}}})
		b.after(5 * time.Minute)
		synctest.Wait()
		if got := b.fake.left("10.0.0.1/32"); got != 50*time.Minute {
			b.Errorf("a member is banned for %v", got)
		}
	})
}

// What an earlier process has left, and whose members are not known, goes on to
// its end, unless somebody in it is let go.
func TestMergeInherit(t *testing.T) {
	f := &fake{}
	merging(t, 3, f, f, func(b *mergeBench) {
		for _, n := range []string{"10.0.0.0/24", "10.0.1.0/24"} {
			f.edit(n, time.Hour)
			f.as = map[netip.Prefix]int{pfx("10.0.0.0/24"): 3, pfx("10.0.1.0/24"): 3}
			b.merger.Inherit(pfx(n), time.Now().Add(time.Hour))
		}
		b.ban("10.0.0.1/32", 2*time.Hour)
		b.start()
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.1/32 2h0m0s", "10.0.1.0/24 1h0m0s")
		b.merger.Spare(pfx("10.0.1.1/32"), time.Now())
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.1/32 2h0m0s")
		b.ban("10.0.0.2/32", 3*time.Hour)
		b.ban("10.0.0.3/32", 3*time.Hour)
		b.now("10.0.0.0/24 2h0m0s", "10.0.0.2/32 3h0m0s", "10.0.0.3/32 3h0m0s")
		b.after(2 * time.Hour)
		b.now("10.0.0.2/32 1h0m0s", "10.0.0.3/32 1h0m0s")
	})
}

// A restart finds its networks in force and changes nothing.
func TestMergeFound(t *testing.T) {
	f := &fake{}
	merging(t, 2, f, f, func(b *mergeBench) {
		b.start()
		for i := range 5 {
			b.ban(fmt.Sprintf("10.0.0.%d/32", i+1), time.Hour)
		}
		synctest.Wait()
	})
	merging(t, 2, f, f, func(b *mergeBench) {
		for i := range 5 {
			b.ban(fmt.Sprintf("10.0.0.%d/32", i+1), time.Hour)
		}
		f.took()
		f.adds, f.gone = nil, nil
		b.start()
		b.after(time.Hour - 5*time.Minute)
		if len(f.adds)+len(f.gone) > 0 {
			b.Errorf("added %v, removed %v", f.adds, f.gone)
		}
	})
	merging(t, 3, f, f, func(b *mergeBench) { // one more stays by itself
		f.held, f.as = map[netip.Prefix]time.Time{}, map[netip.Prefix]int{pfx("10.0.0.0/24"): 2}
		f.edit("10.0.0.0/24", time.Hour)
		for i := range 5 {
			b.ban(fmt.Sprintf("10.0.0.%d/32", i+1), time.Hour)
		}
		b.start()
		b.now("10.0.0.0/24 1h0m0s", "10.0.0.4/32 1h0m0s", "10.0.0.5/32 1h0m0s")
		if got := f.as[pfx("10.0.0.0/24")]; got != 3 {
			b.Errorf("it is held as of %d members at least, want 3", got)
		}
	})
	merging(t, 6, f, f, func(b *mergeBench) { // more are asked for now
		f.edit("10.0.0.0/24", time.Hour)
		f.as[pfx("10.0.0.0/24")] = 2
		for i := range 5 {
			b.ban(fmt.Sprintf("10.0.0.%d/32", i+1), time.Hour)
		}
		b.start()
		b.now("10.0.0.1/32 1h0m0s", "10.0.0.2/32 1h0m0s", "10.0.0.3/32 1h0m0s", "10.0.0.4/32 1h0m0s", "10.0.0.5/32 1h0m0s")
	})
}
