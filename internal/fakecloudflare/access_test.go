package fakecloudflare_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/firewall"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

func (b *bench) access() *firewall.AccessRuleService {
	return firewall.NewAccessRuleService(sdk(b.s)...)
}

func (b *bench) newAccess(inZone bool, target, value, notes string) (*firewall.AccessRuleNewResponse, error) {
	var p firewall.AccessRuleNewParams
	if inZone {
		p.ZoneID.Value, p.ZoneID.Present = zone, true
	} else {
		p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	}
	var c firewall.AccessRuleNewParamsConfiguration
	c.Target.Value, c.Target.Present = firewall.AccessRuleNewParamsConfigurationTarget(target), true
	c.Value.Value, c.Value.Present = value, true
	p.Configuration.Value, p.Configuration.Present = c, true
	p.Mode.Value, p.Mode.Present = firewall.AccessRuleNewParamsModeBlock, true
	p.Notes.Value, p.Notes.Present = notes, true
	return b.access().New(b.Context(), p)
}

func TestAnAccessRuleIsMadeChangedAndDeleted(t *testing.T) {
	for _, inZone := range []bool{false, true} {
		t.Run(fmt.Sprint("zone ", inZone), func(t *testing.T) {
			run(t, fakecloudflare.Options{}, func(b *bench) {
				made, err := b.newAccess(inZone, "ip", "192.0.2.1", "first")
				if err != nil || made.Mode != "block" || made.Notes != "first" || made.Configuration.Value != "192.0.2.1" {
					b.Fatalf("made %+v, %v", made, err)
				}
				if !b.s.Blocked(netip.MustParseAddr("192.0.2.1"), time.Now()) {
					b.Error("it does not block at once")
				}
				_, err = b.newAccess(inZone, "ip", "192.0.2.1", "again")
				b.refused(err, http.StatusBadRequest, 10009)
				if _, err := b.newAccess(!inZone, "ip", "192.0.2.1", "elsewhere"); err != nil {
					b.Errorf("the same for another scope: %v", err)
				}

				var e firewall.AccessRuleEditParams
				var g firewall.AccessRuleGetParams
				var d firewall.AccessRuleDeleteParams
				if inZone {
					e.ZoneID.Value, e.ZoneID.Present = zone, true
					g.ZoneID.Value, g.ZoneID.Present = zone, true
					d.ZoneID.Value, d.ZoneID.Present = zone, true
				} else {
					e.AccountID.Value, e.AccountID.Present = fakecloudflare.AccountID, true
					g.AccountID.Value, g.AccountID.Present = fakecloudflare.AccountID, true
					d.AccountID.Value, d.AccountID.Present = fakecloudflare.AccountID, true
				}
				e.Mode.Value, e.Mode.Present = firewall.AccessRuleEditParamsModeManagedChallenge, true
				if got, err := b.access().Edit(b.Context(), made.ID, e); err != nil || got.Mode != "managed_challenge" || got.Notes != "first" {
					b.Errorf("edited %+v, %v", got, err)
				}
				if got, err := b.access().Get(b.Context(), made.ID, g); err != nil || got.ID != made.ID || got.Mode != "managed_challenge" {
					b.Errorf("got %+v, %v", got, err)
				}
				if got, err := b.access().Delete(b.Context(), made.ID, d); err != nil || got.ID != made.ID {
					b.Errorf("deleted %+v, %v", got, err)
				}
				_, err = b.access().Delete(b.Context(), made.ID, d)
				b.refused(err, http.StatusNotFound, 10001)
				if _, err := b.newAccess(inZone, "ip", "192.0.2.1", "once more"); err != nil {
					b.Errorf("after its deletion: %v", err)
				}
			})
		})
	}
}

func TestTargetsOfAccessRules(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		for _, c := range []struct {
			target, value string
			ok            bool
		}{
			{"ip", "192.0.2.1", true},
			{"ip6", "2001:db8::1", true},
			{"ip_range", "192.0.0.0/16", true},
			{"ip_range", "192.0.2.0/24", true},
			{"ip_range", "2001:db8::/32", true},
			{"ip_range", "2001:db8::/48", true},
			{"ip_range", "2001:db8::/64", true},
			{"country", "TO", true},
			{"asn", "AS64496", true},
			{"ip", "2001:db8::1", false},
			{"ip", "192.0.2.0/24", false},
			{"ip6", "192.0.2.1", false},
			{"ip_range", "192.0.2.0/25", false},
			{"ip_range", "192.0.0.0/8", false},
			{"ip_range", "192.0.2.1/24", false},
			{"ip_range", "2001:db8::/56", false},
			{"ip_range", "192.0.2.1", false},
			{"country", "Tonga", false},
			{"asn", "64496", false},
			{"host", "example.com", false},
		} {
			_, err := b.newAccess(false, c.target, c.value, "")
			if c.ok {
				if err != nil {
					b.Errorf("%s %s: %v", c.target, c.value, err)
				}
				continue
			}
			b.refused(err, http.StatusBadRequest, 10014)
		}
	})
}

