package config

import "strings"

// Modes of an action at Cloudflare.
const (
	ModeList        = "list"
	ModeAccessRules = "access_rules"
)

// DefaultAccessCapacity is how many access rules an account has room for, on every
// plan.
const DefaultAccessCapacity = 50_000

// readMode reads whether bans are items of a list or access rules, and what has no
// meaning then.
func (c *Cloudflare) readMode(t named) {
	n, ok := t.get("mode")
	if !ok {
		return
	}
	mode, _ := n.oneOf(ModeList, ModeAccessRules)
	if c.AccessRules = mode == ModeAccessRules; !c.AccessRules {
		return
	}
	c.Capacity = DefaultAccessCapacity
	for _, key := range []string{"list", "create_list"} {
		if n, ok := t.get(key); ok {
			n.bad("is about a list, and by mode = %q there is none", ModeAccessRules)
		}
	}
	if n, ok := t.get("lease"); ok {
		n.bad("is about the rule that uses a list, and by mode = %q there is none: nothing at Cloudflare ends access rules when tailban is gone", ModeAccessRules)
	}
	if n, ok := t.get("changes"); ok {
		n.bad("is about items of a list: by mode = %q each change is a request, and counts in requests", ModeAccessRules)
	}
}

// RulesOf names whose access rules they are.
func (c *Cloudflare) RulesOf() string {
	switch len(c.Zones) {
	case 0:
		return "Cloudflare account " + c.Account
	case 1:
		return "Cloudflare zone " + c.Zones[0]
	}
	return "Cloudflare zones " + strings.Join(c.Zones, ", ")
}

func warnAccessRules(doc *document, at path) {
	doc.warn(at.key("mode"), "bans here outlive a dead daemon: access rules have no end at Cloudflare, and are taken out at their time only while some tailban is there. Have a timer on another machine run tailban cloudflare sweep")
}

// Mode is where bans are.
func (c *Cloudflare) Mode() string {
	if c.AccessRules {
		return ModeAccessRules
	}
	return ModeList
}

// Leases reports whether rules are kept that use the list.
func (c *Cloudflare) Leases() bool { return len(c.Zones) > 0 && !c.AccessRules }

// UseRules makes it one with access rules, of zones or, without any, of the account.
func (c *Cloudflare) UseRules(zones []string) error {
	c.AccessRules, c.Zones, c.List, c.Capacity = true, zones, "", DefaultAccessCapacity
	return c.problem()
}
