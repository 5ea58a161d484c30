package cloudflare

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/rulesets"
)

// needsRules is what a token needs for the rules of a zone.
const needsRules = "Zone > Zone WAF > Edit"

// Actions that a rule may have.
const (
	RuleBlock            = "block"
	RuleManagedChallenge = "managed_challenge"
	RuleJSChallenge      = "js_challenge"
)

// leaseRule is the one rule of ours in a zone.
type leaseRule struct {
	ref      string // by which we know it
	action   string
	list     string
	deadline time.Time // whole seconds
	enabled  bool
}

func (r *leaseRule) expression() string {
	return fmt.Sprintf("(ip.src in $%s and http.request.timestamp.sec lt %d)", r.list, r.deadline.Unix())
}

func (r *leaseRule) description() string {
	return "tailban: blocks what is in the list " + r.list + ", and lapses by itself when no tailban renews it"
}

// deadlineOf reads the deadline of an expression of ours; false: it is none, as
// somebody has changed it.
func deadlineOf(expression, list string) (t time.Time, ok bool) {
	var n int64
	if _, err := fmt.Sscanf(expression, "(ip.src in $"+list+" and http.request.timestamp.sec lt %d)", &n); err != nil {
		return time.Time{}, false
	}
	r := leaseRule{list: list, deadline: time.Unix(n, 0)}
	return r.deadline, r.expression() == expression
}

// zoneRule is a rule as the API has it, and the set that it is in.
type zoneRule struct {
	set, id                 string
	ref, action, expression string
	enabled                 bool
}

// findRule finds the rule with our reference in a zone. Without one there is still
// the set that it would be in; "": the zone has none.
func (c *client) findRule(ctx context.Context, zone, ref string) (r *zoneRule, set string, err error) {
	err = c.call(ctx, call{step: "look for the rule of zone " + zone, needs: needsRules, zone: zone}, func(ctx context.Context, auth option.RequestOption) error {
		var p rulesets.PhaseGetParams
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		got, err := c.rules.Phases.Get(ctx, rulesets.PhaseHTTPRequestFirewallCustom, p, auth)
		if err != nil {
			return err
		}
		set = got.ID
		for _, x := range got.Rules {
			if x.Ref == ref {
				r = &zoneRule{set: set, id: x.ID, ref: x.Ref, action: string(x.Action), expression: x.Expression, enabled: x.Enabled}
			}
		}
		return nil
	})
	if is(err, Missing) {
		return nil, "", nil
	}
	return r, set, err
}

// putRule makes our rule in a zone, behind all others, or changes it. Others are left
// as they are. id is the rule's, and set that of the zone; "": there is none.
func (c *client) putRule(ctx context.Context, zone, set, id string, r *leaseRule) error {
	step := call{step: "renew the rule of zone " + zone, needs: needsRules, zone: zone, write: true}
	return c.call(ctx, step, func(ctx context.Context, auth option.RequestOption) error {
		switch {
		case set == "":
			var p rulesets.RulesetNewParams
			var b rulesets.RulesetNewParamsRule
			p.ZoneID.Value, p.ZoneID.Present = zone, true
			p.Kind.Value, p.Kind.Present = rulesets.KindZone, true
			p.Name.Value, p.Name.Present = "default", true
			p.Phase.Value, p.Phase.Present = rulesets.PhaseHTTPRequestFirewallCustom, true
			b.Action.Value, b.Action.Present = rulesets.RulesetNewParamsRulesAction(r.action), true
			b.Expression.Value, b.Expression.Present = r.expression(), true
			b.Description.Value, b.Description.Present = r.description(), true
			b.Enabled.Value, b.Enabled.Present = r.enabled, true
			b.Ref.Value, b.Ref.Present = r.ref, true
			p.Rules.Value, p.Rules.Present = []rulesets.RulesetNewParamsRuleUnion{b}, true
			_, err := c.rules.New(ctx, p, auth)
			return err
		case id == "":
			var p rulesets.RuleNewParams
			var b rulesets.RuleNewParamsBody
			p.ZoneID.Value, p.ZoneID.Present = zone, true
			b.Action.Value, b.Action.Present = rulesets.RuleNewParamsBodyAction(r.action), true
			b.Expression.Value, b.Expression.Present = r.expression(), true
			b.Description.Value, b.Description.Present = r.description(), true
			b.Enabled.Value, b.Enabled.Present = r.enabled, true
			b.Ref.Value, b.Ref.Present = r.ref, true
			p.Body = b
			_, err := c.rules.Rules.New(ctx, set, p, auth)
			return err
		}
		var p rulesets.RuleEditParams
		var b rulesets.RuleEditParamsBody
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		b.Action.Value, b.Action.Present = rulesets.RuleEditParamsBodyAction(r.action), true
		b.Expression.Value, b.Expression.Present = r.expression(), true
		b.Description.Value, b.Description.Present = r.description(), true
		b.Enabled.Value, b.Enabled.Present = r.enabled, true
		b.Ref.Value, b.Ref.Present = r.ref, true
		p.Body = b
		_, err := c.rules.Rules.Edit(ctx, set, id, p, auth)
		return err
	})
}

// removeRule removes our rule from a zone.
func (c *client) removeRule(ctx context.Context, zone string, r *zoneRule) error {
	step := call{step: "remove the rule of zone " + zone, needs: needsRules, zone: zone, write: true}
	return c.call(ctx, step, func(ctx context.Context, auth option.RequestOption) error {
		var p rulesets.RuleDeleteParams
		p.ZoneID.Value, p.ZoneID.Present = zone, true
		_, err := c.rules.Rules.Delete(ctx, r.set, r.id, p, auth)
		return err
	})
}

// refOf is how we know our rule for a list.
func refOf(list string) string { return "tailban_" + strings.ToLower(list) }
