package cloudflare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
)

// tooShort is how much time an addition must have left: with less it would be over
// before it is there.
const tooShort = time.Second

// change is one that Apply makes.
type change struct {
	target netip.Prefix
	until  time.Time
	asked  time.Time
}

// Apply implements [actions.Action]. It waits until Cloudflare has done it. What
// the budget has nothing left for is named by an [actions.WaitingError].
func (a *Action) Apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error {
	if len(a.parts) > 0 {
		return a.applyToZones(ctx, add, remove)
	}
	end, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	a.mu.Lock()
	valid := a.cache.valid
	a.mu.Unlock()
	if !valid {
		if err := a.refresh(ctx); err != nil {
			return err
		}
	}
	now := a.opt.now()
	adds, rejected := a.sortAdds(add, now)
	removes := a.sortRemoves(remove, rejected)
	if len(adds)+len(removes) == 0 {
		return result(rejected, nil)
	}

	// Who is let go comes first: the others are a matter of how long.
	slices.SortFunc(adds, func(x, y change) int { return compareWorth(x, y, now) })
	got := a.afford(removes, adds)
	a.warnUsage()
	var waiting []netip.Prefix
	removes, waiting = cut(removes, got, waiting, func(p netip.Prefix) netip.Prefix { return p })
	adds, waiting = cut(adds, got-len(removes), waiting, func(c change) netip.Prefix { return c.target })

	defer func() {
		a.mu.Lock()
		a.wrote, a.stats.Waiting = a.opt.now(), len(waiting)
		a.mu.Unlock()
		signal(a.wake)
	}()
	if err := a.removeItems(ctx, removes, true, func(it *item, _ time.Time) bool { return it.mine }); err != nil {
		return err
	}
	more, err := a.addItems(ctx, adds)
	if err != nil {
		return err
	}
	return result(append(rejected, more...), waiting)
}

// cut leaves the first n of a list, and names the others.
func cut[T any](all []T, n int, waiting []netip.Prefix, name func(T) netip.Prefix) (some []T, named []netip.Prefix) {
	n = min(len(all), max(0, n))
	for _, x := range all[n:] {
		waiting = append(waiting, name(x))
	}
	return all[:n], waiting
}

// compareWorth puts first what is worth more of a short budget: what lasts longer,
// and of that what was decided later, as whoever was banned long ago has likely gone.
func compareWorth(x, y change, now time.Time) int {
	worth := func(c change) float64 {
		return c.until.Sub(now).Seconds() / (60 + now.Sub(c.asked).Seconds())
	}
	return cmp.Or(cmp.Compare(worth(y), worth(x)), x.target.Compare(y.target))
}

func result(rejected []actions.Rejection, waiting []netip.Prefix) error {
	var errs []error
	if len(rejected) > 0 {
		errs = append(errs, &actions.RejectedError{Rejected: rejected})
	}
	if len(waiting) > 0 {
		errs = append(errs, &actions.WaitingError{Targets: waiting})
	}
	return errors.Join(errs...)
}

// sortAdds leaves out what need not or can't be written.
func (a *Action) sortAdds(add []actions.Entry, now time.Time) (adds []change, rejected []actions.Rejection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range add {
		p := e.Target
		if e.Left < tooShort {
			continue
		}
		if err := a.unfit(p, now); err != nil {
			rejected = append(rejected, actions.Rejection{Target: p, Err: err})
			delete(a.wanted, p)
			continue
		}
		if a.opt.Protected != nil {
			if why, yes := a.opt.Protected(p); yes {
				rejected = append(rejected, actions.Rejection{Target: p, Err: fmt.Errorf("%w: %s", actions.ErrProtected, why)})
				delete(a.wanted, p)
				continue
			}
		}
		w := want{until: now.Add(e.Left), asked: now}
		if was, ok := a.wanted[p]; ok && sameEnd(was.until, w.until) {
			w.asked = was.asked
		}
		until, exact, covered := a.cache.cover(p, now)
		it := a.cache.items[p]
		switch {
		case it != nil && it.mine && !it.wrong && (it.until.Equal(w.until.Truncate(time.Second)) || it.until.Equal(w.until)):
			it.until = w.until
		case covered && covers(until, exact, w.until):
			w.by = until
		default:
			adds = append(adds, change{p, w.until, w.asked})
		}
		a.wanted[p] = w
	}
	return adds, rejected
}

// sortRemoves leaves out what isn't there, and adds what must not be.
func (a *Action) sortRemoves(remove []netip.Prefix, rejected []actions.Rejection) (removes []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rejected {
		remove = append(remove[:len(remove):len(remove)], r.Target)
	}
	for _, p := range remove {
		delete(a.wanted, p)
		if it := a.cache.items[p]; it != nil && it.mine {
			removes = append(removes, p)
		}
	}
	return removes
}

