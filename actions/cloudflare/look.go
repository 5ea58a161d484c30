package cloudflare

import (
	"context"
	"fmt"
)

// Look asks the API what an action needs to know, and changes nothing. Each finding
// is a sentence; wrong ones are of what keeps bans from being enforced. Whether the
// token may change what it can read can't be told by reading.
func (a *Action) Look(ctx context.Context) (found, wrong []string) {
	if a.opt.AccessRules {
		return a.lookAtScopes(ctx)
	}
	l, all, err := a.client.findList(ctx, a.opt.List)
	switch {
	case err != nil:
		return nil, []string{err.Error()}
	case l == nil && a.opt.Create:
		found = append(found, fmt.Sprintf("the list %s isn't there yet, and will be made", a.opt.List))
	case l == nil:
		wrong = append(wrong, fmt.Sprintf("there is no list %s in account %s", a.opt.List, a.opt.Account))
	case l.kind != "ip":
		wrong = append(wrong, fmt.Sprintf("the list %s is one of %s, not of addresses", a.opt.List, l.kind))
	default:
		found = append(found, fmt.Sprintf("the list %s has %d items", a.opt.List, l.items))
		if l.usedBy == 0 && len(a.opt.Zones) == 0 {
			wrong = append(wrong, fmt.Sprintf("no rule uses the list %s, so it keeps nobody away", a.opt.List))
		}
	}
	found = append(found, fmt.Sprintf("all lists of the account have %d items, of %d that fit", all, a.opt.Capacity))
	if all >= a.opt.Capacity {
		wrong = append(wrong, "the lists of the account are full")
	}
	for _, zone := range a.opt.Zones {
		r, _, err := a.client.findRule(ctx, zone, refOf(a.opt.List))
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
		case r == nil:
			found = append(found, fmt.Sprintf("zone %s has no rule yet: one will be made", zone))
		case !r.enabled:
			wrong = append(wrong, fmt.Sprintf("the rule of zone %s is turned off", zone))
		default:
			found = append(found, fmt.Sprintf("zone %s has the rule", zone))
		}
	}
	return found, wrong
}
