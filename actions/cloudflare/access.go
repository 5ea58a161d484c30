package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
)

// What follows is about bans that are IP access rules, one for each: there is no bulk
// and no operation to wait for, so that requests are all that has to be saved.

// maxFailures is after how many rules in a row that could not be written or removed
// the others are not tried.
const maxFailures = 3

// readShare is the share of the requests that it may take to read all rules again and
// again.
const readShare = 4

// place names where bans are, for people.
func (a *Action) place() string {
	switch {
	case len(a.parts) > 0:
		return fmt.Sprintf("access rules of %d zones", len(a.parts))
	case a.opt.AccessRules:
		return "access rules of " + a.scope.of(a.opt.Account)
	}
	return "list " + a.opt.List
}

// read reads all that is there.
func (a *Action) read(ctx context.Context, list string) (*cache, error) {
	if a.opt.AccessRules {
		rules, err := a.client.accessRules(ctx, a.scope)
		if err != nil {
			return nil, err
		}
		return newRuleCache(rules, a.opt.Instance, a.opt.RuleAction), nil
	}
	raw, err := a.client.items(ctx, list, "")
	if err != nil {
		return nil, err
	}
	return newCache(raw, a.opt.Instance), nil
}

// review makes sure that what is known is good enough to remove what is over: a list
// is read, rules are looked at one by one before they are removed.
func (a *Action) review(ctx context.Context) error {
	a.mu.Lock()
	enough := a.opt.AccessRules && a.cache.valid
	a.mu.Unlock()
	if enough {
		return nil
	}
	return a.refresh(ctx)
}

// readLately reports whether rules have been read so lately that to do it again would
// leave too few requests for bans. a.mu must be held.
func (a *Action) readLately(now time.Time) bool {
	if !a.opt.AccessRules {
		return false
	}
	each := requestSpan / time.Duration(max(1, a.opt.Budget.Requests/2))
	return now.Sub(a.readAt) < time.Duration(a.cache.pages()*readShare)*each
}

// afford takes as many of some changes out of the budget as it has room for, and
// returns their number. What of them is not made is to be given back.
func (a *Action) afford(removes []netip.Prefix, adds []change) (got int) {
	defer a.warnUsage()
	if !a.opt.AccessRules {
		a.spent = 0
		return a.ledger.change(len(removes) + len(adds))
	}
	if a.unhurried {
		return len(removes) + len(adds)
	}
	left := a.ledger.requestsLeft()
	a.mu.Lock()
	defer a.mu.Unlock()
	// What is there is looked at before it is changed, by itself or together.
	looks := a.cache.pages()
	targets := slices.Clone(removes)
	for _, c := range adds {
		targets = append(targets, c.target)
	}
	for _, p := range targets {
		left--
		if a.cache.items[p] != nil && looks > 0 {
			looks--
			left--
		}
		if left < 0 {
			return got
		}
		got++
	}
	return got
}

// shareOfOver is how many rules that are over go with some additions: as many, and up to
// half of what the budget has.
func (a *Action) shareOfOver(adds int) int {
	if !a.opt.AccessRules {
		return 0
	}
	return min(adds, a.ledger.requestsLeft()/2)
}

// giveBack gives back what of some changes was not spent. Requests are taken as they
// are made.
func (a *Action) giveBack(got int) {
	if !a.opt.AccessRules {
		a.ledger.giveBack(got - a.spent)
	}
}

// ruleFor is what we write for a target.
func (a *Action) ruleFor(id string, c change) accessRule {
	target, value := accessConfig(c.target)
	return accessRule{id, target, value, a.opt.RuleAction, tag{a.opt.Instance, c.until}.String(), false}
}

// addRules writes rules. It names those that Cloudflare refuses.
func (a *Action) addRules(ctx context.Context, adds []change) (rejected []actions.Rejection, err error) {
	targets := make([]netip.Prefix, len(adds))
	for i, c := range adds {
		targets[i] = c.target
	}
	if err := a.lookAgain(ctx, targets); err != nil {
		return nil, err
	}
	failed := 0
	for _, c := range a.stillNeeded(adds) {
		one := a.addRule(ctx, c)
		var r *rejection
		switch {
		case one == nil:
			failed = 0
		case errors.As(one, &r):
			x := actions.Rejection{Target: c.target, Err: r.err}
			rejected = append(rejected, x)
			if r.byCloudflare {
				a.noteRefused(x)
			}
		case is(one, Temporary) && failed < maxFailures:
			failed++
			err = one
		default:
			return rejected, one
		}
	}
	return rejected, err
}

// rejection is why a rule can't be made.
type rejection struct {
	err          error
	byCloudflare bool
}

func (r *rejection) Error() string { return r.err.Error() }
func (r *rejection) Unwrap() error { return r.err }

func (a *Action) noteRefused(x actions.Rejection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused.note(x, a.time())
}

