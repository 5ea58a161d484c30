package cloudflare_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// byRules has bans be access rules of the account.
func byRules(o *cloudflare.Options) { o.AccessRules = true }

// rules is what there is of access rules, by address, and the notes of each.
func (e *edge) rules(owner string) map[string]string {
	m := map[string]string{}
	for _, r := range e.server.AccessRules(owner) {
		m[r.Value] = r.Description
	}
	return m
}

// hasRules fails unless there are rules for exactly these.
func (e *edge) hasRules(owner string, want ...string) {
	e.Helper()
	got := e.rules(owner)
	if len(got) != len(want) {
		e.Errorf("the rules are %v, want %v", got, want)
	}
	for _, w := range want {
		if _, ok := got[w]; !ok {
			e.Errorf("there is no rule for %s, but %v", w, got)
		}
	}
}

// foreign puts in a rule of somebody else's.
func (e *edge) foreign(mode, target, value, notes string) (id string) {
	e.Helper()
	id, err := e.server.AddForeignAccessRule(fake.AccountID, fake.Rule{Action: mode, Target: target, Value: value, Description: notes})
	if err != nil {
		e.Fatal(err)
	}
	return id
}

// TestBansByAccessRules is what rules come of bans, and that they go at their time.
func TestBansByAccessRules(t *testing.T) {
	atEdge(t, fake.Options{FullIPv6: true}, byRules, func(e *edge) {
		e.foreign("block", "country", "T1", "by hand")
		for _, target := range []string{"192.0.2.1/32", "198.51.100.0/24", "10.1.0.0/16", "2001:db8:1:2::/64", "2001:db8:3::/48", "2001:db9::/32", "2001:db8::1/128"} {
			e.ban(target, time.Hour)
		}
		e.ban("192.0.2.2/32", 10*time.Minute)
		e.ban("192.0.2.128/25", time.Hour) // no rule can be for it
		e.after(time.Minute)
		const z = ":0000:0000:0000"
		all := []string{
			"T1", "192.0.2.1", "198.51.100.0/24", "10.1.0.0/16", "2001:0db8:0001:0002:0000" + z + "/64", "2001:0db8:0003:0000:0000" + z + "/48",
			"2001:0db9:0000:0000:0000" + z + "/32", "2001:0db8:0000:0000:0000:0000:0000:0001",
		}
		e.hasRules(fake.AccountID, append(all, "192.0.2.2")...)
		if got, want := e.rules(fake.AccountID)["192.0.2.1"], cloudflare.NewTag("web-1", time.Now().Add(59*time.Minute)); got != want {
			e.Errorf("its notes are %q, want %q", got, want)
		}
		if !e.server.Blocked(netip.MustParseAddr("2001:db8:1:2::9"), time.Now()) {
			e.Error("who is banned by a /64 is not blocked")
		}
		e.said("an access rule is for one address", 1)
		e.after(11 * time.Minute)
		e.hasRules(fake.AccountID, all...)
		e.ban("192.0.2.1/32", 3*time.Hour) // longer
		e.reconciler.Delete(prefix("10.1.0.0/16"))
		e.after(time.Minute)
		if got, want := e.rules(fake.AccountID)["192.0.2.1"], cloudflare.NewTag("web-1", time.Now().Add(179*time.Minute)); got != want {
			e.Errorf("prolonged, its notes are %q, want %q", got, want)
		}
		if _, there := e.rules(fake.AccountID)["10.1.0.0/16"]; there {
			e.Error("who was let go is still there")
		}
		e.after(4 * time.Hour)
		e.hasRules(fake.AccountID, "T1")
		if s := e.action.Stats(); s.Items != 0 || s.Others != 1 || s.Removed != 7 || s.Changes != 17 {
			e.Errorf("stats are %+v", s)
		}
	})
}

