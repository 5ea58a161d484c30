//go:build linux

package actions_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// Who waits for what is wanted to be applied waits until the action works, and for
// what was wanted when he came.
func TestReconcilerApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fa := &fake{}
		r := actions.NewReconciler(actions.Options{Name: "test", Action: fa})
		ctx, cancel := context.WithCancel(t.Context())
		runBeside(t, r.Run)
		synctest.Wait()
		check(t, r.Applied(ctx)) // nothing is wanted
		fa.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { return errors.New("broken") }})
		r.Set(pfx("10.0.0.1/32"), time.Now().Add(time.Hour))
		done := make(chan error, 1)
		go func() { done <- r.Applied(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the action is broken, and all is applied: %v", err)
		default:
		}
		fa.interfere(script{})
		check(t, <-done)
		if _, held := fa.held[pfx("10.0.0.1/32")]; !held {
			t.Error("it is not in force")
		}
		r.Set(pfx("10.0.0.2/32"), time.Now().Add(time.Hour))
		check(t, r.Applied(ctx))
		if _, held := fa.held[pfx("10.0.0.2/32")]; !held {
			t.Error("a second one is not in force")
		}
		cancel()
		fa.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { return errors.New("broken") }})
		r.Set(pfx("10.0.0.3/32"), time.Now().Add(time.Hour))
		if err := r.Applied(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits any more: %v", err)
		}
	})
}

// Nobody waits for what has ended, and would never apply anything.
func TestReconcilerAppliedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fa := &fake{}
		fa.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { return errors.New("broken") }})
		r := actions.NewReconciler(actions.Options{Name: "test", Action: fa})
		r.Set(pfx("10.0.0.1/32"), time.Now().Add(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		done := make(chan error, 1)
		go func() { done <- r.Applied(t.Context()) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			if !errors.Is(err, actions.ErrEnded) {
				t.Errorf("who waited is told: %v", err)
			}
		default:
			t.Fatal("he waits on")
		}
		if err := r.Applied(t.Context()); !errors.Is(err, actions.ErrEnded) {
			t.Errorf("who comes later is told: %v", err)
		}
	})
}

// What somebody has taken out is put in again, whatever the action lists; what is
// not wanted is left out.
func TestReconcilerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fa := &fake{}
		r := actions.NewReconciler(actions.Options{Name: "test", Action: fa, Interval: 10 * time.Second})
		r.Set(pfx("10.0.0.1/32"), time.Now().Add(time.Hour))
		runBeside(t, r.Run)
		for range 2 { // a change alone, and within a full pass
			synctest.Wait()
			before := len(fa.adds)
			r.Again([]netip.Prefix{pfx("10.0.0.1/32"), pfx("10.0.0.2/32")})
			time.Sleep(time.Second)
			synctest.Wait()
			if got := fa.adds[before:]; len(got) != 1 || len(got[0]) != 1 || got[0][0].Target != pfx("10.0.0.1/32") {
				t.Errorf("added %v", got)
			}
			fa.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
				fa.interfere(script{})
				return errors.New("once") // so that the next pass is a full one
			}})
		}
		if s := r.Stats(); s.DriftAdded+s.DriftCorrected > 0 {
			t.Errorf("it is taken for drift: %+v", s)
		}
	})
}
