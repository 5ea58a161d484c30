package cloudflare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cloudflare/cloudflare-go/v7/firewall"
	"github.com/cloudflare/cloudflare-go/v7/option"
)

// What a token needs for access rules, of the account and of a zone.
const (
	needsAccess     = "Account > Account Firewall Access Rules > Edit"
	needsZoneAccess = "Zone > Firewall Services > Edit"
)

// scope is whose access rules they are: those of a zone or, with "", the account's.
type scope string

func (s scope) needs() string {
	if s == "" {
		return needsAccess
	}
	return needsZoneAccess
}

// of names it, for who knows the account.
func (s scope) of(account string) string {
	if s == "" {
		return "account " + account
	}
	return "zone " + string(s)
}

func (c *client) accessCall(s scope, step string, write bool) call {
	return call{step: step + " of " + s.of(c.account), needs: s.needs(), zone: string(s), write: write}
}

// ids are the two parts of a path of which one says whose rules they are, and the other
// is empty. The library goes by that, and not by whether they are present.
func (c *client) ids(s scope) (account, zone string) {
	if s == "" {
		return c.account, ""
	}
	return "", string(s)
}

// accessRule is an access rule as the API has it.
type accessRule struct {
	id            string
	target, value string // what it is for: "ip", "ip6", "ip_range", or what is no address
	mode, notes   string
	beside        bool // it is not the scope's, and listed as it holds there: it can't be changed from there
}

// besideOf reports whether a rule is of something wider than the scope that it is listed
// for: a zone's are listed with the account's and the user's.
func (s scope) besideOf(kind string) bool {
	switch kind {
	case "user":
		return true
	case "account", "organization":
		return s != ""
	}
	return false
}

// Codes of refusals about access rules, as others have seen them, beside what their
// messages say.
const codeAccessDuplicate = 10009

// isDuplicate reports whether a rule was refused as there is one for the same address.
func isDuplicate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Invalid && (e.Code == codeAccessDuplicate || strings.Contains(e.Message, "duplicate"))
}

// readTries is how often all rules are read if they change meanwhile.
const readTries = 3

// accessRules lists all rules of a scope. Pages are by number, so that what somebody
// removes meanwhile hides another: then they are read again.
func (c *client) accessRules(ctx context.Context, s scope) (all []accessRule, err error) {
	for range readTries {
		found := map[string]bool{}
		all = all[:0]
		total, still := 0, true
		for page := 1; page <= maxPages; page++ {
			part, of, err := c.accessPage(ctx, s, page, accessRule{})
			if err != nil {
				return nil, err
			}
			before := len(all)
			for _, r := range part {
				if !found[r.id] {
					found[r.id], all = true, append(all, r)
				}
			}
			if len(part) > 0 && len(all) == before {
				return nil, &Error{Step: "list access rules", Kind: Temporary, Status: http.StatusOK, Message: "a page leads to itself"}
			}
			still = still && (page == 1 || of == total)
			if total = of; len(part) == 0 || len(all) >= total && total > 0 {
				break
			}
		}
		if still && len(all) >= total {
			return all, nil
		}
	}
	return all, nil // what is missing turns up as a duplicate, or next time
}

// accessPage lists one page of the rules that are for the same as like; its zero
// value: of all. total is how many there are; 0: none, or it isn't said.
func (c *client) accessPage(ctx context.Context, s scope, number int, like accessRule) (all []accessRule, total int, err error) {
	err = c.call(ctx, c.accessCall(s, "list access rules", false), func(ctx context.Context, auth option.RequestOption) error {
		var p firewall.AccessRuleListParams
		p.AccountID.Value, p.ZoneID.Value = c.ids(s)
		p.Page.Value, p.Page.Present = float64(number), true
		p.PerPage.Value, p.PerPage.Present = perPage, true
		if like.value != "" {
			var f firewall.AccessRuleListParamsConfiguration
			f.Target.Value, f.Target.Present = firewall.AccessRuleListParamsConfigurationTarget(like.target), true
			f.Value.Value, f.Value.Present = like.value, true
			p.Configuration.Value, p.Configuration.Present = f, true
		}
		page, err := c.access.List(ctx, p, auth)
		if err != nil {
			return err
		}
		var info struct {
			Total int `json:"total_count"`
		}
		_ = json.Unmarshal([]byte(page.ResultInfo.JSON.RawJSON()), &info) // or it isn't said
		all, total = nil, info.Total
		for _, r := range page.Result {
			all = append(all, accessRule{r.ID, string(r.Configuration.Target), r.Configuration.Value, string(r.Mode), r.Notes, s.besideOf(string(r.Scope.Type))})
		}
		return nil
	})
	return all, total, err
}

