//go:build linux

package actions_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// repairing is a fake whose rules others change.
type repairing struct {
	*fake
	repairs uint64 // changed while the reconciler waits
}

func (r *repairing) Repairs() uint64 { return r.repairs }

// The pause behind a full pass goes by how long looking takes, not by what setting up
// or a repair took.
func TestReconcilePauseBehindFullPasses(t *testing.T) {
	takes := func(d time.Duration) func() error { return func() error { time.Sleep(d); return nil } }
	a := &repairing{fake: &fake{script: script{onPrepare: func() error { return errors.New("not yet") }}}}
	reconcilingAction(t, a.fake, a, func(b *bench) {
		pass := func(what string, behind, took time.Duration) {
			b.Helper()
			time.Sleep(behind - time.Second)
			synctest.Wait()
			b.calls("")
			time.Sleep(time.Second + took)
			synctest.Wait()
			if b.calls("prepare list"); b.Failed() {
				b.Fatal(what)
			}
		}
		b.start()
		synctest.Wait()
		b.calls("prepare")
		a.interfere(script{onPrepare: takes(5 * time.Second)})
		time.Sleep(time.Second) // longer than the pause behind an error
		synctest.Wait()
		b.calls("prepare")
		for a.took() != "list" {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}

		a.interfere(script{onList: takes(time.Second)})
		pass("the set-up was slow", 30*time.Second, time.Second)
		pass("looking takes a second", 50*time.Second, time.Second)
		a.interfere(script{onPrepare: func() error { a.repairs++; time.Sleep(5 * time.Second); return nil }})
		pass("looking takes a second, still", 50*time.Second, 5*time.Second)
		a.interfere(script{})
		pass("the repair was slow", 30*time.Second, 0)
		pass("nothing takes any time", 30*time.Second, 0)
	})
}