func TestAccessRulesAreListedAndCounted(t *testing.T) {
	run(t, fakecloudflare.Options{Limits: fakecloudflare.Limits{AccessRules: 45}}, func(b *bench) {
		for i := range 44 {
			if _, err := b.newAccess(false, "ip", fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("Note %d", i)); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := b.newAccess(true, "ip_range", "198.51.0.0/16", "in the zone"); err != nil {
			b.Fatal(err)
		}
		_, err := b.newAccess(false, "ip", "203.0.113.1", "one too many")
		b.refused(err, http.StatusBadRequest, 10010)

		find := func(set func(*firewall.AccessRuleListParams)) int {
			b.Helper()
			var p firewall.AccessRuleListParams
			p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
			set(&p)
			all := b.access().ListAutoPaging(b.Context(), p)
			n := 0
			for all.Next() {
				n++
			}
			if all.Err() != nil {
				b.Error(all.Err())
			}
			return n
		}
		if n := find(func(*firewall.AccessRuleListParams) {}); n != 44 {
			b.Errorf("%d of all", n)
		}
		if n := find(func(p *firewall.AccessRuleListParams) { p.Notes.Value, p.Notes.Present = "note 4", true }); n != 5 {
			b.Errorf("%d by notes", n)
		}
		if n := find(func(p *firewall.AccessRuleListParams) {
			p.Mode.Value, p.Mode.Present = firewall.AccessRuleListParamsModeWhitelist, true
		}); n != 0 {
			b.Errorf("%d by mode", n)
		}
		if n := find(func(p *firewall.AccessRuleListParams) {
			p.Configuration.Value.Value.Value, p.Configuration.Value.Value.Present = "192.0.2.7", true
			p.Configuration.Present = true
			p.PerPage.Value, p.PerPage.Present = 5, true
		}); n != 1 {
			b.Errorf("%d by value", n)
		}
		for match, want := range map[firewall.AccessRuleListParamsMatch]int{"all": 0, "any": 1} {
			if n := find(func(p *firewall.AccessRuleListParams) {
				p.Notes.Value, p.Notes.Present = "note 7", true
				p.Mode.Value, p.Mode.Present = firewall.AccessRuleListParamsModeWhitelist, true
				p.Match.Value, p.Match.Present = match, true
			}); n != want {
				b.Errorf("%d by two filters, %s", n, match)
			}
		}
		var p firewall.AccessRuleListParams
		p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
		p.PerPage.Value, p.PerPage.Present = 10, true
		p.Page.Value, p.Page.Present = 5, true
		page, err := b.access().List(b.Context(), p)
		if err != nil || len(page.Result) != 4 || page.Result[3].Configuration.Value != "192.0.2.0" {
			b.Errorf("last page: %+v, %v", page, err)
		}
		var d firewall.AccessRuleDeleteParams
		d.AccountID.Value, d.AccountID.Present = fakecloudflare.AccountID, true
		if _, err := b.access().Delete(b.Context(), page.Result[0].ID, d); err != nil {
			b.Fatal(err)
		}
		if _, err := b.newAccess(false, "ip", "203.0.113.1", "in its place"); err != nil {
			b.Errorf("in place of one that is deleted: %v", err)
		}
	})
}

func TestAnAccessRuleThatAllowsIsStrongest(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		b.foreign("ip.src in {192.0.2.0/24}")
		for _, r := range []fakecloudflare.Rule{
			{Action: "block", Target: "ip_range", Value: "192.0.2.0/24"},
			{Action: "whitelist", Target: "ip", Value: "192.0.2.1"},
		} {
			if _, err := b.s.AddForeignAccessRule(fakecloudflare.AccountID, r); err != nil {
				b.Fatal(err)
			}
		}
		if b.s.Blocked(netip.MustParseAddr("192.0.2.1"), time.Now()) || !b.s.Blocked(netip.MustParseAddr("192.0.2.2"), time.Now()) {
			b.Error("the allowed one is blocked, or the other one isn't")
		}
		if got := b.s.AccessRules(fakecloudflare.AccountID); len(got) != 2 || got[1].Action != "whitelist" {
			b.Errorf("rules %+v", got)
		}
	})
}