// TestAccessRulesOfOthers is that they are left alone, and counted where they ban.
func TestAccessRulesOfOthers(t *testing.T) {
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.foreign("block", "ip_range", "192.0.2.0/24", "by hand")
		e.foreign("managed_challenge", "ip_range", "198.51.100.0/24", "by hand")
		e.foreign("managed_challenge", "ip", "203.0.113.1", "by hand")
		e.foreign("whitelist", "ip", "203.0.113.2", "by hand")
		e.foreign("whitelist", "ip_range", "10.9.0.0/16", "by hand")
		e.foreign("block", "ip", "203.0.113.3", cloudflare.NewTag("web-2", time.Now().Add(30*time.Minute)))
		e.foreign("block", "ip", "203.0.113.4", cloudflare.NewTag("web-2", time.Now().Add(-time.Hour)))
		before := e.rules(fake.AccountID)
		for _, target := range []string{"192.0.2.7/32", "198.51.100.7/32", "203.0.113.1/32", "203.0.113.2/32", "10.9.8.7/32", "203.0.113.3/32"} {
			e.ban(target, time.Hour)
		}
		e.after(20 * time.Minute)
		for value, notes := range before {
			if got := e.rules(fake.AccountID)[value]; got != notes && value != "203.0.113.4" {
				e.Errorf("%s of somebody else is %q, was %q", value, got, notes)
			}
		}
		e.hasRules(fake.AccountID, "192.0.2.0/24", "198.51.100.0/24", "203.0.113.1", "203.0.113.2", "10.9.0.0/16", "203.0.113.3", "198.51.100.7")
		if s := e.action.Stats(); s.Covered != 3 || s.Items != 1 {
			e.Errorf("stats are %+v", s)
		}
		e.said("somebody allows 10.9.0.0/16 at Cloudflare", 1)
		if s := e.reconciler.Stats(); s.Rejected != 2 || s.Failing {
			e.Errorf("the reconciler says %+v", s)
		}
		// What web-2 had banned is over: web-1's rule takes its place for the rest.
		e.after(15 * time.Minute)
		if got, want := e.rules(fake.AccountID)["203.0.113.3"], cloudflare.NewTag("web-1", time.Now().Add(25*time.Minute)); got != want {
			e.Errorf("taken over, its notes are %q, want %q", got, want)
		}
	})
}

// TestAnAccessRuleThatSomebodyTakes is one whose notes somebody has changed: it is his
// from then on, even if it was not read since.
func TestAnAccessRuleThatSomebodyTakes(t *testing.T) {
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.ban("192.0.2.1/32", 5*time.Minute)
		e.ban("192.0.2.2/32", time.Hour)
		e.after(time.Minute)
		for _, value := range []string{"192.0.2.1", "192.0.2.2"} {
			e.server.EditAccessRule(fake.AccountID, value, fake.Rule{Action: "block", Description: "keep this"})
		}
		e.reconciler.Delete(prefix("192.0.2.2/32"))
		e.after(30 * time.Minute)
		e.hasRules(fake.AccountID, "192.0.2.1", "192.0.2.2")
		for value, notes := range e.rules(fake.AccountID) {
			if notes != "keep this" {
				e.Errorf("%s is %q", value, notes)
			}
		}
	})
}

// TestAnAccessRuleThatDoesSomethingElse is one of ours whose mode somebody has changed.
func TestAnAccessRuleThatDoesSomethingElse(t *testing.T) {
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.ban("192.0.2.1/32", time.Hour)
		e.after(time.Minute)
		notes := e.rules(fake.AccountID)["192.0.2.1"]
		e.server.EditAccessRule(fake.AccountID, "192.0.2.1", fake.Rule{Action: "js_challenge", Description: notes})
		e.after(11 * time.Minute)
		if got := e.server.AccessRules(fake.AccountID); len(got) != 1 || got[0].Action != "block" || got[0].Description != notes {
			e.Errorf("the rules are %+v", got)
		}
	})
}

// TestTwoHostsBanTheSame is that a rule that is there, and was not known, is found.
func TestTwoHostsBanTheSame(t *testing.T) {
	atEdge(t, fake.Options{FullIPv6: true}, byRules, func(e *edge) {
		e.ban("192.0.2.9/32", time.Hour)
		e.after(time.Minute)
		left := time.Now().Add(2 * time.Hour)
		e.foreign("block", "ip", "192.0.2.1", cloudflare.NewTag("web-2", left))
		e.foreign("block", "ip_range", "2001:db8:0:1::/64", cloudflare.NewTag("web-2", left))
		e.foreign("whitelist", "ip", "192.0.2.2", "by hand")
		for _, target := range []string{"192.0.2.1/32", "2001:db8:0:1::/64", "192.0.2.2/32"} {
			e.ban(target, time.Hour)
		}
		e.after(time.Minute)
		if s := e.action.Stats(); s.Covered != 2 || s.Items != 1 {
			e.Errorf("stats are %+v", s)
		}
		looked := 0
		log, _ := e.server.Requests()
		for _, r := range log {
			if strings.Contains(r.Query, "configuration.value") {
				looked++
			}
		}
		if all := e.requests("GET", "access_rules"); looked != 4 || all != 5 {
			e.Errorf("it took %d requests to find them, want one each, and two for IPv6; %d others", looked, all-looked)
		}
		if s := e.reconciler.Stats(); s.Failing || s.Rejected != 1 {
			e.Errorf("the reconciler says %+v", s)
		}
		// Who is allowed since is found as another rule is looked at.
		e.foreign("whitelist", "ip_range", "10.9.0.0/16", "by hand")
		e.ban("192.0.2.9/32", 2*time.Hour)
		e.ban("10.9.8.7/32", time.Hour)
		e.after(time.Minute)
		if s := e.reconciler.Stats(); s.Failing || s.Rejected != 2 {
			e.Errorf("the reconciler says %+v", s)
		}
		if _, there := e.rules(fake.AccountID)["10.9.8.7"]; there {
			e.Error("who is allowed is banned")
		}
	})
}

