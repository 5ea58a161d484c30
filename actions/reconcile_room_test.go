//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailban/tailban/actions"
)

// small is a fake with room for a few IPv4 and a few IPv6 targets; others have
// no bound.
type small struct {
	*fake
	size int
}

func (s *small) Room(target netip.Prefix) (string, int) {
	switch {
	case target.Addr().Is6():
		return "six", s.size
	case target.Bits() == 32:
		return "four", s.size
	}
	return "", 0
}

func crowding(t *testing.T, size int, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		s := &small{&fake{}, size}
		log := new(bytes.Buffer)
		r := actions.NewReconciler(actions.Options{Name: "test", Action: s, Log: slog.New(slog.NewTextHandler(log, nil))})
		b := &bench{T: t, Reconciler: r, fake: s.fake, log: log}
		b.start()
		f(b)
	})
}

func (b *bench) held() (targets []string) {
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	for t, until := range b.fake.held {
		if time.Until(until) > 0 {
			targets = append(targets, t.String())
		}
	}
	slices.Sort(targets)
	return targets
}

func (b *bench) holds(want ...string) {
	b.Helper()
	slices.Sort(want)
	if got := b.held(); !slices.Equal(got, want) {
		b.Errorf("held are %v, want %v", got, want)
	}
}

// When an action is full, the bans that end soonest are left out, and come back
// when there is room.
func TestFullLeavesOutWhatEndsSoonest(t *testing.T) {
	crowding(t, 2, func(b *bench) {
		b.in("10.0.0.1/32", 1*time.Hour)
		b.in("10.0.0.2/32", 2*time.Hour)
		b.in("2001:db8::/64", time.Minute) // another place
		b.in("10.0.0.0/8", time.Minute)    // no bound
		synctest.Wait()
		b.holds("10.0.0.1/32", "10.0.0.2/32", "2001:db8::/64", "10.0.0.0/8")
		b.in("10.0.0.3/32", 3*time.Hour)
		synctest.Wait()
		b.holds("10.0.0.2/32", "10.0.0.3/32", "2001:db8::/64", "10.0.0.0/8")
		b.in("10.0.0.4/32", 30*time.Minute) // the first to go again
		synctest.Wait()
		b.holds("10.0.0.2/32", "10.0.0.3/32", "2001:db8::/64", "10.0.0.0/8")
		if s := b.Stats(); s.Evicted != 2 || s.LeftOut != 2 {
			b.Errorf("%d evicted, %d left out, want 2 and 2", s.Evicted, s.LeftOut)
		}
		b.said("the action is full", 1)

		b.Delete(pfx("10.0.0.3/32"))
		b.after(2 * time.Minute) // a full pass
		b.holds("10.0.0.1/32", "10.0.0.2/32")
		b.in("10.0.0.4/32", 5*time.Hour) // a longer ban finds room
		synctest.Wait()
		b.holds("10.0.0.2/32", "10.0.0.4/32")
		b.Delete(pfx("10.0.0.2/32"))
		b.after(time.Minute)
		b.holds("10.0.0.1/32", "10.0.0.4/32")
		b.after(time.Minute)
		b.said("room for all bans again", 1)
	})
}

// Whatever comes and goes, in force are as many bans as fit, and after a full
// pass those that end last.
func TestFullHoldsThoseThatEndLast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "size")
		type step struct {
			host, hours int
			pause       time.Duration
		}
		var steps []step
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			steps = append(steps, step{rapid.IntRange(1, 9).Draw(rt, "host"), rapid.IntRange(0, 20).Draw(rt, "hours"),
				time.Duration(rapid.IntRange(0, 90).Draw(rt, "pause")) * time.Minute})
		}
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			r := actions.NewReconciler(actions.Options{Name: "test", Action: &small{f, size}})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			want := map[netip.Prefix]time.Time{}
			for i, s := range steps {
				target := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(s.host)}), 32)
				if s.hours == 0 {
					r.Delete(target)
					delete(want, target)
				} else {
					// No two end at the same time, so that there is one answer.
					want[target] = time.Now().Add(time.Duration(s.hours)*time.Hour + time.Duration(i)*time.Second)
					r.Set(target, want[target])
				}
				synctest.Wait()
				f.mu.Lock()
				if len(f.held) > size+len(want) {
					t.Error("held without end")
				}
				f.mu.Unlock()
				time.Sleep(s.pause)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			compareEnds(t, f, want, size)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})
}

func compareEnds(t *testing.T, f *fake, want map[netip.Prefix]time.Time, size int) {
	type end struct {
		target netip.Prefix
		at     time.Time
	}
	var ends []end
	for target, at := range want {
		if time.Until(at) > 10*time.Second {
			ends = append(ends, end{target, at})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return b.at.Compare(a.at) })
	f.mu.Lock()
	defer f.mu.Unlock()
	held := 0
	for _, until := range f.held {
		if time.Until(until) > 10*time.Second {
			held++
		}
	}
	if held != min(size, len(ends)) {
		t.Errorf("%d are held, want %d", held, min(size, len(ends)))
	}
	for _, e := range ends[:min(size, len(ends))] {
		if _, ok := f.held[e.target]; !ok {
			t.Errorf("%s ends among the last and is not held", e.target)
		}
	}
}

// A cap shortens every ban at the action, and lifting it restores them.
func TestCap(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.in("10.0.0.1/32", time.Hour)
		b.in("10.0.0.2/32", time.Minute)
		b.start()
		b.Cap(time.Now().Add(10 * time.Minute))
		synctest.Wait()
		if got := b.fake.left("10.0.0.1/32"); got != 10*time.Minute {
			b.Errorf("%v left, want 10m", got)
		}
		if got := b.fake.left("10.0.0.2/32"); got != time.Minute {
			b.Errorf("%v left, want 1m", got)
		}
		b.after(5 * time.Minute)
		b.in("10.0.0.3/32", time.Hour)
		synctest.Wait()
		if got := b.fake.left("10.0.0.3/32"); got != 5*time.Minute {
			b.Errorf("%v left, want 5m", got)
		}
		b.after(6 * time.Minute)
		b.in("10.0.0.4/32", time.Hour) // beyond the cap nothing is enforced
		b.after(time.Minute)
		b.holds()
		b.Cap(time.Time{})
		synctest.Wait()
		b.holds("10.0.0.1/32", "10.0.0.3/32", "10.0.0.4/32")
		if got := b.fake.left("10.0.0.1/32"); got != 48*time.Minute {
			b.Errorf("%v left, want 48m", got)
		}
	})
}
