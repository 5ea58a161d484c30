package cloudflare_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

func leased(o *cloudflare.Options) { o.Zones, o.Lease = []string{fake.ZoneID}, time.Hour }

var (
	bad  = netip.MustParseAddr("192.0.2.1")
	good = netip.MustParseAddr("192.0.2.2")
)

// TestLease is that a ban keeps its target away as long as somebody renews the rule,
// and not longer than the lease after that.
func TestLease(t *testing.T) {
	atEdge(t, fake.Options{}, leased, func(e *edge) {
		id, err := e.server.AddForeignRule(fake.ZoneID, fake.Rule{Action: "log", Expression: "(ip.src eq 198.51.100.1)", Description: "first"})
		if err != nil {
			e.Fatal(err)
		}
		e.ban("192.0.2.1/32", 1000*time.Hour)
		e.after(time.Minute)
		for range 50 {
			if !e.server.Blocked(bad, time.Now()) || e.server.Blocked(good, time.Now()) {
				e.Fatal("the rule does not block what is in the list, and nothing else")
			}
			e.after(13 * time.Minute)
		}
		rules := e.server.Rules(fake.ZoneID)
		if len(rules) != 2 || rules[0].ID != id || rules[0].Expression != "(ip.src eq 198.51.100.1)" {
			e.Errorf("the rules are %+v", rules)
		}
		if l := e.action.Leases(); len(l) != 1 || l[0].Err != nil || time.Until(l[0].Deadline) < 30*time.Minute-15*time.Minute {
			e.Errorf("the leases are %+v", l)
		}
		if n := e.requests("PATCH", "/rules/"); n > 24 {
			e.Errorf("the rule was renewed %d times in %v, want half as often", n, 50*13*time.Minute)
		}
		e.said("no rule uses the list", 0)
		if z := e.action.Lapsed(); z != "" {
			e.Errorf("the rule of %s counts as lapsed", z)
		}
		e.end()
		gone := time.Now()
		e.after(time.Hour + time.Minute)
		if e.server.Blocked(bad, time.Now()) {
			e.Error("the rule still blocks after the deadline")
		}
		if !e.server.Blocked(bad, gone.Add(10*time.Minute)) {
			e.Error("the rule has lapsed at once")
		}
	})
}

// TestLeaseIsPutRight is what becomes of a rule that somebody changes.
func TestLeaseIsPutRight(t *testing.T) {
	atEdge(t, fake.Options{}, leased, func(e *edge) {
		e.ban("192.0.2.1/32", 1000*time.Hour)
		e.after(time.Minute)
		e.server.RemoveRule(fake.ZoneID, e.server.Rules(fake.ZoneID)[0].ID)
		e.after(16 * time.Minute)
		if !e.server.Blocked(bad, time.Now()) {
			e.Error("a rule that was removed is not made again")
		}
		e.server.FailNext("GET", "/entrypoint", fake.BadGateway)
		e.server.FailNext("PATCH", "/rules/", fake.ResetAfter)
		e.after(3 * time.Hour)
		if !e.server.Blocked(bad, time.Now()) {
			e.Error("after errors the rule is not renewed")
		}
		if n := len(e.server.Rules(fake.ZoneID)); n != 1 {
			e.Errorf("there are %d rules", n)
		}
	})
}

// TestTwoLeases is that hosts with one list have one rule.
func TestTwoLeases(t *testing.T) {
	atEdge(t, fake.Options{}, leased, func(e *edge) {
		second := &edge{T: e.T, server: e.server}
		second.start(func(o *cloudflare.Options) { leased(o); o.Instance = "web-2" })
		defer second.end()
		e.ban("192.0.2.1/32", 1000*time.Hour)
		e.after(5 * time.Hour)
		if n := len(e.server.Rules(fake.ZoneID)); n != 1 {
			e.Errorf("there are %d rules, want one", n)
		}
		e.end()
		e.after(3 * time.Hour) // the other renews it
		if !e.server.Blocked(bad, time.Now()) {
			e.Error("the rule has lapsed, although a host renews it")
		}
		if _, err := e.action.Clear(e.Context()); err != nil {
			e.Error(err)
		}
		if n := len(e.server.Rules(fake.ZoneID)); n != 0 { // the other has nothing in the list
			e.Errorf("after a teardown there are %d rules", n)
		}
		e.start(leased)
	})
}