// TestAccessRulesWithinTheBudget is a storm: no span sees more requests than the
// budget has, who lasts longer comes first, and all are banned in the end.
func TestAccessRulesWithinTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.ban("192.0.2.1/32", time.Hour) // what follows is gathered
		e.after(time.Second)
		began := time.Now()
		for i := range 600 {
			e.ban(address(i), time.Duration(2+i%2*2)*time.Hour)
		}
		e.after(time.Minute)
		if s := e.action.Stats(); s.Items < 190 || s.Items >= 250 || s.Waiting == 0 {
			e.Errorf("after a while, stats are %+v", s)
		}
		for _, r := range e.server.AccessRules(fake.AccountID) {
			if r.Value != "192.0.2.1" && r.Description != cloudflare.NewTag("web-1", began.Add(4*time.Hour)) {
				e.Fatalf("%s is banned before others that last longer: %s", r.Value, r.Description)
			}
		}
		u := e.action.Usage()
		if len(u) != 1 || u[0].Name != "requests" || u[0].Limit != 200 || u[0].Used < 150 {
			e.Errorf("the budgets are %+v", u)
		}
		e.after(19 * time.Minute)
		if s := e.action.Stats(); s.Items != 601 || s.Waiting != 0 {
			e.Errorf("at the end, stats are %+v", s)
		}
		e.after(5 * time.Hour)
		e.hasRules(fake.AccountID)
		log, dropped := e.server.Requests()
		if most := fake.Peak(log, 5*time.Minute, func(fake.Request) int { return 1 }); most > cloudflare.DefaultRequests || dropped > 0 {
			e.Errorf("%d requests within 5 minutes, %d not in the log", most, dropped)
		}
		t.Logf("%d requests for 600 bans and their ends", len(log))
		e.said("bans are not enforced", 0)
	})
}

// TestAccessRulesThatDontFit is what the account has no room for.
func TestAccessRulesThatDontFit(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int
		capacity int
	}{{"as configured", 0, 22}, {"as Cloudflare says", 22, 0}} {
		t.Run(c.name, func(t *testing.T) {
			atEdge(t, fake.Options{Limits: fake.Limits{AccessRules: c.limit}}, func(o *cloudflare.Options) {
				o.AccessRules, o.Capacity = true, c.capacity
			}, func(e *edge) {
				e.foreign("block", "ip", "203.0.113.1", "by hand")
				e.foreign("block", "asn", "AS64496", "by hand")
				for i := range 30 {
					e.ban(address(i), time.Duration(i+1)*time.Hour)
				}
				e.after(15 * time.Minute)
				held := e.rules(fake.AccountID)
				if len(held) != 22 {
					e.Errorf("there are %d rules", len(held))
				}
				for i := 10; i < 30; i++ {
					if ip := strings.TrimSuffix(address(i), "/32"); held[ip] == "" {
						e.Errorf("%s is not there, which lasts longer than others", ip)
					}
				}
				if s := e.reconciler.Stats(); s.LeftOut != 10 || s.Failing {
					e.Errorf("the reconciler says %+v", s)
				}
				e.said("the action is full", 1)
			})
		})
	}
}

// TestAccessRulesOfZones is that a ban is in each zone that is named, and no other.
func TestAccessRulesOfZones(t *testing.T) {
	atEdge(t, fake.Options{Accounts: twoZones(), Tokens: []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{fake.ZoneAccessEdit}}}},
		func(o *cloudflare.Options) { o.AccessRules, o.Zones = true, []string{fake.ZoneID, otherZone} }, func(e *edge) {
			e.ban("192.0.2.1/32", time.Hour)
			e.ban("192.0.2.2/32", 2*time.Hour)
			e.after(time.Minute)
			for _, zone := range []string{fake.ZoneID, otherZone} {
				e.hasRules(zone, "192.0.2.1", "192.0.2.2")
			}
			e.hasRules(fake.AccountID)
			if _, held, err := e.action.Held(e.Context(), prefix("192.0.2.1/32")); !held || err != nil {
				e.Errorf("it says to hold it: %v, %v", held, err)
			}
			e.server.RemoveAccessRule(otherZone, "192.0.2.2")
			e.after(11 * time.Minute) // a comparison
			e.hasRules(otherZone, "192.0.2.1", "192.0.2.2")
			e.after(2 * time.Hour)
			for _, zone := range []string{fake.ZoneID, otherZone} {
				e.hasRules(zone)
			}
			if s := e.action.Stats(); s.Items != 0 || s.Removed != 4 || s.Requests == 0 {
				e.Errorf("stats are %+v", s)
			}
		})
}

