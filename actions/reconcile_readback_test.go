//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// forgetful is a fake that can be asked for one ban, and that may say it has
// taken what it has not.
type forgetful struct {
	*fake
	takes time.Duration // to tell of one
}

func (f *forgetful) Held(_ context.Context, target netip.Prefix) (actions.Entry, bool, error) {
	f.note("held")
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.fake.held[target]
	return actions.Entry{Target: target, Left: time.Until(until)}, ok, nil
}

func (f *forgetful) Apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error {
	if err := f.fake.Apply(ctx, add, remove); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for target := range f.fake.held {
		if pfx("10.9.0.0/16").Contains(target.Addr()) {
			delete(f.fake.held, target)
		}
	}
	return nil
}

// An action that says that all is in force, and isn't telling the truth, is
// found out, and said to fail.
func TestReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{fake: &fake{}}
		log := new(bytes.Buffer)
		r := actions.NewReconciler(actions.Options{Name: "test", Action: f, Log: slog.New(slog.NewTextHandler(log, nil))})
		b := &bench{T: t, Reconciler: r, fake: f.fake, log: log}
		b.start()
		b.calls("prepare list")
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait()
		b.calls("apply held")
		b.in("10.0.0.2/32", time.Hour)
		synctest.Wait()
		b.calls("apply") // a sample, not each
		b.after(2 * time.Second)
		if s := b.Stats(); s.Misheld != 0 || s.Failing {
			b.Errorf("stats are %+v", s)
		}
		b.in("10.9.0.1/32", time.Hour)
		synctest.Wait()
		b.calls("apply held prepare list apply list")
		s := b.Stats()
		if s.Misheld != 2 || !s.Failing {
			b.Errorf("stats are %+v, want it failing", s)
		}
		b.said("is not held as it should be", 1)
		b.said("1 bans are not as they were written, 10.9.0.1/32 among them", 1)
		b.Delete(pfx("10.9.0.1/32"))
		b.after(2 * time.Minute)
		if s := b.Stats(); s.Failing {
			b.Error("still failing: ", s.Err)
		}
	})
}

// An action that takes long to tell is asked more rarely.
func TestReadBackOfASlowAction(t *testing.T) {
	f := &forgetful{fake: &fake{}, takes: 100 * time.Millisecond}
	reconcilingAction(t, f.fake, f, func(b *bench) {
		b.start()
		b.calls("prepare list")
		b.in("10.0.0.1/32", time.Hour)
		b.after(time.Second)
		b.calls("apply held")
		b.in("10.0.0.2/32", time.Hour)
		b.after(3 * time.Second)
		b.calls("apply")
		b.after(2 * time.Second)
		b.in("10.0.0.3/32", time.Hour)
		b.after(time.Second)
		b.calls("apply held")
	})
}