// addItems writes items. It names those that Cloudflare refuses.
func (a *Action) addItems(ctx context.Context, adds []change) (rejected []actions.Rejection, err error) {
	if a.opt.AccessRules {
		return a.addRules(ctx, adds)
	}
	for len(adds) > 0 {
		part := adds[:min(len(adds), maxBatch)]
		more, err := a.addPart(ctx, part)
		if err != nil {
			return rejected, err
		}
		rejected = append(rejected, more...)
		adds = adds[len(part):]
	}
	return rejected, nil
}

// addPart writes one batch, without the items in it that are refused, and those that
// others turn out to have put in.
func (a *Action) addPart(ctx context.Context, part []change) (rejected []actions.Rejection, err error) {
	for range maxRefused {
		tries := 0
		begin := func() (string, error) {
			tries++
			if err := a.verify(ctx, part, tries > 1); err != nil {
				return "", err
			}
			if part = a.stillNeeded(part); len(part) == 0 {
				return "", errNothing
			}
			raw := make([]rawItem, len(part))
			for i, c := range part {
				raw[i] = rawItem{ip: formatIP(c.target), comment: tag{a.opt.Instance, c.until}.String()}
			}
			return a.client.add(ctx, a.list(), raw)
		}
		err = a.operate(ctx, len(part), begin)
		var e *Error
		i, named := -1, false
		if errors.As(err, &e) && e.Code == codeItem {
			i, named = position(e.Message)
		}
		if !named || i >= len(part) {
			break
		}
		rejected = append(rejected, actions.Rejection{Target: part[i].target, Err: fmt.Errorf("%w: %w", actions.ErrUnsupported, err)})
		part = slices.Delete(slices.Clone(part), i, i+1)
	}
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range part {
		t := tag{a.opt.Instance, c.until.Truncate(time.Second)}
		id := ""
		if it := a.cache.items[c.target]; it != nil {
			id = it.id
		}
		a.cache.put(c.target, &item{id: id, tag: t, ours: true, mine: true, until: c.until})
	}
	return rejected, nil
}

// verify makes sure that nothing is overwritten that others have put in since the
// list was read. One request tells whether it has as many items as it should. It is
// read again if not, if what we know of there is others', or if another write has
// just been waited for.
func (a *Action) verify(ctx context.Context, adds []change, waited bool) error {
	a.mu.Lock()
	again := waited || !a.cache.valid
	for _, c := range adds {
		it := a.cache.items[c.target]
		again = again || it != nil && !it.mine
	}
	size := a.cache.size()
	a.mu.Unlock()
	if !again {
		n, err := a.client.listSize(ctx, a.list())
		if err != nil {
			return err
		}
		again = n != size
	}
	if !again {
		return nil
	}
	return a.refresh(ctx)
}

// stillNeeded leaves out what others ban by now.
func (a *Action) stillNeeded(adds []change) (needed []change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.opt.now()
	for _, c := range adds {
		if until, exact, covered := a.cache.cover(c.target, now); covered && covers(until, exact, c.until) {
			if w, ok := a.wanted[c.target]; ok {
				w.by = until
				a.wanted[c.target] = w
			}
			continue
		}
		needed = append(needed, c)
	}
	return needed
}

// covers reports whether others' items that end then ban a target in our place: the
// very item is theirs as long as it lasts, others have to last as long as ours.
func covers(until time.Time, exact bool, ours time.Time) bool {
	return exact || !until.Before(ours.Add(-time.Second))
}

// removeItems removes those items that still are what they should be. Who is not
// patient gets errLater instead of waiting for another write, which may change that.
func (a *Action) removeItems(ctx context.Context, targets []netip.Prefix, patient bool, still func(*item, time.Time) bool) error {
	if len(targets) == 0 {
		return nil
	}
	if a.opt.AccessRules {
		return a.removeRules(ctx, targets, still)
	}
	if err := a.findIDs(ctx, targets); err != nil {
		return err
	}
	for part := range slices.Chunk(targets, maxBatch) {
		var ids []string
		var gone []netip.Prefix
		a.mu.Lock()
		now := a.opt.now()
		for _, p := range part {
			if it := a.cache.items[p]; it != nil && it.id != "" && still(it, now) {
				ids, gone = append(ids, it.id), append(gone, p)
			}
		}
		a.mu.Unlock()
		if len(ids) == 0 {
			continue
		}
		tries := 0
		begin := func() (string, error) {
			if tries++; tries > 1 && !patient {
				return "", errLater
			}
			return a.client.remove(ctx, a.list(), ids)
		}
		if err := a.operate(ctx, len(ids), begin); err != nil {
			return err
		}
		a.mu.Lock()
		for _, p := range gone {
			a.cache.drop(p)
		}
		a.mu.Unlock()
	}
	return nil
}

// findIDs finds the ids of items that we have written, and not read since: one by
// one, or all if that takes fewer requests.
func (a *Action) findIDs(ctx context.Context, targets []netip.Prefix) error {
	var unknown []netip.Prefix
	a.mu.Lock()
	for _, p := range targets {
		if it := a.cache.items[p]; it != nil && it.id == "" {
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

func (a *Action) list() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.listID
}