// accessRule reads one rule; false: there is none with that id.
func (c *client) accessRule(ctx context.Context, s scope, id string) (r accessRule, found bool, err error) {
	err = c.call(ctx, c.accessCall(s, "look at an access rule", false), func(ctx context.Context, auth option.RequestOption) error {
		var p firewall.AccessRuleGetParams
		p.AccountID.Value, p.ZoneID.Value = c.ids(s)
		got, err := c.access.Get(ctx, id, p, auth)
		if err != nil {
			return err
		}
		r = accessRule{got.ID, string(got.Configuration.Target), got.Configuration.Value, string(got.Mode), got.Notes, s.besideOf(string(got.Scope.Type))}
		return nil
	})
	if is(err, Missing) {
		return accessRule{}, false, nil
	}
	return r, err == nil, err
}

// newAccessRule makes a rule, and returns its id.
func (c *client) newAccessRule(ctx context.Context, s scope, r accessRule) (id string, err error) {
	err = c.call(ctx, c.accessCall(s, "make an access rule", true), func(ctx context.Context, auth option.RequestOption) error {
		var p firewall.AccessRuleNewParams
		p.AccountID.Value, p.ZoneID.Value = c.ids(s)
		var f firewall.AccessRuleNewParamsConfiguration
		f.Target.Value, f.Target.Present = firewall.AccessRuleNewParamsConfigurationTarget(r.target), true
		f.Value.Value, f.Value.Present = r.value, true
		p.Configuration.Value, p.Configuration.Present = f, true
		p.Mode.Value, p.Mode.Present = firewall.AccessRuleNewParamsMode(r.mode), true
		p.Notes.Value, p.Notes.Present = r.notes, true
		made, err := c.access.New(ctx, p, auth)
		if err != nil {
			return err
		}
		if id = made.ID; id == "" {
			return &Error{Kind: Temporary, Message: "the answer names no rule"}
		}
		return nil
	})
	return id, err
}

// editAccessRule gives a rule another mode and other notes.
func (c *client) editAccessRule(ctx context.Context, s scope, r accessRule) error {
	return c.call(ctx, c.accessCall(s, "change an access rule", true), func(ctx context.Context, auth option.RequestOption) error {
		var p firewall.AccessRuleEditParams
		p.AccountID.Value, p.ZoneID.Value = c.ids(s)
		var f firewall.AccessRuleEditParamsConfiguration
		f.Target.Value, f.Target.Present = firewall.AccessRuleEditParamsConfigurationTarget(r.target), true
		f.Value.Value, f.Value.Present = r.value, true
		p.Configuration.Value, p.Configuration.Present = f, true
		p.Mode.Value, p.Mode.Present = firewall.AccessRuleEditParamsMode(r.mode), true
		p.Notes.Value, p.Notes.Present = r.notes, true
		_, err := c.access.Edit(ctx, r.id, p, auth)
		return err
	})
}

// removeAccessRule removes a rule. That there is none is success.
func (c *client) removeAccessRule(ctx context.Context, s scope, id string) error {
	err := c.call(ctx, c.accessCall(s, "remove an access rule", true), func(ctx context.Context, auth option.RequestOption) error {
		var p firewall.AccessRuleDeleteParams
		p.AccountID.Value, p.ZoneID.Value = c.ids(s)
		_, err := c.access.Delete(ctx, id, p, auth)
		return err
	})
	if is(err, Missing) {
		return nil
	}
	return err
}

var errNotFound = fmt.Errorf("cloudflare: an access rule is said to be there, and isn't found")
