//go:build linux

package actions_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// burst is how many bans the benchmarks work with.
const burst = 100_000

func burstTarget(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
}

// running is a reconciler over a table of its own, until the end.
func running(b *testing.B, ns *netlab.NS, before func(r *actions.Reconciler)) (n *actions.Nftables, r *actions.Reconciler, end func()) {
	n = actions.NewNftables(actions.NftablesOptions{NetNS: ns.FD()})
	r, end = runningOn(n, nil, before)
	return n, r, end
}

// runningOn is a reconciler over an action, which the end closes.
func runningOn(n actions.Action, changed func(begun, ended []netip.Prefix), before func(r *actions.Reconciler)) (r *actions.Reconciler, end func()) {
	r = actions.NewReconciler(actions.Options{Name: "bench", Action: n, Interval: time.Hour, OnChange: changed})
	before(r)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = r.Run(ctx); done <- struct{}{} }()
	go func() { _ = r.Watch(ctx); done <- struct{}{} }()
	return r, func() {
		cancel()
		<-done
		<-done
		n.Close()
	}
}

func waitFor(b *testing.B, ok func() bool) {
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			b.Fatal("not within a minute")
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// 100,000 bans one by one, as a storm of decisions brings them, until all are in
// the kernel.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		ns, err := netlab.New()
		if err != nil {
			b.Skip("needs network namespaces: ", err)
		}
		_, r, end := running(b, ns, func(*actions.Reconciler) {})
		waitFor(b, func() bool { return r.Stats().Passes > 0 })
		until, began := time.Now().Add(time.Hour), time.Now()
		for i := range burst {
			r.Set(burstTarget(i), until)
		}
		said := time.Since(began)
		waitFor(b, func() bool { return r.Stats().Pending == 0 })
		b.ReportMetric(float64(said.Milliseconds()), "ms/said")
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/in-force")
		end()
		ns.Close()
	}
}

// A restart with 100,000 bans that the kernel holds: until they are compared.
func BenchmarkRestart(b *testing.B) {
	ns, err := netlab.New()
	if err != nil {
		b.Skip("needs network namespaces: ", err)
	}
	defer ns.Close()
	until := time.Now().Add(24 * time.Hour)
	set := func(r *actions.Reconciler) {
		for i := range burst {
			r.Set(burstTarget(i), until)
		}
	}
	_, r, end := running(b, ns, set)
	waitFor(b, func() bool { return r.Stats().Passes > 0 && r.Stats().Pending == 0 })
	end()
	for b.Loop() {
		began := time.Now()
		_, r, end := running(b, ns, set)
		waitFor(b, func() bool { return r.Stats().Passes > 0 })
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/reconciled")
		if s := r.Stats(); s.Applies != 0 {
			b.Errorf("%d changes were made, want none", s.Applies)
		}
		end()
	}
}

// Somebody else deletes the table, with no ban in it or 100,000: until all is
// back. Each time it is another reconciler, as one that has to repair again and
// again takes its time.
func BenchmarkFlushedByOthers(b *testing.B) {
	for _, bans := range []int{0, burst} {
		b.Run(fmt.Sprint(bans), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(flushed(b, bans).Microseconds())/1000, "ms/back")
			}
		})
	}
}

func flushed(b *testing.B, bans int) time.Duration {
	ns, err := netlab.New()
	if err != nil {
		b.Skip("needs network namespaces: ", err)
	}
	defer ns.Close()
	until := time.Now().Add(24 * time.Hour)
	n, r, end := running(b, ns, func(r *actions.Reconciler) {
		for i := range bans {
			r.Set(burstTarget(i), until)
		}
	})
	defer end()
	waitFor(b, func() bool { s := r.Stats(); return s.Passes > 0 && s.Pending == 0 && s.Watched })
	before, repairs, began := r.Stats().DriftAdded, n.Stats().Repairs, time.Now()
	if _, err := actions.Teardown(b.Context(), actions.NftablesOptions{NetNS: ns.FD()}); err != nil {
		b.Fatal(err)
	}
	waitFor(b, func() bool { return r.Stats().DriftAdded >= before+uint64(bans) && n.Stats().Repairs > repairs })
	return time.Since(began)
}
