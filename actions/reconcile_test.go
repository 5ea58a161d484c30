//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailban/tailban/actions"
)

func TestReconcileStart(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.fake.edit("10.0.0.1/32", time.Hour)   // as it should be
		b.fake.edit("10.0.0.2/32", time.Hour)   // should be 2 h
		b.fake.edit("10.0.0.3/32", time.Hour)   // should not be
		b.fake.edit("10.0.0.4/32", 0)           // should not be for good
		b.fake.edit("10.0.0.6/32", time.Second) // ends in a moment
		b.in("10.0.0.1/32", time.Hour+time.Second)
		b.in("10.0.0.2/32", 2*time.Hour)
		b.in("10.0.0.4/32", time.Hour)
		b.in("10.0.0.5/32", time.Hour)
		b.in("10.0.0.7/32", -time.Second)
		b.start()
		b.calls("prepare list apply list")
		var added []string
		for _, e := range b.fake.adds[0] {
			added = append(added, fmt.Sprint(e.Target, " ", e.Left))
		}
		slices.Sort(added)
		want := []string{"10.0.0.2/32 2h0m0s", "10.0.0.4/32 1h0m0s", "10.0.0.5/32 1h0m0s"}
		if !slices.Equal(added, want) {
			b.Errorf("added %q, want %q", added, want)
		}
		if got := b.fake.gone[0]; len(got) != 1 || got[0] != pfx("10.0.0.3/32") {
			b.Errorf("removed %v, want 10.0.0.3/32", got)
		}
		if s := b.Stats(); s.Desired != 4 || s.Pending != 0 || s.Passes != 1 {
			b.Errorf("stats are %+v", s)
		}
		b.said("bans compared with what the action held", 1)
	})
}

func TestReconcileChanges(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.start()
		b.calls("prepare list")
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait()
		b.calls("apply")
		b.in("10.0.0.1/32", 3*time.Hour)
		synctest.Wait()
		b.calls("apply")
		if got := b.fake.left("10.0.0.1/32"); got != 3*time.Hour {
			b.Errorf("%v left, want 3h", got)
		}
		b.Delete(pfx("10.0.0.1/32"))
		synctest.Wait()
		b.calls("apply")
		if got := b.fake.left("10.0.0.1/32"); got >= 0 {
			b.Errorf("%v left after Delete", got)
		}
		if s := b.Stats(); s.Applies != 3 || s.DriftAdded+s.DriftRemoved+s.DriftCorrected != 0 {
			b.Errorf("stats are %+v", s)
		}
	})
}

// To shorten a ban into the past ends it.
func TestReconcileSetIntoThePast(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.start()
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait()
		b.in("10.0.0.1/32", 0)
		synctest.Wait()
		if got := b.fake.left("10.0.0.1/32"); got >= 0 {
			b.Errorf("%v left", got)
		}
		if s := b.Stats(); s.Desired != 0 {
			b.Errorf("%d still desired", s.Desired)
		}
	})
}

func TestReconcileHangingApply(t *testing.T) {
	f := &fake{}
	reconciling(t, f, func(b *bench) {
		hang := make(chan struct{})
		f.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
			<-hang
			return nil
		}})
		b.start()
		b.in("10.0.0.0/32", time.Hour)
		synctest.Wait()
		for i := range 1000 { // none of this may block
			b.in(fmt.Sprintf("10.0.%d.%d/32", 1+i/250, i%250), time.Hour)
		}
		b.Delete(pfx("10.0.0.0/32"))
		if s := b.Stats(); s.Pending != 1001 {
			b.Errorf("%d changes pending, want 1001", s.Pending)
		}
		synctest.Wait()
		b.calls("prepare list apply")
		close(hang)
		synctest.Wait()
		b.calls("apply") // all in one
		if got := len(b.fake.adds[1]); got != 1000 {
			b.Errorf("%d additions in the batch, want 1000", got)
		}
		if got := b.fake.left("10.0.0.0/32"); got >= 0 {
			b.Error("a ban deleted while its Apply hung is in force")
		}
	})
}

