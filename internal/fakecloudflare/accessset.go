package fakecloudflare

import (
	"net/netip"
	"slices"
)

// An accessSet holds the access rules of an account or zone, oldest first, and finds
// them by id and by what they are for.
type accessSet struct {
	rules []*accessRule
	byID  map[string]*accessRule
	byFor map[accessConfig]*accessRule
}

func (set *accessSet) same(r *accessRule) *accessRule {
	return set.byFor[accessConfig{r.target, r.value}]
}

func (set *accessSet) add(r *accessRule) {
	if set.byID == nil {
		set.byID, set.byFor = make(map[string]*accessRule), make(map[accessConfig]*accessRule)
	}
	set.rules = append(set.rules, r)
	set.byID[r.id], set.byFor[accessConfig{r.target, r.value}] = r, r
}

func (set *accessSet) drop(r *accessRule) {
	at := slices.Index(set.rules, r)
	set.rules = slices.Delete(set.rules, at, at+1)
	delete(set.byID, r.id)
	delete(set.byFor, accessConfig{r.target, r.value})
}

// decideAccess finds the rule that decides about a client: one that allows is
// stronger than one that blocks, and that than one that challenges.
func decideAccess(a netip.Addr, sets ...accessSet) *accessRule {
	strength := func(r *accessRule) int {
		switch r.mode {
		case modeAllow:
			return 3
		case "block":
			return 2
		}
		return 1
	}
	var best *accessRule
	for _, set := range sets {
		for _, r := range set.rules {
			if r.prefix.IsValid() && r.prefix.Contains(a) && (best == nil || strength(r) > strength(best)) {
				best = r
			}
		}
	}
	return best
}

func (set *accessSet) forValue(value string) *accessRule {
	i := slices.IndexFunc(set.rules, func(r *accessRule) bool { return r.value == value })
	if i < 0 {
		return nil
	}
	return set.rules[i]
}