// addRule writes one rule: a new one, or one that is there and ours, or was some
// other host's and is over.
func (a *Action) addRule(ctx context.Context, c change) error {
	for range readTries {
		taken := false
		a.mu.Lock()
		it, now := a.cache.items[c.target], a.time()
		unfit := a.unfit(c.target, now)
		a.mu.Unlock()
		var err error
		switch {
		case unfit != nil:
			return &rejection{err: unfit}
		case it == nil:
			r := a.ruleFor("", c)
			r.id, err = a.client.newAccessRule(ctx, a.scope, r)
			if isDuplicate(err) {
				if err := a.findRule(ctx, c.target); err != nil {
					return err
				}
				continue
			}
			it = &item{id: r.id}
		case !it.mine && !it.over(now):
			a.leaveToOthers(c, now)
			return nil
		default:
			taken = !it.mine
			if err = a.client.editAccessRule(ctx, a.scope, a.ruleFor(it.id, c)); is(err, Missing) {
				a.forget(c.target)
				continue
			}
		}
		if err != nil {
			return a.judgeRule(err)
		}
		a.mu.Lock()
		a.cache.put(c.target, &item{id: it.id, tag: tag{a.opt.Instance, c.until.Truncate(time.Second)}, ours: true, mine: true, until: c.until})
		a.stats.Changes++
		if w, ok := a.wanted[c.target]; ok && taken {
			w.check = now.Add(checkTakenAfter)
			a.wanted[c.target] = w
		}
		a.mu.Unlock()
		return nil
	}
	return &Error{Step: "make an access rule", Kind: Temporary, Err: errNotFound}
}

// judgeRule tells what a refusal is about: this rule, or all.
func (a *Action) judgeRule(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e) || e.Kind != Invalid:
		return err
	case isFull(e.Message):
		return a.full(e.Message)
	}
	return &rejection{fmt.Errorf("%w: %w", actions.ErrUnsupported, err), true}
}

// leaveToOthers notes that the very rule is somebody else's.
func (a *Action) leaveToOthers(c change, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until, _, covered := a.cache.cover(c.target, now); covered {
		if w, ok := a.wanted[c.target]; ok {
			w.by = until
			a.wanted[c.target] = w
		}
	}
}

// findRule looks for a rule that is there, and that we don't know.
func (a *Action) findRule(ctx context.Context, p netip.Prefix) error {
	target, value := accessConfig(p)
	values := []string{value}
	if full := fullValue(p); full != value {
		values = append(values, full)
	}
	for _, v := range values {
		found, _, err := a.client.accessPage(ctx, a.scope, 1, accessRule{target: target, value: v})
		if err != nil {
			return err
		}
		for _, r := range found {
			if at, it := ruleItem(r, a.opt.Instance, a.opt.RuleAction); it != nil && at == p {
				a.learn(p, it)
				return nil
			}
		}
	}
	return a.refresh(ctx)
}

// learn notes a rule as it was just read.
func (a *Action) learn(p netip.Prefix, it *item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.wanted[p]; ok && it.mine && sameEnd(it.until, w.until) {
		it.until = w.until
	}
	a.cache.put(p, it)
}

func (a *Action) forget(p netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.drop(p)
}

// lookAgain reads those rules for targets that are known, before they are changed:
// somebody may have made them theirs. That is done one by one, or for all if that takes
// fewer requests.
func (a *Action) lookAgain(ctx context.Context, targets []netip.Prefix) error {
	ids := map[netip.Prefix]string{}
	a.mu.Lock()
	for _, p := range targets {
		if it := a.cache.items[p]; it != nil {
			ids[p] = it.id
		}
	}
	pages := a.cache.pages()
	a.mu.Unlock()
	if len(ids) >= pages {
		return a.refresh(ctx)
	}
	for p, id := range ids {
		r, found, err := a.client.accessRule(ctx, a.scope, id)
		if err != nil {
			return err
		}
		if _, it := ruleItem(r, a.opt.Instance, a.opt.RuleAction); found && it != nil {
			a.learn(p, it)
		} else {
			a.forget(p)
		}
	}
	return nil
}

// removeRules removes those rules that still are what they should be.
func (a *Action) removeRules(ctx context.Context, targets []netip.Prefix, still func(*item, time.Time) bool) (err error) {
	if err := a.lookAgain(ctx, targets); err != nil {
		return err
	}
	failed := 0
	looked := a.opt.now()
	for i, p := range targets {
		if now := a.opt.now(); now.Sub(looked) > a.lookAgainAfter() {
			if err := a.lookAgain(ctx, targets[i:]); err != nil {
				return err
			}
			looked = now
		}
		a.mu.Lock()
		id := ""
		if it := a.cache.items[p]; it != nil && still(it, a.time()) {
			id = it.id
		}
		a.mu.Unlock()
		if id == "" {
			continue
		}
		switch one := a.client.removeAccessRule(ctx, a.scope, id); {
		case one == nil:
			failed = 0
			a.forget(p)
			a.mu.Lock()
			a.stats.Changes++
			a.mu.Unlock()
		case is(one, Temporary) && failed < maxFailures:
			failed++
			err = one
		default:
			return one
		}
	}
	return err
}

// lookAtScopes is Look for access rules.
func (a *Action) lookAtScopes(ctx context.Context) (found, wrong []string) {
	if len(a.parts) == 0 {
		return a.lookAtRules(ctx)
	}
	for _, z := range a.parts {
		f, w := z.lookAtRules(ctx)
		found, wrong = append(found, f...), append(wrong, w...)
	}
	return found, wrong
}

func (a *Action) lookAtRules(ctx context.Context) (found, wrong []string) {
	rules, total, err := a.client.accessPage(ctx, a.scope, 1, accessRule{})
	if err != nil {
		return nil, []string{err.Error()}
	}
	n := max(total, len(rules))
	found = append(found, fmt.Sprintf("%s has %d access rules, of %d that fit into the account", a.scope.of(a.opt.Account), n, a.opt.Capacity))
	if n >= a.opt.Capacity {
		wrong = append(wrong, fmt.Sprintf("there is no room for another access rule in %s", a.scope.of(a.opt.Account)))
	}
	return found, wrong
}