// Cancellation reaches an Apply that hangs, and is success.
func TestReconcileCancelledWhileApplying(t *testing.T) {
	f := &fake{script: script{onApply: func(ctx context.Context, _ []actions.Entry, _ []netip.Prefix) error {
		<-ctx.Done()
		return ctx.Err()
	}}}
	reconciling(t, f, func(b *bench) {
		b.in("10.0.0.1/32", time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- b.Reconciler.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run returned %v", err)
		}
		b.said("not enforced", 0)
	})
}

// A ban that comes just before the end is still enforced, unless the action has
// been failing: that must not hold up the end.
func TestReconcileEndAppliesWhatIsPending(t *testing.T) {
	f := &fake{}
	reconciling(t, f, func(b *bench) {
		hang := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- b.Reconciler.Run(ctx) }()
		synctest.Wait()
		f.interfere(script{onApply: func(ctx context.Context, add []actions.Entry, _ []netip.Prefix) error {
			if len(add) == 1 && add[0].Target == pfx("10.0.0.1/32") {
				<-hang
			}
			return nil
		}})
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait() // it hangs
		b.in("10.0.0.2/32", time.Hour)
		cancel()
		close(hang)
		if err := <-done; err != nil {
			b.Errorf("Run returned %v", err)
		}
		if f.left("10.0.0.2/32") <= 0 {
			b.Error("the last ban is not in force")
		}
	})
	f = &fake{script: script{onPrepare: func() error { return errors.New("broken") }}}
	reconciling(t, f, func(b *bench) {
		b.in("10.0.0.1/32", time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- b.Reconciler.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run returned %v", err)
		}
		b.calls("prepare")
	})
}

func TestReconcileBackoff(t *testing.T) {
	broken := errors.New("no route to host")
	f := &fake{}
	reconciling(t, f, func(b *bench) {
		f.interfere(script{onPrepare: func() error { return broken }})
		start := time.Now()
		b.start()
		b.in("10.0.0.1/32", 24*time.Hour)
		b.after(10 * time.Minute)
		tries := strings.Fields(f.took())
		// 250 ms doubled up to a minute, each shortened by at most a half,
		// is between 16 and 32 tries in ten minutes.
		if len(tries) < 14 || len(tries) > 34 {
			b.Errorf("%d tries in 10 minutes", len(tries))
		}
		b.said("bans are not enforced", 1)
		b.said("no route to host", 1)
		s := b.Stats()
		if !s.Failing || !errors.Is(s.Err, broken) || !s.Since.Equal(start) {
			b.Errorf("failing %t since %v with %v", s.Failing, s.Since, s.Err)
		}
		f.interfere(script{})
		b.after(2 * time.Minute)
		b.said("bans are enforced again", 1)
		if s := b.Stats(); s.Failing || s.Err != nil || s.DriftAdded != 0 {
			b.Errorf("stats are %+v, want a pending change and no drift", s)
		}
		if b.fake.left("10.0.0.1/32") < 23*time.Hour {
			b.Error("what was set during the failure is not in force")
		}
		if got := *b.states; len(got) != 2 || !got[0].Failing || got[1].Failing {
			b.Errorf("states told: %+v", got)
		}
		// The next failure begins with the short pause.
		f.took()
		fails := 1
		f.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
			if fails--; fails < 0 {
				return nil
			}
			return broken
		}})
		b.in("10.0.0.2/32", time.Hour)
		b.after(time.Second)
		b.calls("apply prepare list apply list")
		b.said("bans are not enforced", 2)
		if s := b.Stats(); s.DriftAdded != 0 {
			b.Errorf("a change whose first Apply failed is counted as drift: %+v", s)
		}
	})
}

