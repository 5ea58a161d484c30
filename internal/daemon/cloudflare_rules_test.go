package daemon

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestDaemonWithAccessRules is the whole way with access rules of two zones, a reload
// with one of them less, which leaves the other's alone, and one without the action.
func TestDaemonWithAccessRules(t *testing.T) {
	t.Parallel()
	const second = "e0e0d0c0b0a000998877665544332211"
	double := fake.New(fake.Options{Accounts: []fake.Account{{ID: fake.AccountID, Zones: []fake.Zone{{ID: fake.ZoneID}, {ID: second}}}}})
	server := httptest.NewServer(double.Handler())
	t.Cleanup(server.Close)
	s := newSite(t, t.TempDir())
	token := filepath.Join(s.dir, "token")
	check(t, os.WriteFile(token, []byte(fake.Secret), 0o600))
	for _, zone := range []string{fake.ZoneID, second} {
		_, err := double.AddForeignAccessRule(zone, fake.Rule{Action: "block", Target: "ip", Value: "203.0.113.9", Description: "by hand"})
		check(t, err)
	}
	rules := func(zone string) string {
		var list []string
		for _, r := range double.AccessRules(zone) {
			notes, _, _ := strings.Cut(r.Description, " until=")
			list = append(list, r.Value+" "+notes)
		}
		return strings.Join(list, ", ")
	}
	const banned, alone = "203.0.113.9 by hand, 203.0.113.66 tailban/web-1", "203.0.113.9 by hand"
	config := func(zones string) string { return ruleConfig(server.URL, token) + "zones = " + zones + "\n" }
	l := newLiveWith(t, s, s.config(config(fmt.Sprintf("[%q, %q]", fake.ZoneID, second))), nil, nil)
	s.requests("203.0.113.66", 3)
	wait(t, "the ban to be in both zones", func() bool { return rules(fake.ZoneID) == banned && rules(second) == banned })
	if !double.Blocked(netip.MustParseAddr("203.0.113.66"), time.Now()) {
		t.Error("it is not blocked")
	}
	wait(t, "the status to tell", func() bool {
		st := l.status()
		for _, b := range st.Budgets {
			if b.Name == "edge: writes" || b.Name == "edge: changed items" {
				t.Fatalf("there is a budget of lists: %+v", b)
			}
			if e := st.Actions[0].Edge; b.Name == "edge: requests" && b.Limit == 200 && b.Used > 0 && e.Items == 2 && e.Others == 2 {
				return e.Rules == "Cloudflare zones "+fake.ZoneID+", "+second && e.List == "" && len(e.Leases) == 0 && e.Changes == 2
			}
		}
		return false
	})
	s.write(line("203.0.113.66", time.Now().Add(time.Minute)))
	wait(t, "a reason why it still comes", func() bool {
		return strings.Contains(l.explain("203.0.113.66").Through, "an access rule of Cloudflare zones")
	})

	before := double.AccessRules(second)[1].ID
	l.reload(config(fmt.Sprintf("%q", second)))
	wait(t, "what is left to be cleared", func() bool {
		return len(l.journal.said("what an action that is not used any more had is removed")) == 1
	})
	if got := rules(fake.ZoneID); got != alone {
		t.Errorf("the rules of the zone that is left are %s", got)
	}
	if got := double.AccessRules(second); len(got) != 2 || got[1].ID != before {
		t.Errorf("the rules of the other zone are %+v", got)
	}
	l.reload("peer = \"rewritten\"\n" + strings.TrimPrefix(logOnly, "\n"))
	wait(t, "both to be left", func() bool { return rules(second) == alone })
}

// TestInstanceOfRulesRenamed is [TestInstanceRenamed] for access rules, and that a list
// that the same action had before is cleared.
func TestInstanceOfRulesRenamed(t *testing.T) {
	t.Parallel()
	double := fake.New(fake.Options{Delay: time.Millisecond})
	server := httptest.NewServer(double.Handler())
	t.Cleanup(server.Close)
	s := newSite(t, t.TempDir())
	token := filepath.Join(s.dir, "token")
	check(t, os.WriteFile(token, []byte(fake.Secret), 0o600))
	named := func(text, instance string) string {
		return strings.Replace(text, `instance = "web-1"`, instance, 1)
	}
	rule := func(of string) (id string) {
		list := double.AccessRules(fake.ZoneID)
		if len(list) == 1 && strings.HasPrefix(list[0].Description, "tailban/"+of+" ") {
			return list[0].ID
		}
		return ""
	}
	l := newLiveWith(t, s, s.config(named(edgeConfig(server.URL, token), "")), nil, nil)
	s.requests("203.0.113.66", 3)
	wait(t, "the ban in the list", func() bool { return len(double.Items("tailban")) == 1 })
	rules := ruleConfig(server.URL, token) + fmt.Sprintf("zones = %q\n", fake.ZoneID)
	l.reload(named(rules, `instance = "here"`)) // which is the host's name
	wait(t, "a rule", func() bool { return rule("here") != "" })
	wait(t, "the list to be cleared", func() bool { return len(double.Items("tailban")) == 0 })
	before := rule("here")
	l.reload(named(rules, ""))
	wait(t, "what was there to be looked after", func() bool { return len(l.d.leavers()) == 0 })
	if rule("here") != before {
		t.Errorf("the same name by another way has the rule taken out: %+v", double.AccessRules(fake.ZoneID))
	}
	l.reload(named(rules, `instance = "web-2"`))
	wait(t, "the ban in the new name", func() bool { return rule("web-2") != "" })
}
