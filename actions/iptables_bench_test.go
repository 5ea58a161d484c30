//go:build linux

package actions_test

import (
	"net/netip"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

func benchIptables(b *testing.B) (*actions.Iptables, *netlab.NS) {
	b.Helper()
	ns, err := netlab.New()
	if err != nil {
		b.Skip("needs network namespaces: ", err)
	}
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		b.Skip("needs iptables: ", err)
	}
	a := actions.NewIptables(actions.IptablesOptions{NetNS: ns.FD(), Variant: actions.VariantNft})
	if err := a.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { a.Close(); ns.Close() })
	return a, ns
}

func burstEntries() (add []actions.Entry, remove []netip.Prefix) {
	for i := range burst {
		add = append(add, actions.Entry{Target: burstTarget(i), Left: time.Hour})
		remove = append(remove, burstTarget(i))
	}
	return add, remove
}

// 100,000 bans at once, taken back, and asked for one by one.
func BenchmarkIptablesApply(b *testing.B) {
	a, _ := benchIptables(b)
	add, remove := burstEntries()
	for b.Loop() {
		for _, step := range []struct {
			unit string
			f    func() error
		}{
			{"ms/added", func() error { return a.Apply(b.Context(), add, nil) }},
			{"ms/renewed", func() error { return a.Apply(b.Context(), add, nil) }},
			{"ms/listed", func() error { _, err := a.List(b.Context()); return err }},
			{"ms/held", func() error { _, _, err := a.Held(b.Context(), burstTarget(burst/2)); return err }},
			{"ms/prepared", func() error { return a.Prepare(b.Context()) }},
			{"ms/one-added", func() error { return a.Apply(b.Context(), add[:1], nil) }},
			{"ms/removed", func() error { return a.Apply(b.Context(), nil, remove) }},
		} {
			began := time.Now()
			if err := step.f(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, step.unit)
		}
	}
}

// 100,000 bans one by one until all are in the kernel, and a restart with them
// until they are compared.
func BenchmarkIptablesBurstAndRestart(b *testing.B) {
	for b.Loop() {
		_, ns := benchIptables(b)
		fresh := func() actions.Action {
			return actions.NewIptables(actions.IptablesOptions{NetNS: ns.FD(), Variant: actions.VariantNft})
		}
		var inForce atomic.Int64
		until := time.Now().Add(24 * time.Hour)
		r, end := runningOn(fresh(), func(begun, _ []netip.Prefix) { inForce.Add(int64(len(begun))) }, func(*actions.Reconciler) {})
		waitFor(b, func() bool { return r.Stats().Passes > 0 })
		began := time.Now()
		for i := range burst {
			r.Set(burstTarget(i), until)
		}
		waitFor(b, func() bool { return inForce.Load() == burst })
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/in-force")
		end()

		began = time.Now()
		r, end = runningOn(fresh(), nil, func(r *actions.Reconciler) {
			for i := range burst {
				r.Set(burstTarget(i), until)
			}
		})
		waitFor(b, func() bool { return r.Stats().Passes > 0 })
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/reconciled")
		if s := r.Stats(); s.Applies != 0 {
			b.Errorf("%d changes were made, want none", s.Applies)
		}
		end()
	}
}