func TestReconcilePermanentError(t *testing.T) {
	f := &fake{script: script{onList: func() error { return actions.Permanent(errors.New("not allowed")) }}}
	reconciling(t, f, func(b *bench) {
		b.start()
		b.after(29 * time.Second)
		b.calls("prepare list")
		b.after(10 * time.Minute)
		if tries := strings.Count(f.took(), "list"); tries < 10 || tries > 21 {
			b.Errorf("%d tries in 10 minutes, want one for each 30 s to 60 s", tries)
		}
		b.said("not allowed", 1)
	})
}

func TestReconcileDrift(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.start()
		for i := range 4 {
			b.in(fmt.Sprintf("10.0.0.%d/32", i), 10*time.Hour)
		}
		synctest.Wait()
		b.fake.edit("10.0.0.0/32", -1)
		b.fake.edit("10.0.0.1/32", time.Hour)
		b.fake.edit("10.0.0.2/32", 0)
		b.fake.edit("10.0.9.9/32", time.Hour)
		b.after(actions.DefaultInterval)
		for i := range 4 {
			if got := b.fake.left(fmt.Sprintf("10.0.0.%d/32", i)); got < 9*time.Hour {
				b.Errorf("10.0.0.%d has %v left", i, got)
			}
		}
		if got := b.fake.left("10.0.9.9/32"); got >= 0 {
			b.Error("a ban that nobody asked for is still there")
		}
		s := b.Stats()
		if s.DriftAdded != 1 || s.DriftCorrected != 2 || s.DriftRemoved != 1 {
			b.Errorf("drift: %d added, %d corrected, %d removed; want 1, 2, 1", s.DriftAdded, s.DriftCorrected, s.DriftRemoved)
		}
		b.said("repaired", 1)
		b.fake.took()
		b.after(actions.DefaultInterval)
		b.calls("prepare list") // nothing left to do
	})
}

func TestReconcileTolerance(t *testing.T) {
	tests := []struct {
		want, has time.Duration
		corrected bool
	}{
		{time.Minute, time.Minute + 2*time.Second, false},
		{time.Minute, time.Minute - 2*time.Second, false},
		{time.Minute, time.Minute + 3*time.Second, true},
		{time.Minute, time.Minute - 3*time.Second, true},
		{100 * time.Hour, 101 * time.Hour, false},
		{100 * time.Hour, 102 * time.Hour, true},
		{100 * time.Hour, 98 * time.Hour, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v for %v", tt.has, tt.want), func(t *testing.T) {
			reconciling(t, &fake{}, func(b *bench) {
				b.in("10.0.0.1/32", tt.want)
				b.fake.edit("10.0.0.1/32", tt.has)
				b.start()
				if got := strings.Contains(b.fake.took(), "apply"); got != tt.corrected {
					b.Errorf("corrected: %t, want %t", got, tt.corrected)
				}
			})
		})
	}
}

// The action lets bans go by itself: no call is needed, and what is a moment
// late is not drift.
func TestReconcileExpiry(t *testing.T) {
	reconciling(t, &fake{}, func(b *bench) {
		b.start()
		b.in("10.0.0.1/32", 29*time.Second)
		synctest.Wait()
		b.fake.edit("10.0.0.1/32", 31*time.Second) // within what is tolerated
		b.fake.took()
		b.after(actions.DefaultInterval)
		b.calls("prepare list")
		b.after(actions.DefaultInterval)
		b.calls("prepare list")
		if s := b.Stats(); s.Desired != 0 || s.DriftRemoved != 0 {
			b.Errorf("stats are %+v", s)
		}
	})
}

