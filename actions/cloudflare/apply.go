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
	asked := a.opt.now() // what is left is from then on; others' work on the list may take long
	if len(a.parts) > 0 {
		return a.applyToZones(ctx, add, remove, asked)
	}
	return a.apply(ctx, add, remove, asked)
}

// apply is Apply for one list, or one scope of access rules. What is left of the bans
// is from asked on.
func (a *Action) apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix, asked time.Time) error {
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
	now := a.time()
	adds, rejected := a.sortAdds(add, now, a.opt.now().Sub(asked))
	removes := a.sortRemoves(remove, rejected, now)
	removes = append(removes, a.inTheWay(adds, len(removes), now)...)
	if len(adds)+len(removes) == 0 {
		return result(rejected, nil)
	}

	// Who is let go comes first: the others are a matter of how long.
	slices.SortFunc(adds, func(x, y change) int { return compareWorth(x, y, now) })
	got := a.afford(removes, adds)
	defer func() { a.giveBack(got) }()
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
	more, later, err := a.addItems(ctx, adds)
	if err != nil {
		return err
	}
	for _, c := range later {
		waiting = append(waiting, c.target)
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

// sortAdds leaves out what need not or can't be written. It was asked for some time
// ago.
func (a *Action) sortAdds(add []actions.Entry, now time.Time, ago time.Duration) (adds []change, rejected []actions.Rejection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range add {
		p, left := e.Target, e.Left-ago
		if left < tooShort {
			continue
		}
		if err := a.unfit(p, now); err != nil {
			rejected = append(rejected, actions.Rejection{Target: p, Err: err})
			delete(a.wanted, p)
			continue
		}
		if err := a.refused.of(p, now); err != nil {
			rejected = append(rejected, actions.Rejection{Target: p, Err: err})
			continue
		}
		if a.opt.Protected != nil {
			if why, yes := a.opt.Protected(p); yes {
				rejected = append(rejected, actions.Rejection{Target: p, Err: fmt.Errorf("%w: %s", actions.ErrProtected, why)})
				delete(a.wanted, p)
				continue
			}
		}
		w := want{until: now.Add(left), asked: now}
		if was, ok := a.wanted[p]; ok {
			if w.check = was.check; sameEnd(was.until, w.until) {
				w.asked = was.asked
			}
		}
		until, exact, covered := a.cache.cover(p, now)
		it := a.cache.items[p]
		switch {
		case it != nil && it.mine && !it.wrong && sameEnd(it.until, w.until):
			it.until = w.until
		case covered && covers(until, exact, w.until) && (it == nil || !it.mine):
			w.by = until // which Run looks after
			signal(a.wake)
		default:
			adds = append(adds, change{p, w.until, w.asked})
		}
		a.wanted[p] = w
	}
	return adds, rejected
}

// sortRemoves leaves out what isn't there, or is over, which is for Run, and adds what
// must not be.
func (a *Action) sortRemoves(remove []netip.Prefix, rejected []actions.Rejection, now time.Time) (removes []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rejected {
		remove = append(remove[:len(remove):len(remove)], r.Target)
	}
	for _, p := range remove {
		delete(a.wanted, p)
		if it := a.cache.items[p]; it != nil && it.mine && !it.over(now) {
			removes = append(removes, p)
		}
	}
	return removes
}

// inTheWay are items of ours that are over and for which Run can't be waited: without
// them gone there is no room for what is to be added or, with access rules, all requests
// would go into new ones as long as there are more than can be written.
func (a *Action) inTheWay(adds []change, removes int, now time.Time) (over []netip.Prefix) {
	share := a.shareOfOver(len(adds))
	a.mu.Lock()
	defer a.mu.Unlock()
	added := map[netip.Prefix]bool{}
	lack := a.cache.mine - removes - a.room()
	for _, c := range adds {
		added[c.target] = true
		if it := a.cache.items[c.target]; it == nil || !it.mine {
			lack++
		}
	}
	lack = max(lack, share)
	if lack <= 0 {
		return nil
	}
	for p, it := range a.cache.items {
		if it.mine && it.over(now) && !added[p] && len(over) < lack {
			over = append(over, p)
		}
	}
	return over
}

// addItems writes items. It names those that Cloudflare refuses, and those that have to
// come later, as there are more of these.
func (a *Action) addItems(ctx context.Context, adds []change) (rejected []actions.Rejection, later []change, err error) {
	if a.opt.AccessRules {
		rejected, err = a.addRules(ctx, adds)
		return rejected, nil, err
	}
	for part := range slices.Chunk(adds, maxBatch) {
		refused, rest, err := a.addPart(ctx, part)
		rejected, later = append(rejected, refused...), append(later, rest...)
		if err != nil {
			return rejected, later, err
		}
	}
	return rejected, later, nil
}

// addPart writes one batch, without the items in it that are refused, and those that
// others turn out to have put in. When too many are refused the rest has to come later.
func (a *Action) addPart(ctx context.Context, part []change) (rejected []actions.Rejection, later []change, err error) {
	named := true
	for tried := 0; named; tried++ {
		if tried == maxRefused {
			return rejected, part, nil
		}
		tries := 0
		begin := func() (string, int, error) {
			tries++
			if err := a.verify(ctx, part, tries > 1); err != nil {
				return "", 0, err
			}
			if part = a.stillNeeded(part); len(part) == 0 {
				return "", 0, errNothing
			}
			raw := make([]rawItem, len(part))
			for i, c := range part {
				raw[i] = rawItem{ip: formatIP(c.target), comment: tag{a.opt.Instance, c.until}.String()}
			}
			id, err := a.client.add(ctx, a.list(), raw)
			return id, len(part), err
		}
		err = a.operate(ctx, begin)
		var e *Error
		i := -1
		if named = errors.As(err, &e) && e.Code == codeItem; named {
			i, named = position(e.Message)
		}
		if named = named && i < len(part); named {
			r := actions.Rejection{Target: part[i].target, Err: fmt.Errorf("%w: %w", actions.ErrUnsupported, err)}
			a.mu.Lock()
			a.refused.note(r, a.time())
			a.mu.Unlock()
			rejected = append(rejected, r)
			part = slices.Delete(slices.Clone(part), i, i+1)
		}
	}
	if err != nil {
		return rejected, nil, err
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
	return rejected, nil, nil
}

// verify makes sure that nothing is overwritten that others have put in since the
// list was read. One request tells whether it has as many items as it should, and for
// a few additions one for each whether that very item is there. The list is read again
// if not all is as it should be, if what we know of there is others', or if another
// write has just been waited for.
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
	if !again && len(adds) <= fewAdds {
		var err error
		if again, err = a.anyChanged(ctx, adds); err != nil {
			return err
		}
	}
	if !again {
		return nil
	}
	return a.refresh(ctx)
}

// fewAdds is how many additions are asked for one by one.
const fewAdds = 3

// anyChanged reports whether an item that is to be written is not as we know it.
func (a *Action) anyChanged(ctx context.Context, adds []change) (yes bool, err error) {
	for _, c := range adds {
		raw, err := a.client.items(ctx, a.list(), formatIP(c.target))
		if err != nil {
			return false, err
		}
		found := newCache(raw, a.opt.Instance).items[c.target]
		a.mu.Lock()
		known := a.cache.items[c.target]
		a.mu.Unlock()
		if (found == nil) != (known == nil) || found != nil && found.mine != known.mine {
			return true, nil
		}
	}
	return false, nil
}

// stillNeeded leaves out what others ban by now.
func (a *Action) stillNeeded(adds []change) (needed []change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.time()
	for _, c := range adds {
		it := a.cache.items[c.target]
		if until, exact, covered := a.cache.cover(c.target, now); covered && covers(until, exact, c.until) && (it == nil || !it.mine) {
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

func (a *Action) list() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.listID
}
