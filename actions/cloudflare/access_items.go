package cloudflare

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/tailban/tailban/actions"
)

// Modes of access rules that are not [RuleBlock], [RuleManagedChallenge] or
// [RuleJSChallenge].
const modeAllow = "whitelist"

// DefaultAccessCapacity is how many access rules an account has room for, on every
// plan.
const DefaultAccessCapacity = 50_000

// accessConfig is what a rule for a target is for.
func accessConfig(p netip.Prefix) (target, value string) {
	switch {
	case !p.IsSingleIP():
		return "ip_range", p.String()
	case p.Addr().Is4():
		return "ip", p.Addr().String()
	}
	return "ip6", p.Addr().String()
}

// fullValue is a value as the API may write it, with all zeros of an IPv6 address.
func fullValue(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().StringExpanded()
	}
	return fmt.Sprintf("%s/%d", p.Addr().StringExpanded(), p.Bits())
}

// accessTarget reads what a rule is for; false: it is no address.
func accessTarget(r accessRule) (netip.Prefix, bool) {
	if r.target != "ip" && r.target != "ip6" && r.target != "ip_range" {
		return netip.Prefix{}, false
	}
	return parseIP(strings.TrimSpace(r.value))
}

// fitsRule reports whether a target can be an access rule.
func fitsRule(p netip.Prefix) bool {
	switch bits := p.Bits(); {
	case p.Addr().Is4():
		return bits == 16 || bits == 24 || bits == 32
	case p.Addr().Is4In6():
		return false
	default:
		return bits == 32 || bits == 48 || bits == 64 || bits == 128
	}
}

// unfit says why a target can't be banned; nil: it can. a.mu must be held.
func (a *Action) unfit(p netip.Prefix, now time.Time) error {
	if !a.opt.AccessRules {
		if !fits(p) {
			return fmt.Errorf("%w: an item is an IPv4 network of /%d to /32 or an IPv6 one of /%d to /128", actions.ErrUnsupported, shortest4, shortest6)
		}
		return nil
	}
	if !fitsRule(p) {
		return fmt.Errorf("%w: an access rule is for one address, an IPv4 network of /16 or /24, or an IPv6 one of /32, /48 or /64", actions.ErrUnsupported)
	}
	if by, yes := a.cache.allows(p, now); yes {
		return fmt.Errorf("%w: somebody allows %s at Cloudflare, by an access rule", actions.ErrProtected, by)
	}
	return nil
}

// newRuleCache sorts access rules as [newCache] sorts items.
func newRuleCache(rules []accessRule, instance, mode string) *cache {
	c := &cache{valid: true, items: make(map[netip.Prefix]*item, len(rules))}
	for _, r := range rules {
		p, it := ruleItem(r, instance, mode)
		if it == nil {
			c.other++
			continue
		}
		// One address may have two rules: as such and as a network of one, or a zone's and
		// the account's.
		if was := c.items[p]; was != nil {
			c.other++
			if was.mine || !it.mine && (was.ours || !it.ours) {
				continue
			}
		}
		c.put(p, it)
	}
	return c
}

// ruleItem is what a rule is to us; nil: it is for no address.
func ruleItem(r accessRule, instance, mode string) (netip.Prefix, *item) {
	p, ok := accessTarget(r)
	if !ok {
		return p, nil
	}
	it := &item{id: r.id}
	if !r.beside { // or it is for others to end
		it.tag, it.ours = parseTag(r.notes)
	}
	it.mine, it.until = it.ours && it.tag.instance == instance, it.tag.until
	switch {
	case it.mine:
		it.wrong = r.mode != mode
	case r.mode == modeAllow:
		it.allows = true
	default:
		it.weak = mode == RuleBlock && r.mode != RuleBlock
	}
	return p, it
}

// allows is what others let through, and a target is in.
func (c *cache) allows(target netip.Prefix, now time.Time) (by netip.Prefix, yes bool) {
	for p, it := range c.others.Supernets(target) {
		if it.allows && !it.over(now) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