func TestReconcileRejected(t *testing.T) {
	refuse := func(_ context.Context, add []actions.Entry, _ []netip.Prefix) error {
		for _, e := range add {
			if e.Target == pfx("10.0.0.1/32") {
				return &actions.RejectedError{Rejected: []actions.Rejection{
					{Target: e.Target, Err: fmt.Errorf("%w: the gateway", actions.ErrProtected)},
				}}
			}
		}
		return nil
	}
	f := &fake{script: script{onApply: refuse}}
	reconciling(t, f, func(b *bench) {
		b.start()
		b.in("10.0.0.1/32", time.Hour)
		b.after(5 * actions.DefaultInterval)
		b.in("10.0.0.1/32", 2*time.Hour)
		b.after(5 * actions.DefaultInterval)
		b.said("ban refused", 1)
		b.said("the gateway", 1)
		s := b.Stats()
		if s.Failing || s.Rejected != 1 || s.DriftAdded != 0 || s.Pending != 0 {
			b.Errorf("stats are %+v, want one rejection and no failure", s)
		}
		// What protects it may end: then it is banned after all.
		f.interfere(script{})
		b.after(actions.DefaultInterval)
		if got := b.fake.left("10.0.0.1/32"); got < time.Hour {
			b.Errorf("%v left after the protection has ended", got)
		}
		b.Delete(pfx("10.0.0.1/32"))
		f.interfere(script{onApply: refuse})
		b.in("10.0.0.1/32", time.Hour)
		b.after(time.Second)
		b.said("ban refused", 2)
	})
}

// Changes beyond the cap are not lost: a full pass finds them.
func TestReconcilePendingCap(t *testing.T) {
	const many = 1<<17 + 10
	f := &fake{}
	reconciling(t, f, func(b *bench) {
		b.start()
		until := time.Now().Add(time.Hour)
		hang := make(chan struct{})
		f.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { <-hang; return nil }})
		b.in("192.0.2.2/32", time.Hour)
		synctest.Wait()
		for i := range many {
			a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			b.Set(netip.PrefixFrom(a, 32), until)
		}
		if s := b.Stats(); s.Pending != 1<<17 || s.Lost != 10 {
			b.Errorf("%d pending, %d lost", s.Pending, s.Lost)
		}
		close(hang)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := len(f.held); got != many+1 {
			b.Errorf("%d bans in force, want %d", got, many+1)
		}
	})
}

// Whatever happens in whatever order, in the end the action holds what should
// be in force.
func TestReconcileConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			kind   string
			target int
			left   time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				kind:   rapid.SampledFrom([]string{"set", "delete", "edit", "lose", "fail", "wait"}).Draw(rt, "kind"),
				target: rapid.IntRange(0, 5).Draw(rt, "target"),
				left:   time.Duration(rapid.IntRange(1, 7200).Draw(rt, "left")) * time.Second,
			}
		}), 0, 40).Draw(rt, "steps")
		var wrong string
		reconciling(t, &fake{}, func(b *bench) {
			desired := map[string]time.Time{}
			var fails atomic.Int32
			fail := func() error {
				if fails.Add(-1) >= 0 {
					return errors.New("scripted")
				}
				fails.Store(0)
				return nil
			}
			b.fake.interfere(script{
				onPrepare: fail,
				onApply:   func(context.Context, []actions.Entry, []netip.Prefix) error { return fail() },
			})
			b.start()
			for _, s := range steps {
				target := fmt.Sprintf("10.0.0.%d/32", s.target)
				switch s.kind {
				case "set":
					desired[target] = time.Now().Add(s.left)
					b.Set(pfx(target), desired[target])
				case "delete":
					delete(desired, target)
					b.Delete(pfx(target))
				case "edit":
					b.fake.edit(target, s.left)
				case "lose":
					b.fake.edit(target, -1)
				case "fail":
					fails.Store(int32(s.target))
				case "wait":
					b.after(s.left / 10)
				}
			}
			b.after(5 * time.Minute)
			now := time.Now()
			for i := range 6 {
				target := fmt.Sprintf("10.0.0.%d/32", i)
				got, want := b.fake.left(target), desired[target].Sub(now)
				if want <= 0 && got > 0 || want > 0 && (got-want).Abs() > 2*time.Second+want/100 {
					wrong = fmt.Sprintf("%s has %v left, want %v", target, got, want)
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
