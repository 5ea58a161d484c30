package fakecloudflare_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/rulesets"
	"github.com/google/go-cmp/cmp"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

const zone = fakecloudflare.ZoneID

func block(expression, description string) rulesets.RuleNewParamsBodyBlockRule {
	var r rulesets.RuleNewParamsBodyBlockRule
	r.Action.Value, r.Action.Present = rulesets.BlockRuleActionBlock, true
	r.Expression.Value, r.Expression.Present = expression, true
	r.Description.Value, r.Description.Present = description, true
	return r
}

func (b *bench) sets() *rulesets.RulesetService { return rulesets.NewRulesetService(sdk(b.s)...) }

func (b *bench) entrypoint() (*rulesets.PhaseGetResponse, error) {
	var p rulesets.PhaseGetParams
	p.ZoneID.Value, p.ZoneID.Present = zone, true
	return b.sets().Phases.Get(b.Context(), rulesets.PhaseHTTPRequestFirewallCustom, p)
}

// foreign adds rules of somebody else and gives the ruleset's id.
func (b *bench) foreign(expressions ...string) string {
	b.Helper()
	for _, e := range expressions {
		if _, err := b.s.AddForeignRule(zone, fakecloudflare.Rule{Action: "block", Expression: e, Description: "of another"}); err != nil {
			b.Fatal(err)
		}
	}
	set, err := b.entrypoint()
	if err != nil {
		b.Fatal(err)
	}
	return set.ID
}

func (b *bench) expressions() []string {
	var out []string
	for _, r := range b.s.Rules(zone) {
		out = append(out, r.Expression)
	}
	return out
}

func TestALeaseIsMadeRenewedAndLapses(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		_, err := b.entrypoint()
		b.refused(err, http.StatusNotFound, 10003)

		// The entry point is made with no rule, then the rule is added.
		var np rulesets.RulesetNewParams
		np.ZoneID.Value, np.ZoneID.Present = zone, true
		np.Kind.Value, np.Kind.Present = rulesets.KindZone, true
		np.Name.Value, np.Name.Present = "default", true
		np.Phase.Value, np.Phase.Present = rulesets.PhaseHTTPRequestFirewallCustom, true
		np.Rules.Value, np.Rules.Present = []rulesets.RulesetNewParamsRuleUnion{}, true
		set, err := b.sets().New(b.Context(), np)
		if err != nil {
			b.Fatal(err)
		}
		_, err = b.sets().New(b.Context(), np)
		b.refused(err, http.StatusBadRequest, 20217)

		lease := func(until time.Time) string {
			return fmt.Sprintf("(ip.src in $banned and http.request.timestamp.sec lt %d)", until.Unix())
		}
		start := time.Now()
		var p rulesets.RuleNewParams
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		p.Body = block(lease(start.Add(time.Hour)), "lease")
		made, err := b.sets().Rules.New(b.Context(), set.ID, p)
		if err != nil || len(made.Rules) != 1 {
			b.Fatalf("made %+v, %v", made, err)
		}
		id := made.Rules[0].ID

		b.done(b.add(items{{"192.0.2.0/24", ""}, {"2001:db8:1::/64", ""}}))
		bad, bad6 := netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8:1::77")
		if b.s.Blocked(bad, time.Now()) {
			b.Error("blocked before the operation is done")
		}
		time.Sleep(time.Minute)
		blocked := func(want bool, at time.Time) {
			b.Helper()
			for _, a := range []netip.Addr{bad, bad6, netip.MustParseAddr("::ffff:192.0.2.77")} {
				if got := b.s.Blocked(a, at); got != want {
					b.Errorf("%s at +%v: blocked %v", a, at.Sub(start), got)
				}
			}
			for _, a := range []string{"192.0.3.1", "2001:db8:2::1"} {
				if b.s.Blocked(netip.MustParseAddr(a), at) {
					b.Errorf("%s is blocked", a)
				}
			}
		}
		blocked(true, start.Add(time.Hour-time.Second))
		blocked(false, start.Add(time.Hour))

		var e rulesets.RuleEditParams
		e.ZoneID.Value, e.ZoneID.Present = zone, true
		var def rulesets.RuleEditParamsBodyBlockRule
		def.Action.Value, def.Action.Present = rulesets.BlockRuleActionBlock, true
		def.Expression.Value, def.Expression.Present = lease(start.Add(2*time.Hour)), true
		e.Body = def
		edited, err := b.sets().Rules.Edit(b.Context(), set.ID, id, e)
		if err != nil || len(edited.Rules) != 1 || edited.Rules[0].ID != id || edited.Rules[0].Version != "2" || edited.Version != "3" {
			b.Fatalf("edited %+v, %v", edited, err)
		}
		if got := b.s.Rules(zone)[0]; got.Description != "" {
			b.Errorf("a definition without its description keeps the old one: %+v", got)
		}
		blocked(true, start.Add(time.Hour))
		blocked(false, start.Add(2*time.Hour))

		var d rulesets.RuleDeleteParams
		d.ZoneID.Value, d.ZoneID.Present = zone, true
		if left, err := b.sets().Rules.Delete(b.Context(), set.ID, id, d); err != nil || len(left.Rules) != 0 {
			b.Errorf("left %+v, %v", left, err)
		}
		blocked(false, start)
		_, err = b.sets().Rules.Delete(b.Context(), set.ID, id, d)
		b.refused(err, http.StatusNotFound, 10004)
		_, err = b.sets().Rules.Edit(b.Context(), set.ID, id, e)
		b.refused(err, http.StatusNotFound, 10004)
	})
}

