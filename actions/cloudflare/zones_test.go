package cloudflare_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// noZone is one that the token is not for.
const noZone = "00000000000000000000000000000001"

// TestOneZoneRefused is that a zone that the token is not for keeps no other from its
// rule, wherever it is named.
func TestOneZoneRefused(t *testing.T) {
	for name, zones := range map[string][]string{"first": {noZone, fake.ZoneID}, "last": {fake.ZoneID, noZone}} {
		t.Run(name, func(t *testing.T) {
			atEdge(t, fake.Options{}, func(o *cloudflare.Options) { leased(o); o.Zones = zones }, func(e *edge) {
				e.ban("192.0.2.1/32", 1000*time.Hour)
				for range 12 {
					e.after(20 * time.Minute)
					if !e.server.Blocked(bad, time.Now()) {
						e.Fatal("the rule of the other zone has lapsed, or was never made")
					}
				}
				if n := e.requests("", noZone); n > 4*14 {
					e.Errorf("%d requests in 4 hours for what is refused", n)
				}
				if z := e.action.Lapsed(); z != noZone {
					e.Errorf("the rule of %q counts as lapsed", z)
				}
				e.said("can't be renewed", 1)
			})
		})
	}
}

// TestRuleOfLongLease is that a rule that somebody has removed, another host at its
// end perhaps, is soon made again, however long a lease is.
func TestRuleOfLongLease(t *testing.T) {
	atEdge(t, fake.Options{}, func(o *cloudflare.Options) { leased(o); o.Lease = 24 * time.Hour }, func(e *edge) {
		e.ban("192.0.2.1/32", 1000*time.Hour)
		e.after(time.Minute)
		e.server.RemoveRule(fake.ZoneID, e.server.Rules(fake.ZoneID)[0].ID)
		e.after(16 * time.Minute)
		if !e.server.Blocked(bad, time.Now()) {
			e.Error("a rule that was removed is not made again")
		}
	})
}

// TestRuleChangedByHand is that what somebody has made of the rule is put right, but for
// turning it off.
func TestRuleChangedByHand(t *testing.T) {
	for name, change := range map[string]func(*fake.Rule){
		"another action":   func(r *fake.Rule) { r.Action = "log" },
		"no deadline":      func(r *fake.Rule) { r.Expression = "(ip.src in $tailban)" },
		"a late deadline":  func(r *fake.Rule) { r.Expression = deadline(time.Now().Add(1000 * time.Hour)) },
		"an over deadline": func(r *fake.Rule) { r.Expression = deadline(time.Now().Add(-time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			atEdge(t, fake.Options{}, leased, func(e *edge) {
				e.ban("192.0.2.1/32", 2000*time.Hour)
				e.after(time.Minute)
				r := e.server.Rules(fake.ZoneID)[0]
				e.server.RemoveRule(fake.ZoneID, r.ID)
				change(&r)
				if _, err := e.server.AddForeignRule(fake.ZoneID, r); err != nil {
					e.Fatal(err)
				}
				e.after(16 * time.Minute)
				now := time.Now()
				if !e.server.Blocked(bad, now) || e.server.Blocked(bad, now.Add(2*time.Hour)) {
					e.Errorf("the rules are %+v", e.server.Rules(fake.ZoneID))
				}
			})
		})
	}
}

func deadline(t time.Time) string {
	return fmt.Sprintf("(ip.src in $tailban and http.request.timestamp.sec lt %d)", t.Unix())
}
