//go:build linux

package actions_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// toldStates are those that a reconciler tells of.
type toldStates struct {
	mu     sync.Mutex
	states []actions.State
}

func (t *toldStates) add(s actions.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states = append(t.states, s)
}

func (t *toldStates) all() []actions.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.states)
}

// Whoever was told that an action fails is told when another reconciler has it
// work, once; and not that it fails again.
func TestSuccessorOfOneThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fa := &fake{}
		var told toldStates
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: fa, Failed: true,
			OnState: told.add,
		})
		b := &bench{T: t, Reconciler: r, fake: fa}
		b.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if states := told.all(); len(states) != 1 || states[0].Failing || states[0].Since.IsZero() {
			t.Errorf("states told: %+v", states)
		}
		broken := errors.New("broken")
		fa.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error { return broken }})
		r.Set(netip.MustParsePrefix("192.0.2.1/32"), time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		fa.interfere(script{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if states := told.all(); len(states) != 3 || !states[1].Failing || states[2].Failing {
			t.Errorf("states told: %+v", states)
		}
	})
}

// What somebody fought for with another reconciler is contested until there was a
// calm while: to begin anew is no reason to say that it is over.
func TestSuccessorOfOneThatWasContested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told toldStates
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: &fake{}, Contested: true, Interval: time.Second,
			OnState: told.add,
		})
		b := &bench{T: t, Reconciler: r, fake: &fake{}}
		b.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.Stats(); !s.Contested || s.Since.IsZero() || len(told.all()) != 0 {
			t.Errorf("after a minute: %+v, told %+v", s.State, told.all())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if states := told.all(); len(states) != 1 || states[0].Contested {
			t.Errorf("told %+v", states)
		}
	})
}