// TestRoomInZones is that of the account, of which a ban takes a rule in each zone.
func TestRoomInZones(t *testing.T) {
	atEdge(t, fake.Options{Accounts: twoZones()}, func(o *cloudflare.Options) {
		o.AccessRules, o.Zones, o.Capacity = true, []string{fake.ZoneID, otherZone}, 11
	}, func(e *edge) {
		for _, zone := range []string{fake.ZoneID, otherZone} {
			for i := range 2 {
				if _, err := e.server.AddForeignAccessRule(zone, fake.Rule{Action: "block", Target: "ip", Value: fmt.Sprintf("203.0.113.%d", i)}); err != nil {
					e.Fatal(err)
				}
			}
		}
		for i := range 8 {
			e.ban(address(i), time.Duration(i+1)*time.Hour)
		}
		e.after(15 * time.Minute)
		for _, zone := range []string{fake.ZoneID, otherZone} {
			e.hasRules(zone, "203.0.113.0", "203.0.113.1", "100.64.0.5", "100.64.0.6", "100.64.0.7")
		}
		e.said("the action is full", 1)
	})
}

// TestPermissionsForAccessRules is that an error names the one that is missing.
func TestPermissionsForAccessRules(t *testing.T) {
	for _, c := range []struct {
		zones []string
		may   fake.Permission
		want  string
	}{
		{nil, fake.ZoneAccessEdit, "list access rules of account " + fake.AccountID + ": the token lacks the permission Account > Account Firewall Access Rules > Edit"},
		{[]string{fake.ZoneID}, fake.AccessEdit, "list access rules of zone " + fake.ZoneID + ": the token lacks the permission Zone > Firewall Services > Edit"},
		{nil, fake.AccessRead, "of account " + fake.AccountID + ": the token lacks the permission Account > Account Firewall Access Rules > Edit"},
	} {
		t.Run(string(c.may), func(t *testing.T) {
			atEdge(t, fake.Options{Tokens: []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{c.may}}}},
				func(o *cloudflare.Options) { o.AccessRules, o.Zones = true, c.zones }, func(e *edge) {
					e.ban("192.0.2.1/32", time.Hour)
					e.after(time.Hour)
					if s := e.reconciler.Stats(); !s.Failing || !strings.Contains(s.Err.Error(), c.want) {
						e.Errorf("it says %v, want %s", s.Err, c.want)
					}
					if log, _ := e.server.Requests(); len(log) > 40 {
						e.Errorf("%d requests in an hour with a token that is refused", len(log))
					}
				})
		})
	}
}

// TestSweepOfAccessRules is that what is over goes, also if there is more of it than
// can be asked for at once, and nothing else.
func TestSweepOfAccessRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.end()
		e.foreign("block", "ip", "203.0.113.1", "by hand")
		e.foreign("block", "ip", "203.0.113.2", cloudflare.NewTag("web-1", time.Now().Add(100*time.Hour)))
		for i := range 500 {
			e.foreign("block", "ip", strings.TrimSuffix(address(i), "/32"), cloudflare.NewTag(fmt.Sprint("web-", i%3), time.Now().Add(-time.Minute)))
		}
		a := newAction(e.T, e.server, func(o *cloudflare.Options) { o.AccessRules, o.Instance = true, "sweep" })
		began := time.Now()
		n, err := a.Sweep(e.Context())
		if n != 500 || err != nil {
			e.Errorf("%d were removed, %v", n, err)
		}
		e.hasRules(fake.AccountID, "203.0.113.1", "203.0.113.2")
		log, _ := e.server.Requests()
		if most := fake.Peak(log, 5*time.Minute, func(fake.Request) int { return 1 }); most > cloudflare.DefaultRequests {
			e.Errorf("%d requests within 5 minutes", most)
		}
		t.Logf("500 rules in %v, by %d requests", time.Since(began), len(log))
	})
}

