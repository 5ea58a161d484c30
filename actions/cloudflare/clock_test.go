package cloudflare_test

import (
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestClocksApart is that a host, or a sweep, with a clock that is wrong takes out
// nothing of others that is not over, and others nothing of its.
func TestClocksApart(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		wrong := func(o *cloudflare.Options) {
			o.Instance, o.Now = "web-2", func() time.Time { return time.Now().Add(ahead) }
		}
		t.Run(ahead.String(), func(t *testing.T) {
			atEdge(t, fake.Options{}, nil, func(e *edge) {
				e.ban("192.0.2.1/32", 2*time.Hour)
				e.after(time.Minute)
				second := &edge{T: e.T, server: e.server}
				second.start(wrong)
				defer second.end()
				e.after(time.Minute)
				second.ban("192.0.2.2/32", 2*time.Hour)
				before := e.requests("DELETE", "/items")
				e.after(20 * time.Minute)
				e.holds("192.0.2.1", "192.0.2.2")
				if _, err := newAction(e.T, e.server, wrong).Sweep(e.Context()); err != nil {
					e.Error(err)
				}
				e.holds("192.0.2.1", "192.0.2.2")
				if n := e.requests("DELETE", "/items") - before; n > 0 {
					e.Errorf("%v ahead: %d removals", ahead, n)
				}
				e.after(2 * time.Hour)
				e.holds()
				if s := second.reconciler.Stats(); s.Failing || s.DriftAdded+s.DriftCorrected+s.DriftRemoved > 0 {
					e.Errorf("%v ahead: stats are %+v", ahead, s)
				}
			})
		})
	}
}

// TestSlowIsNoClock is that answers that are late don't have the clocks seem apart, nor
// bans last longer.
func TestSlowIsNoClock(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			atEdge(t, fake.Options{Slow: 25 * time.Second, Skew: skew}, nil, func(e *edge) {
				e.after(time.Second)
				e.server.SetFaults(0.3, fake.SlowAnswer)
				for i := range 60 {
					e.ban(address(i), 15*time.Minute)
					e.after(2 * time.Minute)
				}
				if s := e.reconciler.Stats(); s.Failing || s.DriftCorrected+s.Misheld > 0 {
					e.Errorf("stats are %+v", s)
				}
			})
		})
	}
}