func TestRulesAreRead(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		id := b.foreign(`http.host eq "a.example.com"`, `ip.src eq 192.0.2.1`)
		var l rulesets.RulesetListParams
		l.ZoneID.Value, l.ZoneID.Present = zone, true
		all, err := b.sets().List(b.Context(), l)
		if err != nil || len(all.Result) != 1 || all.Result[0].ID != id {
			b.Errorf("rulesets %+v, %v", all, err)
		}
		var g rulesets.RulesetGetParams
		g.ZoneID.Value, g.ZoneID.Present = zone, true
		set, err := b.sets().Get(b.Context(), id, g)
		if err != nil || len(set.Rules) != 2 || set.Rules[1].Expression != "ip.src eq 192.0.2.1" || !set.Rules[1].Enabled {
			b.Errorf("ruleset %+v, %v", set, err)
		}
		_, err = b.sets().Get(b.Context(), "00", g)
		b.refused(err, http.StatusNotFound, 10002)
	})
}

func TestAWholeRulesetIsReplaced(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		b.foreign("ip.src eq 192.0.2.1", "ip.src eq 192.0.2.2")
		kept := b.s.Rules(zone)[1].ID
		var p rulesets.PhaseUpdateParams
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		var r rulesets.PhaseUpdateParamsRule
		r.ID.Value, r.ID.Present = kept, true
		r.Action.Value, r.Action.Present = rulesets.PhaseUpdateParamsRulesActionBlock, true
		r.Expression.Value, r.Expression.Present = "ip.src eq 192.0.2.3", true
		p.Rules.Value, p.Rules.Present = []rulesets.PhaseUpdateParamsRuleUnion{r}, true
		p.DryRun.Value, p.DryRun.Present = true, true
		if _, err := b.sets().Phases.Update(b.Context(), rulesets.PhaseHTTPRequestFirewallCustom, p); err != nil || len(b.s.Rules(zone)) != 2 {
			b.Fatalf("a dry run: %v, rules %v", err, b.expressions())
		}
		p.DryRun.Present = false
		p.Description.Value, p.Description.Present = "of us", true
		if _, err := b.sets().Phases.Update(b.Context(), rulesets.PhaseHTTPRequestFirewallCustom, p); err != nil {
			b.Fatal(err)
		}
		got := b.s.Rules(zone)
		if len(got) != 1 || got[0].ID != kept || got[0].Expression != "ip.src eq 192.0.2.3" {
			b.Errorf("rules %+v", got)
		}
		if set, err := b.entrypoint(); err != nil || set.Description != "of us" {
			b.Errorf("ruleset %+v, %v", set, err)
		}
		p.Rules.Value = nil
		for range 6 {
			r.ID.Present = false
			p.Rules.Value = append(p.Rules.Value, r)
		}
		_, err := b.sets().Phases.Update(b.Context(), rulesets.PhaseHTTPRequestFirewallCustom, p)
		b.refused(err, http.StatusBadRequest, 50105)
		p.Rules.Value = nil
		if _, err := b.sets().Phases.Update(b.Context(), rulesets.PhaseHTTPRequestFirewallCustom, p); err != nil || len(b.s.Rules(zone)) != 0 {
			b.Errorf("no rules: %v, left %v", err, b.expressions())
		}
	})
}

func TestARuleIsMovedAndStaysWhatItIs(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		id := b.foreign("ip.src eq 192.0.2.1", "ip.src eq 192.0.2.2", "ip.src eq 192.0.2.3")
		had := b.s.Rules(zone)
		var to rulesets.RuleEditParamsBodyBlockRulePosition
		to.Before.Value, to.Before.Present = "", true
		var r rulesets.RuleEditParamsBodyBlockRule
		r.Position.Value, r.Position.Present = to, true
		var p rulesets.RuleEditParams
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		p.Body = r
		if _, err := b.sets().Rules.Edit(b.Context(), id, had[2].ID, p); err != nil {
			b.Fatal(err)
		}
		if diff := cmp.Diff([]fakecloudflare.Rule{had[2], had[0], had[1]}, b.s.Rules(zone)); diff != "" {
			b.Error(diff)
		}
	})
}

