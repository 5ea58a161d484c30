//go:build linux

package actions_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// An action that doesn't answer is failing, which is said once, until it does;
// whichever of its methods it is in.
func TestReconcileNoAnswer(t *testing.T) {
	hang := func() error { time.Sleep(time.Minute); return nil }
	for _, c := range []struct {
		name string
		script
	}{
		{"prepare", script{onPrepare: hang}},
		{"list", script{onList: hang}},
		{"apply", script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { return hang() }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reconciling(t, &fake{script: c.script}, func(b *bench) {
				b.in("10.0.0.1/32", time.Hour)
				b.start()
				b.after(actions.DefaultPatience - time.Second)
				if b.Stats().Failing {
					t.Error("failing before its time was up")
				}
				b.after(2 * time.Second)
				if s := b.Stats(); !s.Failing || s.Err.Error() != "no answer from action test within 15s: does it hang?" {
					t.Errorf("after 16 s: failing %v, %v", s.Failing, s.Err)
				}
				b.said("no answer", 1)
				b.fake.interfere(script{})
				b.after(time.Minute)
				if s := b.Stats(); s.Failing || b.fake.left("10.0.0.1/32") <= 0 {
					t.Errorf("when it has answered: %+v", s)
				}
				if len(*b.states) != 2 || !(*b.states)[0].Failing || (*b.states)[1].Failing {
					t.Errorf("states told: %+v", *b.states)
				}
				synctest.Wait()
			})
		})
	}
}
