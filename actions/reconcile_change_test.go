//go:build linux

package actions_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// listening is reconciling with what OnChange is told, as in "+10.0.0.1/32".
func listening(t *testing.T, fa *fake, f func(b *bench, told func() string)) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: fa, Log: slog.New(slog.DiscardHandler),
			OnChange: func(begun, ended []netip.Prefix) {
				for _, p := range begun {
					changes = append(changes, "+"+p.String())
				}
				for _, p := range ended {
					changes = append(changes, "-"+p.String())
				}
			},
		})
		f(&bench{T: t, Reconciler: r, fake: fa}, func() string {
			synctest.Wait()
			s := strings.Join(changes, " ")
			changes = nil
			return s
		})
	})
}

func TestReconcileOnChange(t *testing.T) {
	const a, b, c = "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"
	listening(t, &fake{}, func(x *bench, told func() string) {
		want := func(when, want string) {
			x.Helper()
			if got := told(); got != want {
				x.Errorf("%s: told %q, want %q", when, got, want)
			}
		}
		x.fake.edit(a, time.Hour)
		x.in(a, time.Hour)
		x.in(b, time.Hour)
		x.start()
		want("at the start, with one there already", "+"+b)
		x.in(a, 2*time.Hour)
		x.in(b, 2*time.Hour)
		want("extended", "")
		x.in(c, 40*time.Second)
		want("a new one", "+"+c)
		x.after(35 * time.Second)
		want("by a full pass", "")
		x.after(10 * time.Second) // and before the next one
		x.in(c, time.Minute)
		want("banned again after its end", "+"+c)
		x.fake.edit(b, -1)
		x.after(actions.DefaultInterval)
		want("removed by somebody else", "+"+b)
		x.Delete(pfx(b))
		want("unbanned", "-"+b)
		x.in(b, time.Hour)
		want("banned again", "+"+b)
	})
}

func TestReconcileOnChangeOfFailures(t *testing.T) {
	const a, b = "10.0.0.1/32", "10.0.0.2/32"
	f := &fake{}
	listening(t, f, func(x *bench, told func() string) {
		x.start()
		// All of a batch is in force, some of it or nothing: who knows.
		f.interfere(script{onApply: func(_ context.Context, add []actions.Entry, _ []netip.Prefix) error {
			f.edit(a, time.Hour)
			return errors.New("full")
		}})
		x.in(a, time.Hour)
		x.in(b, time.Hour)
		x.after(time.Minute)
		if got := told(); got != "+"+a {
			x.Errorf("told %q, want what is in force, once", got)
		}
		f.interfere(script{})
		x.after(2 * time.Minute)
		if got := told(); got != "+"+b {
			x.Errorf("told %q, want the other", got)
		}
		// A refused one is not in force.
		f.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
			return &actions.RejectedError{Rejected: []actions.Rejection{{Target: pfx("10.0.0.3/32"), Err: actions.ErrProtected}}}
		}})
		x.in("10.0.0.3/32", time.Hour)
		x.in("10.0.0.4/32", time.Hour)
		if got := told(); got != "+10.0.0.4/32" {
			x.Errorf("told %q, want what was not refused", got)
		}
		f.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
			return &actions.RejectedError{Rejected: []actions.Rejection{{Target: pfx("10.0.0.4/32"), Err: actions.ErrProtected}}}
		}})
		x.in("10.0.0.4/32", time.Hour)
		if got := told(); got != "" {
			x.Errorf("told %q of what is protected by now", got)
		}
		f.interfere(script{})
		x.in("10.0.0.4/32", time.Hour)
		if got := told(); got != "+10.0.0.4/32" {
			x.Errorf("told %q, want what is in force again", got)
		}
	})
}

// An action that keeps what it holds in memory does not list what it failed to
// add, although that may be there.
func TestReconcileRemovesWhatFailed(t *testing.T) {
	for _, first := range []bool{true, false} {
		reconciling(t, &fake{}, func(b *bench) {
			if !first {
				b.start()
			}
			b.fake.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
				return errors.New("connection lost")
			}})
			b.in("10.0.0.1/32", time.Hour)
			if first {
				b.start()
			}
			synctest.Wait()
			b.Delete(pfx("10.0.0.1/32"))
			b.fake.interfere(script{})
			time.Sleep(time.Second)
			synctest.Wait()
			if len(b.fake.gone) != 1 || len(b.fake.gone[0]) != 1 || b.fake.gone[0][0] != pfx("10.0.0.1/32") {
				b.Errorf("first pass %v: removed %v, want 10.0.0.1/32", first, b.fake.gone)
			}
		})
	}
}

// What an action gives up to remove is tried again at full passes. It is no
// failure, no drift and no end of a ban, and holds up nothing else.
func TestReconcileKept(t *testing.T) {
	const a, b, c = "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"
	f := &fake{}
	listening(t, f, func(x *bench, told func() string) {
		f.edit(a, 0)
		f.edit(b, 0)
		f.interfere(script{onApply: func(_ context.Context, _ []actions.Entry, remove []netip.Prefix) error {
			if !slices.Contains(remove, pfx(a)) {
				return nil
			}
			return &actions.RejectedError{Kept: []actions.Rejection{{Target: pfx(a), Err: actions.ErrRefused}}}
		}})
		x.start()
		if got := told(); got != "-"+b {
			x.Errorf("told %q of a removal that is given up", got)
		}
		x.after(actions.DefaultInterval)
		f.took()
		x.in(c, time.Hour)
		if synctest.Wait(); f.took() != "apply" || told() != "+"+c {
			x.Error("a new ban waits for it")
		}
		x.after(actions.DefaultInterval)
		if tried := f.gone[len(f.gone)-1]; len(tried) != 0 { // as the fake notes what went
			x.Errorf("removed %v", tried)
		}
		x.calls("prepare list apply")
		if s := x.Stats(); s.Failing || s.DriftRemoved != 1 || s.Misheld > 0 {
			x.Errorf("stats are %+v", s)
		}
		f.interfere(script{})
		x.after(actions.DefaultInterval)
		if f.left(a) >= 0 || told() != "-"+a {
			x.Error("it is not removed when it can be")
		}
		x.after(actions.DefaultInterval)
		f.edit(a, 0)
		x.after(actions.DefaultInterval)
		if s := x.Stats(); s.DriftRemoved != 2 {
			x.Errorf("it came back, and drift is %d", s.DriftRemoved)
		}
	})
}