func TestTheOrderOfRules(t *testing.T) {
	type place struct {
		before, after *string
		index         int64
	}
	top, bottom := "", ""
	for _, c := range []struct {
		name  string
		place func(second string) *place
		want  string // of the foreign rules 1 2 3 and the new one
	}{
		{"none", func(string) *place { return nil }, "1 2 3 new"},
		{"top", func(string) *place { return &place{before: &top} }, "new 1 2 3"},
		{"bottom", func(string) *place { return &place{after: &bottom} }, "1 2 3 new"},
		{"before", func(s string) *place { return &place{before: &s} }, "1 new 2 3"},
		{"after", func(s string) *place { return &place{after: &s} }, "1 2 new 3"},
		{"first", func(string) *place { return &place{index: 1} }, "new 1 2 3"},
		{"last", func(string) *place { return &place{index: 4} }, "1 2 3 new"},
		{"past the end", func(string) *place { return &place{index: 5} }, ""},
		{"nowhere", func(string) *place { s := "0123"; return &place{before: &s} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, fakecloudflare.Options{}, func(b *bench) {
				id := b.foreign("ip.src eq 192.0.2.1", "ip.src eq 192.0.2.2", "ip.src eq 192.0.2.3")
				r := block("ip.src eq 192.0.2.9", "")
				if to := c.place(b.s.Rules(zone)[1].ID); to != nil {
					var p rulesets.RuleNewParamsBodyBlockRulePosition
					if to.before != nil {
						p.Before.Value, p.Before.Present = *to.before, true
					}
					if to.after != nil {
						p.After.Value, p.After.Present = *to.after, true
					}
					p.Index.Value, p.Index.Present = to.index, to.index != 0
					r.Position.Value, r.Position.Present = p, true
				}
				var p rulesets.RuleNewParams
				p.ZoneID.Value, p.ZoneID.Present = zone, true
				p.Body = r
				_, err := b.sets().Rules.New(b.Context(), id, p)
				want := c.want
				if want == "" {
					b.refused(err, http.StatusBadRequest, 20120)
					want = "1 2 3"
				} else if err != nil {
					b.Fatal(err)
				}
				var got []string
				for _, e := range b.expressions() {
					n := strings.TrimPrefix(e, "ip.src eq 192.0.2.")
					got = append(got, strings.ReplaceAll(n, "9", "new"))
				}
				if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
					b.Error(diff)
				}
			})
		})
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	run(t, fakecloudflare.Options{Limits: fakecloudflare.Limits{CustomRules: 2}}, func(b *bench) {
		id := b.foreign("ip.src eq 192.0.2.1")
		add := func(r rulesets.RuleNewParamsBodyBlockRule) error {
			var p rulesets.RuleNewParams
			p.ZoneID.Value, p.ZoneID.Present = zone, true
			p.Body = r
			_, err := b.sets().Rules.New(b.Context(), id, p)
			return err
		}
		b.refused(add(block("ip.src in $nolist", "")), http.StatusBadRequest, 20127)
		b.refused(add(block("", "")), http.StatusBadRequest, 20127)
		r := block("ip.src eq 192.0.2.2", "")
		r.Action.Value = "allow"
		b.refused(add(r), http.StatusBadRequest, 20120)
		r = block("ip.src eq 192.0.2.2", "")
		r.Ref.Value, r.Ref.Present = b.s.Rules(zone)[0].Ref, true
		b.refused(add(r), http.StatusBadRequest, 20120)
		if err := add(block("ip.src eq 192.0.2.2", "")); err != nil {
			b.Fatal(err)
		}
		b.refused(add(block("ip.src eq 192.0.2.3", "")), http.StatusBadRequest, 50105)
		if got := b.expressions(); len(got) != 2 {
			b.Errorf("rules %v", got)
		}
	})
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		for _, r := range []fakecloudflare.Rule{
			{Action: "js_challenge", Expression: "ip.src in {192.0.2.0/24}", Disabled: true},
			{Action: "log", Expression: "ip.src in {192.0.2.0/24}"},
			{Action: "skip", Expression: `http.request.uri.path eq "/health"`},
			{Action: "managed_challenge", Expression: "ip.src eq 192.0.2.2"},
			{Action: "block", Expression: "ip.src in {192.0.2.1..192.0.2.3}"},
		} {
			if _, err := b.s.AddForeignRule(zone, r); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range []struct{ addr, path, want string }{
			{"192.0.2.1", "/", "block"},
			{"192.0.2.2", "/", "managed_challenge"},
			{"192.0.2.3", "/health", ""},
			{"192.0.2.4", "/", ""},
		} {
			got := b.s.Decide(zone, fakecloudflare.Visit{Addr: netip.MustParseAddr(c.addr), Path: c.path, At: time.Now()})
			if got.Action != c.want {
				b.Errorf("%s%s: %+v, want %q", c.addr, c.path, got, c.want)
			}
		}
	})
}
