package cloudflare

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// removeItems removes those items that still are what they should be. Who is not
// patient has read the list just now, and gets errLater instead of waiting for another
// write, which may change that.
func (a *Action) removeItems(ctx context.Context, targets []netip.Prefix, patient bool, still func(*item, time.Time) bool) error {
	if len(targets) == 0 {
		return nil
	}
	if a.opt.AccessRules {
		return a.removeRules(ctx, targets, still)
	}
	if err := a.findIDs(ctx, targets, !patient); err != nil {
		return err
	}
	for part := range slices.Chunk(targets, maxBatch) {
		err := a.removePart(ctx, part, patient, still)
		if is(err, Missing) || is(err, Invalid) { // somebody may have taken out one of them
			if err = a.refresh(ctx); err == nil {
				err = a.removePart(ctx, part, patient, still)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removePart removes one batch.
func (a *Action) removePart(ctx context.Context, part []netip.Prefix, patient bool, still func(*item, time.Time) bool) error {
	var ids []string
	var gone []netip.Prefix
	a.mu.Lock()
	now := a.time()
	for _, p := range part {
		if it := a.cache.items[p]; it != nil && it.id != "" && still(it, now) {
			ids, gone = append(ids, it.id), append(gone, p)
		}
	}
	a.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	tries := 0
	begin := func() (string, int, error) {
		if tries++; tries > 1 && !patient {
			return "", 0, errLater
		}
		id, err := a.client.remove(ctx, a.list(), ids)
		return id, len(ids), err
	}
	if err := a.operate(ctx, begin); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range gone {
		a.cache.drop(p)
	}
	return nil
}

// findIDs finds the ids of items that we have written, and not read since: one by
// one, or all if that takes fewer requests. What is over another host may have taken
// over, unless the list was read just now.
func (a *Action) findIDs(ctx context.Context, targets []netip.Prefix, fresh bool) error {
	var unknown []netip.Prefix
	a.mu.Lock()
	now := a.time()
	for _, p := range targets {
		if it := a.cache.items[p]; it != nil && (it.id == "" || it.over(now) && !fresh) {
			unknown = append(unknown, p)
		}
	}
	pages := a.cache.pages()
	a.mu.Unlock()
	switch {
	case len(unknown) == 0:
		return nil
	case len(unknown) >= pages:
		return a.refresh(ctx)
	}
	for _, p := range unknown {
		raw, err := a.client.items(ctx, a.list(), formatIP(p))
		if err != nil {
			return a.failed(err)
		}
		found := newCache(raw, a.opt.Instance).items[p]
		a.mu.Lock()
		if found == nil {
			a.cache.drop(p)
		} else {
			a.cache.put(p, found)
		}
		a.mu.Unlock()
	}
	return nil
}
