package cloudflare

import (
	"context"
	"net/netip"
	"time"
)

// Teardown removes all items of this instance, and the rules if no other needs
// them. It reports whether there were any.
func (a *Action) Teardown(ctx context.Context) (existed bool, err error) {
	n, err := a.Clear(ctx)
	return n > 0, err
}

// Clear is Teardown, and returns how many items there were. A list that isn't there
// holds none.
func (a *Action) Clear(ctx context.Context) (removed int, err error) {
	if len(a.parts) > 0 {
		return a.inZones(func(z *Action) (int, error) { return z.Clear(ctx) })
	}
	end, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	if !a.opt.AccessRules {
		l, _, err := a.client.findList(ctx, a.opt.List)
		if err != nil || l == nil {
			return 0, err
		}
		a.mu.Lock()
		a.listID = l.id
		a.mu.Unlock()
	}
	if err := a.refresh(ctx); err != nil {
		return 0, err
	}
	var mine []netip.Prefix
	a.mu.Lock()
	for p, it := range a.cache.items {
		if it.mine {
			mine = append(mine, p)
		}
	}
	a.mu.Unlock()
	a.ledger.change(len(mine)) // nobody is kept banned for want of it
	err = a.removeItems(ctx, mine, true, func(it *item, _ time.Time) bool { return it.mine })
	removed = len(mine) - a.count(mine)
	if err == nil {
		err = a.dropRules(ctx)
	}
	return removed, err
}