// TestAnswersThatAreLost is that a rule that was made, although it did not look so, is
// taken for what it is, and that nothing is made or removed twice.
func TestAnswersThatAreLost(t *testing.T) {
	for _, f := range []fake.Fault{fake.ResetAfter, fake.GatewayTimeout, fake.CutAnswer, fake.ResetBefore, fake.BadGateway, fake.NoSuccess, fake.FalseLimit} {
		t.Run(f.String(), func(t *testing.T) {
			atEdge(t, fake.Options{}, byRules, func(e *edge) {
				e.after(time.Minute)
				for _, method := range []string{"POST", "PATCH", "DELETE"} {
					e.server.FailNext(method, "access_rules", f)
				}
				e.ban("192.0.2.1/32", time.Hour)
				e.ban("192.0.2.2/32", time.Hour)
				e.after(2 * time.Minute)
				e.hasRules(fake.AccountID, "192.0.2.1", "192.0.2.2")
				e.ban("192.0.2.1/32", 2*time.Hour)
				e.after(2 * time.Minute)
				if got, want := e.rules(fake.AccountID)["192.0.2.1"], cloudflare.NewTag("web-1", time.Now().Add(118*time.Minute)); got != want {
					e.Errorf("prolonged, its notes are %q, want %q", got, want)
				}
				e.after(65 * time.Minute)
				e.hasRules(fake.AccountID, "192.0.2.1")
				if s := e.reconciler.Stats(); s.Failing {
					e.Errorf("the reconciler says %+v", s)
				}
			})
		})
	}
}

// TestAccessRulesAreCleared is a teardown.
func TestAccessRulesAreCleared(t *testing.T) {
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		e.foreign("block", "ip", "203.0.113.1", "by hand")
		e.foreign("block", "ip", "203.0.113.2", cloudflare.NewTag("web-2", time.Now().Add(-time.Minute)))
		e.ban("192.0.2.1/32", time.Hour)
		e.ban("192.0.2.2/32", time.Hour)
		e.after(time.Minute)
		e.end()
		n, err := newAction(e.T, e.server, byRules).Clear(context.Background())
		if n != 2 || err != nil {
			e.Errorf("%d were removed, %v", n, err)
		}
		e.hasRules(fake.AccountID, "203.0.113.1", "203.0.113.2")
	})
}

// TestManyAccessRules is an account that has more of them than a page: all are known, and they
// are not read so often that nothing is left for bans.
func TestManyAccessRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	short := func(o *cloudflare.Options) { o.AccessRules, o.Budget.Requests = true, 60 }
	atEdge(t, fake.Options{}, short, func(e *edge) {
		e.end()
		for i := range 1200 {
			e.foreign("block", "ip", strings.TrimSuffix(address(i), "/32"), "by hand")
		}
		e.start(short)
		e.ban(address(1111), time.Hour)
		e.ban("192.0.2.1/32", 24*time.Hour)
		e.after(time.Minute)
		if s := e.action.Stats(); s.Others != 1200 || s.Items != 1 || s.Covered != 1 {
			e.Errorf("stats are %+v", s)
		}
		e.after(time.Hour)
		if n := e.requests("GET", "access_rules"); n < 18 || n > 30 {
			e.Errorf("%d requests to read them, want 3 in 10 minutes", n)
		}
		for range 15 { // what is amiss has all be read again
			e.server.FailNext("POST", "access_rules", fake.ResetBefore)
		}
		before := e.requests("GET", "access_rules")
		e.ban("192.0.2.2/32", 24*time.Hour)
		e.after(110 * time.Second)
		if n := e.requests("GET", "access_rules") - before; n > 3 {
			e.Errorf("%d requests to read them, of 42 that may be made meanwhile", n)
		}
	})
}

// TestRejectionsByZones is that who can't be banned in one of the zones is not said to
// be banned.
func TestRejectionsByZones(t *testing.T) {
	atEdge(t, fake.Options{Accounts: twoZones()}, func(o *cloudflare.Options) {
		o.AccessRules, o.Zones = true, []string{fake.ZoneID, otherZone}
	}, func(e *edge) {
		e.end()
		if _, err := e.server.AddForeignAccessRule(otherZone, fake.Rule{Action: "whitelist", Target: "ip", Value: "192.0.2.1"}); err != nil {
			e.Fatal(err)
		}
		add := []actions.Entry{{Target: prefix("192.0.2.1/32"), Left: time.Hour}, {Target: prefix("192.0.2.2/32"), Left: time.Hour}}
		err := e.action.Apply(e.Context(), add, nil)
		var r *actions.RejectedError
		if !errors.As(err, &r) || len(r.Rejected) != 1 || r.Rejected[0].Target != add[0].Target || !errors.Is(r, actions.ErrProtected) {
			e.Errorf("it says %v", err)
		}
	})
}
