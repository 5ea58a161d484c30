package cloudflare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
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

// phase is that of the rules which a zone's owner has made.
const phase = "http_request_firewall_custom"

// ruleBody is a rule as it is written and read.
type ruleBody struct {
	ID          string `json:"id,omitempty"`
	Ref         string `json:"ref"`
	Action      string `json:"action"`
	Expression  string `json:"expression"`
	Description string `json:"description"`
	Enabled     *bool  `json:"enabled"` // nil: it is
}

func (r *leaseRule) body() ruleBody {
	return ruleBody{Ref: r.ref, Action: r.action, Expression: r.expression(), Description: r.description(), Enabled: &r.enabled}
}

// findRule finds the rule with our reference in a zone. Without one there is still
// the set that it would be in; "": the zone has none.
func (c *client) findRule(ctx context.Context, zone, ref string) (r *zoneRule, set string, err error) {
	var got struct {
		ID    string     `json:"id"`
		Rules []ruleBody `json:"rules"`
	}
	step := call{step: "look for the rule of zone " + zone, needs: needsRules, zone: zone}
	switch err := c.rulesets(ctx, step, http.MethodGet, "phases/"+phase+"/entrypoint", nil, &got); {
	case is(err, Missing):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	for _, x := range got.Rules {
		if x.Ref == ref {
			r = &zoneRule{set: got.ID, id: x.ID, ref: x.Ref, action: x.Action, expression: x.Expression, enabled: x.Enabled == nil || *x.Enabled}
		}
	}
	return r, got.ID, nil
}

// putRule makes our rule in a zone, behind all others, or changes it. Others are left
// as they are. id is the rule's, and set that of the zone; "": there is none.
func (c *client) putRule(ctx context.Context, zone, set, id string, r *leaseRule) error {
	step := call{step: "renew the rule of zone " + zone, needs: needsRules, zone: zone, write: true}
	switch {
	case set == "":
		return c.rulesets(ctx, step, http.MethodPost, "", struct {
			Kind  string     `json:"kind"`
			Name  string     `json:"name"`
			Phase string     `json:"phase"`
			Rules []ruleBody `json:"rules"`
		}{"zone", "default", phase, []ruleBody{r.body()}}, nil)
	case id == "":
		return c.rulesets(ctx, step, http.MethodPost, url.PathEscape(set)+"/rules", r.body(), nil)
	default:
		return c.rulesets(ctx, step, http.MethodPatch, url.PathEscape(set)+"/rules/"+url.PathEscape(id), r.body(), nil)
	}
}

// removeRule removes our rule from a zone.
func (c *client) removeRule(ctx context.Context, zone string, r *zoneRule) error {
	step := call{step: "remove the rule of zone " + zone, needs: needsRules, zone: zone, write: true}
	return c.rulesets(ctx, step, http.MethodDelete, url.PathEscape(r.set)+"/rules/"+url.PathEscape(r.id), nil, nil)
}

// rulesets makes a request about those of a zone. Bodies are JSON; nil: there is none,
// or it is of no use.
//
// It is made without Cloudflare's library, whose package for these requests has 60,000
// lines for all rules that there can be, and makes the program 3 MB larger.
func (c *client) rulesets(ctx context.Context, x call, method, path string, body, result any) error {
	address := c.api + "/zones/" + url.PathEscape(x.zone) + "/rulesets"
	if path != "" {
		address += "/" + path
	}
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err // cannot be
		}
	}
	return c.withToken(ctx, x, func(ctx context.Context, token string) error {
		req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(sent))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("User-Agent", "tailban")
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := c.http.Do(req) // by [transport]: what is no success is an error
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if result == nil {
			return nil
		}
		var answer struct {
			Result json.RawMessage `json:"result"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return err
		}
		return json.Unmarshal(answer.Result, result)
	})
}

// refOf is how we know our rule for a list.
func refOf(list string) string { return "tailban_" + strings.ToLower(list) }