// TestLeaseWithoutPermission is that what a token can't do for a zone keeps nothing
// from the list.
func TestLeaseWithoutPermission(t *testing.T) {
	tokens := []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{fake.ListsEdit}}}
	atEdge(t, fake.Options{Tokens: tokens}, leased, func(e *edge) {
		e.ban("192.0.2.1/32", 10*time.Hour)
		e.after(time.Minute)
		e.holds("192.0.2.1")
		l := e.action.Leases()
		if len(l) != 1 || l[0].Err == nil || !strings.Contains(l[0].Err.Error(), "Zone > Zone WAF > Edit") {
			e.Errorf("the leases are %+v", l)
		}
		e.after(time.Hour)
		if n := e.requests("", "/zones/"); n > 14 {
			e.Errorf("%d requests in an hour for what is refused", n)
		}
		e.said("can't be renewed", 1)
	})
}

// TestLeaseByTheirClock is that a host whose clock is wrong does not make the rule
// lapse, or last.
func TestLeaseByTheirClock(t *testing.T) {
	for _, skew := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			atEdge(t, fake.Options{Skew: skew}, leased, func(e *edge) {
				e.ban("192.0.2.1/32", 100*time.Hour)
				e.after(5 * time.Hour)
				there := time.Now().Add(skew)
				if !e.server.Blocked(bad, there) {
					e.Error("the rule has lapsed")
				}
				if e.server.Blocked(bad, there.Add(61*time.Minute)) {
					e.Error("the rule lasts longer than the lease")
				}
			})
		})
	}
}

// TestOff is that a rule that somebody has turned off stays off.
func TestOff(t *testing.T) {
	atEdge(t, fake.Options{}, func(o *cloudflare.Options) { leased(o); o.RuleAction = cloudflare.RuleManagedChallenge }, func(e *edge) {
		e.ban("192.0.2.1/32", 100*time.Hour)
		e.after(time.Minute)
		rule := e.server.Rules(fake.ZoneID)[0]
		if v := e.server.Decide(fake.ZoneID, fake.Visit{Addr: bad, At: time.Now()}); v.Action != "managed_challenge" {
			e.Errorf("the rule does %q", v.Action)
		}
		e.server.RemoveRule(fake.ZoneID, rule.ID)
		rule.Disabled = true
		if _, err := e.server.AddForeignRule(fake.ZoneID, rule); err != nil {
			e.Fatal(err)
		}
		e.after(3 * time.Hour)
		if got := e.server.Rules(fake.ZoneID); len(got) != 1 || !got[0].Disabled {
			e.Errorf("the rules are %+v", got)
		}
		if l := e.action.Leases()[0]; !l.Off || e.action.Lapsed() != fake.ZoneID {
			e.Errorf("the lease is %+v", l)
		}
		e.said("somebody has turned off the rule", 1)
	})
}

// TestTeardownLeavesOthers is that a teardown leaves the rule as long as another host
// has a ban in the list.
func TestTeardownLeavesOthers(t *testing.T) {
	atEdge(t, fake.Options{}, leased, func(e *edge) {
		e.ban("192.0.2.2/32", 100*time.Hour)
		e.after(time.Minute)
		e.end()
		comment := e.by("web-2", "192.0.2.1", 10*time.Hour)
		if n, err := e.action.Clear(e.Context()); n != 1 || err != nil {
			e.Errorf("%d removed, %v", n, err)
		}
		if got := e.items(); len(got) != 1 || got["192.0.2.1"] != comment || !e.server.Blocked(bad, time.Now()) {
			e.Errorf("the list holds %v, the rules are %+v", got, e.server.Rules(fake.ZoneID))
		}
		e.start(leased)
	})
}

// TestLeaseWithoutList is that a daemon that starts while Cloudflare tells nothing of
// lists renews the rule all the same: what the list has is still wanted. One without a
// rule makes none before the list is there.
func TestLeaseWithoutList(t *testing.T) {
	atEdge(t, fake.Options{}, leased, func(e *edge) {
		e.ban("192.0.2.1/32", 1000*time.Hour)
		e.after(time.Minute)
		e.end()
		for range 2000 {
			e.server.FailNext("GET", "/rules/lists", fake.BadGateway)
		}
		e.start(leased)
		e.ban("192.0.2.1/32", 999*time.Hour)
		for range 6 {
			e.after(20 * time.Minute)
			if !e.server.Blocked(bad, time.Now()) {
				e.Fatal("the rule has lapsed while a daemon runs")
			}
		}
		e.server.RemoveRule(fake.ZoneID, e.server.Rules(fake.ZoneID)[0].ID)
		e.after(20 * time.Minute)
		if n := len(e.server.Rules(fake.ZoneID)); n > 0 || e.action.Leases()[0].Err == nil {
			e.Errorf("there are %d rules for a list that nobody knows of, the lease is %+v", n, e.action.Leases()[0])
		}
		e.server.NoFaults()
		e.after(20 * time.Minute)
		if !e.server.Blocked(bad, time.Now()) {
			e.Error("the rule is not made again")
		}
	})
}
