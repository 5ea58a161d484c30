//go:build linux

package actions_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// Two actions of ours share the first places: neither takes the other for damage,
// in whatever order they come. A rule of somebody else's above both is one.
func TestIptablesSiblings(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		other := opt
		opt.Siblings = []string{"OTHER", "THIRD"}
		other.Chain, other.Prefix, other.Ports, other.Siblings = "OTHER", "other", []uint16{22}, []string{actions.DefaultChain, "THIRD"}
		a, b := preparedIptables(t, ns, opt), preparedIptables(t, ns, other)
		for range 3 {
			check(t, a.Prepare(t.Context()))
			check(t, b.Prepare(t.Context()))
		}
		if a.Repairs()+b.Repairs() > 0 {
			t.Errorf("they take each other for damage: %d and %d repairs", a.Repairs(), b.Repairs())
		}
		do(t, ns, "iptables-"+opt.Variant+" -I INPUT 2 -p tcp --dport 25 -j ACCEPT")
		for range 3 {
			check(t, a.Prepare(t.Context()))
			check(t, b.Prepare(t.Context()))
		}
		if a.Repairs()+b.Repairs() != 1 {
			t.Errorf("a rule between them: %d and %d repairs, want one", a.Repairs(), b.Repairs())
		}
		rules := do(t, ns, "iptables-"+opt.Variant+" -S INPUT")
		if first, _, _ := strings.Cut(rules, " --dport 25 "); !strings.Contains(first, "-j TAILBAN\n") || !strings.Contains(first, "-j OTHER\n") {
			t.Errorf("a rule is not below both:\n%s", rules)
		}
	})
}

// Two daemons of ours don't know of each other, and share the first places as well.
func TestIptablesSiblingsOfAnotherDaemon(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		other := opt
		other.Chain, other.Prefix, other.Ports = "OTHER", "other", []uint16{22}
		a, b := preparedIptables(t, ns, opt), preparedIptables(t, ns, other)
		for range 3 {
			check(t, a.Prepare(t.Context()))
			check(t, b.Prepare(t.Context()))
		}
		if a.Repairs()+b.Repairs() > 0 {
			t.Errorf("they take each other for damage: %d and %d repairs", a.Repairs(), b.Repairs())
		}
	})
}

// Somebody else who wants the first place as well is backed off from, which can be
// seen, and is over when he gives up. A jump that is gone is put back at once.
func TestIptablesContested(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		a := preparedIptables(t, ns, opt)
		above := func() {
			_ = tryDo(ns, "iptables-"+opt.Variant+" -D INPUT -p tcp --dport 25 -j ACCEPT")
			do(t, ns, "iptables-"+opt.Variant+" -I INPUT -p tcp --dport 25 -j ACCEPT")
		}
		for i := range 20 {
			above()
			if a.Contested() != (i > 4) {
				t.Errorf("after %d repairs it is contested: %t", i, a.Contested())
			}
			check(t, a.Prepare(t.Context()))
		}
		if n := a.Repairs(); n < 6 || n > 9 {
			t.Errorf("%d repairs in 20 comparisons, want fewer and fewer", n)
		}
		before := a.Repairs()
		do(t, ns, "iptables-"+opt.Variant+" -D INPUT -j TAILBAN")
		check(t, a.Prepare(t.Context()))
		if a.Repairs() != before+1 || !strings.Contains(do(t, ns, "iptables-"+opt.Variant+" -S INPUT"), "ACCEPT\n-A INPUT -j TAILBAN\n") {
			t.Error("a jump that is gone is not put back first")
		}
		for i := 0; a.Contested(); i++ {
			if i > 30 {
				t.Fatal("it is contested for ever")
			}
			check(t, a.Prepare(t.Context()))
		}
	})
}

// A fight outlives a restart.
func TestIptablesContestedBefore(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		opt.Contested = true
		a := newIptables(t, newNS(t), opt)
		for i := range 9 {
			if !a.Contested() {
				t.Fatalf("it is over after %d comparisons", i)
			}
			check(t, a.Prepare(t.Context()))
		}
		check(t, a.Prepare(t.Context()))
		if a.Contested() {
			t.Error("it is contested for ever")
		}
	})
}

// contester is an action that says by itself that it is contested.
type contester struct {
	fake
	yes atomic.Bool
}

func (c *contester) Contested() bool { return c.yes.Load() }

func TestReconcileContester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []bool
		c := &contester{}
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: c, Interval: time.Second, OnState: func(s actions.State) { states = append(states, s.Contested) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for _, yes := range []bool{true, true, false, true} {
			c.yes.Store(yes)
			time.Sleep(3 * time.Second)
			if got := r.Stats().Contested; got != yes {
				t.Errorf("it is contested: %t, want %t", got, yes)
			}
		}
		cancel()
		check(t, <-done)
		if len(states) != 3 || !states[0] || states[1] || !states[2] {
			t.Errorf("told %v", states)
		}
	})
}
