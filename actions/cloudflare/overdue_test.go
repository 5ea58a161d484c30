package cloudflare_test

import (
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestOverdueBansEnd is that a ban that is over ends with the rule if it can't be taken
// out of the list, and that the rule is back as soon as it can.
func TestOverdueBansEnd(t *testing.T) {
	all := []fake.Token{{Secret: fake.Secret}}
	for name, refuse := range map[string][]fake.Permission{
		"no permission": {fake.ZoneWAFEdit},
		"only reading":  {fake.ZoneWAFEdit, fake.ListsRead},
	} {
		t.Run(name, func(t *testing.T) {
			atEdge(t, fake.Options{Tokens: all}, leased, func(e *edge) {
				e.ban("192.0.2.1/32", time.Hour)
				e.ban("192.0.2.2/32", 100*time.Hour)
				e.after(time.Minute)
				e.server.Change(func(o *fake.Options) { o.Tokens = []fake.Token{{Secret: fake.Secret, Permissions: refuse}} })
				for range 7 { // until half a lease after its end
					e.after(12 * time.Minute)
					if !e.server.Blocked(good, time.Now()) {
						e.Fatal("the rule has lapsed although no ban is long over")
					}
				}
				e.after(75 * time.Minute)
				if e.server.Blocked(bad, time.Now()) {
					e.Errorf("a ban is in force %v after its end", 100*time.Minute)
				}
				e.after(10 * time.Hour)
				if e.server.Blocked(bad, time.Now()) {
					e.Error("the rule is renewed for a ban that is over")
				}
				e.said("so the rule is not renewed", 1)
				if l, s := e.action.Leases()[0], e.action.Stats(); l.Err == nil || s.Overdue != 1 || e.action.Lapsed() != fake.ZoneID {
					e.Errorf("the lease is %+v, the stats are %+v", l, s)
				}
				e.server.Change(func(o *fake.Options) { o.Tokens = all })
				e.after(13 * time.Minute)
				e.holds("192.0.2.2")
				if !e.server.Blocked(good, time.Now()) {
					e.Error("the rule is not renewed again")
				}
				if l, s := e.action.Leases()[0], e.action.Stats(); l.Err != nil || s.Overdue != 0 {
					e.Errorf("the lease is %+v, the stats are %+v", l, s)
				}
			})
		})
	}
}

// TestBudgetIsNotOverdue is that bans that are over and only wait for the budget of
// changes don't have the rule lapse.
func TestBudgetIsNotOverdue(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	atEdge(t, fake.Options{}, func(o *cloudflare.Options) { leased(o); o.Budget.Changes = 220 }, func(e *edge) {
		for i := range 109 {
			e.ban(address(i), 20*time.Minute)
		}
		e.ban("192.0.2.1/32", 100*time.Hour)
		for range 40 {
			e.after(6 * time.Minute)
			if !e.server.Blocked(bad, time.Now()) {
				e.Fatal("the rule has lapsed")
			}
		}
		if n := len(e.server.Items(listName)); n < 50 {
			e.Errorf("only %d items wait for the budget", n)
		}
	})
}
