package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
)

// Action enforces bans by the items of an account list. Its calls that change
// anything take as long as Cloudflare does; none of them is made for a single ban.
type Action struct {
	opt    Options
	log    *slog.Logger
	client *client
	ledger *ledger
	scope  scope     // of access rules
	parts  []*Action // that do the work, one for each zone with access rules; none: this one does

	look      time.Duration // how long to wait for an operation at first
	tidyEvery time.Duration // between removals of what is over

	work chan struct{} // holds a token while somebody works on the list
	wake chan struct{} // holds one when there may be something to remove earlier
	rule chan struct{} // holds one when the rules are to be looked at earlier

	spent int // changes since the budget was asked for some, of who works on the list

	mu      sync.Mutex
	listID  string
	cache   *cache
	wanted  map[netip.Prefix]want
	refused refusals
	learned learned
	wrote   time.Time // when the last write ended
	tidied  time.Time // when Run has last removed anything
	tidyErr error     // why it could not, the last time
	reread  bool      // List is to read the list
	readAt  time.Time // when it was last read

	turn int // the zone, of parts, that is written to first the next time

	unhurried bool // there is time to wait for requests of access rules

	beside  int  // items that the account's other lists hold
	unused  bool // no rule uses the list, which was said
	stats   Stats
	leases  map[string]Lease // by zone
	refuses Lease            // of a zone whose access rules the token is not for; its Err is nil: it is

	found chan struct{} // closed once the list was found
}

// want is what Apply was told of a target.
type want struct {
	until time.Time
	asked time.Time // when it was first
	by    time.Time // until when others ban it, in our place; zero: nobody does
	check time.Time // when to look whether a rule that was another host's is still there; zero: never
}

// learned is how much room there is as a refusal has shown, for a time.
type learned struct {
	items int // in the list; 0: nothing was learned
	at    time.Time
}

// Stats are counts since New, but for Items and Others, Covered and Waiting.
type Stats struct {
	Items    int // of this instance in the list
	Others   int // all others
	Covered  int // bans that items of others enforce
	Requests uint64
	Writes   uint64 // bulk operations that were completed
	Changes  uint64 // items that they changed
	Waiting  int    // bans that waited for the budget at the last write
	Removed  uint64 // items that were removed as their time was over
	Unused   bool   // no rule uses the list
	Overdue  int    // items of ours that are long over and can't be removed
}

var (
	_ actions.Action  = (*Action)(nil)
	_ actions.Holder  = (*Action)(nil)
	_ actions.Bounded = (*Action)(nil)
	_ actions.Paced   = (*Action)(nil)
	_ actions.Checker = (*Action)(nil)
)

// New returns the action. It calls nobody yet.
func New(o Options) (*Action, error) {
	if err := o.fillIn(); err != nil {
		return nil, err
	}
	ledger := newLedger(o.Budget, o.now)
	ledger.perRule = o.AccessRules
	a := blank(o, ledger, make(chan struct{}, 1))
	if o.Memory != "" {
		if err := a.ledger.load(o.Memory); err != nil {
			a.log.Warn("what is left of the budgets for Cloudflare is not known: they count from now on", slog.Any("err", err))
		}
	}
	a.client = newClient(&a.opt, a.ledger)
	if o.AccessRules {
		a.useZones()
	}
	return a, nil
}

// blank is an action that knows nothing yet.
func blank(o Options, l *ledger, work chan struct{}) *Action {
	return &Action{
		opt: o, log: o.Log, ledger: l, look: firstLook, tidyEvery: tidyEvery,
		work: work, wake: make(chan struct{}, 1), rule: make(chan struct{}, 1),
		cache: &cache{items: map[netip.Prefix]*item{}}, wanted: map[netip.Prefix]want{}, refused: refusals{},
		leases: map[string]Lease{}, found: make(chan struct{}),
	}
}

// begin waits until nobody else works on the list.
func (a *Action) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case a.work <- struct{}{}:
		return func() { <-a.work }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Prepare implements [actions.Action]: it looks for the list, and has the next List
// read it.
func (a *Action) Prepare(ctx context.Context) error {
	if len(a.parts) > 0 {
		return a.prepareZones(ctx)
	}
	end, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	a.mu.Lock()
	a.reread = true
	a.mu.Unlock()
	return a.findList(ctx, a.opt.Create)
}

// Check implements [actions.Checker]. It only reads.
func (a *Action) Check(ctx context.Context) error {
	_, err := a.client.token()
	return errors.Join(ctx.Err(), err)
}

// findList finds the list, or makes it.
func (a *Action) findList(ctx context.Context, create bool) error {
	if a.opt.AccessRules {
		return nil // they are always there
	}
	l, all, err := a.client.findList(ctx, a.opt.List)
	if err == nil && l == nil {
		if !create {
			return actions.Permanent(fmt.Errorf("cloudflare: account %s has no list %q: make one of the kind IP, or set create_list = true", a.opt.Account, a.opt.List))
		}
		l, err = a.client.newList(ctx, a.opt.List, "bans by tailban")
		if err == nil {
			a.log.Info("made the list at Cloudflare", slog.String("list", a.opt.List))
		}
	}
	if err != nil {
		return err
	}
	if l.kind != "ip" {
		return actions.Permanent(fmt.Errorf("cloudflare: the list %q is one of %s, not of addresses", a.opt.List, l.kind))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beside = max(0, all-l.items)
	select {
	case <-a.found:
	default:
		close(a.found)
	}
	if a.listID != l.id {
		a.listID, a.cache.valid = l.id, false
	}
	if unused := l.usedBy == 0 && len(a.opt.Zones) == 0; unused != a.unused {
		if a.unused = unused; unused {
			a.log.Warn("no rule uses the list at Cloudflare, so its bans keep nobody away: make a custom rule with the expression",
				slog.String("expression", "(ip.src in $"+a.opt.List+")"))
		}
	}
	return nil
}

// refresh reads the list.
func (a *Action) refresh(ctx context.Context) error {
	a.mu.Lock()
	id := a.listID
	a.mu.Unlock()
	if id == "" {
		if err := a.findList(ctx, a.opt.Create); err != nil {
			return err
		}
		a.mu.Lock()
		id = a.listID
		a.mu.Unlock()
	}
	c, err := a.read(ctx, id)
	if err != nil {
		return a.failed(err)
	}
	now := a.time()
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.wanted, func(_ netip.Prefix, w want) bool { return !w.until.After(now) })
	for p, it := range c.items { // the comment has whole seconds
		if w, ok := a.wanted[p]; ok && it.mine && sameEnd(it.until, w.until) {
			it.until = w.until
		}
	}
	a.cache, a.reread, a.readAt = c, false, a.opt.now()
	signal(a.wake)
	return nil
}

// time is what time it is at Cloudflare. The ends of items are by that clock, so that
// hosts agree on what is over, whatever their own say.
func (a *Action) time() time.Time { return a.client.gate.time() }

// failed notes that what we know of the list may be wrong.
func (a *Action) failed(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.valid = false
	return err
}

// LookAgain says that somebody may have taken out what this action counts on: the list
// and the rules are looked at soon. It waits for nothing.
func (a *Action) LookAgain() {
	for _, z := range a.parts {
		z.LookAgain()
	}
	a.mu.Lock()
	a.cache.valid, a.tidied = false, time.Time{}
	a.mu.Unlock()
	signal(a.wake)
	signal(a.rule)
}

// sameEnd reports whether two ends are the same, but for parts of a second, which a tag
// doesn't tell, and for what it takes to be told how much is left of a ban. The
// reconciler doesn't tell such ends apart, either.
func sameEnd(a, b time.Time) bool { return a.Sub(b).Abs() < 2*time.Second }

// List implements [actions.Action]: what this instance has in the list, and what
// others have there in its place. It reads the list if Prepare was called since, or
// what is known of it may be wrong; otherwise it is what was read then, with what was
// written since.
func (a *Action) List(ctx context.Context) ([]actions.Entry, error) {
	if len(a.parts) > 0 {
		return a.listZones(ctx)
	}
	end, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	a.mu.Lock()
	fresh := a.cache.valid && (!a.reread || a.readLately(a.opt.now()))
	a.mu.Unlock()
	if !fresh {
		if err := a.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return a.Known(), nil
}

// anyMoment is what a ban has left that has ended and is still in the list.
const anyMoment = time.Nanosecond

// noEnd is listed in place of the time left of what is there otherwise than it should
// be: whoever compares puts it right, or takes it out if it isn't wanted.
const noEnd = time.Duration(0)

// Known is List as far as it is known. It asks nobody, and may be called from any
// goroutine.
func (a *Action) Known() []actions.Entry {
	if len(a.parts) > 0 {
		return a.knownInZones()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.time()
	entries := make([]actions.Entry, 0, a.cache.mine)
	for p, it := range a.cache.items {
		if it.mine {
			entries = append(entries, actions.Entry{Target: p, Left: it.left(now)})
		}
	}
	for p, w := range a.wanted {
		if it := a.cache.items[p]; it != nil && it.mine {
			continue
		}
		if left, yes := a.coveredFor(p, w, now); yes {
			entries = append(entries, actions.Entry{Target: p, Left: left})
		}
	}
	return entries
}

// takeOverFor is how long after the end of what others have put in Run is given to
// put in ours.
const takeOverFor = 3 * tidyEvery

// coveredFor reports whether items of others ban a target in place of one of ours,
// and for how long that is wanted. a.mu must be held.
func (a *Action) coveredFor(p netip.Prefix, w want, now time.Time) (left time.Duration, yes bool) {
	if w.by.IsZero() || !w.until.After(now) {
		return 0, false
	}
	if _, _, covered := a.cache.cover(p, now); !covered && (w.by.After(now) || now.Sub(w.by) > takeOverFor) {
		return 0, false
	}
	return w.until.Sub(now), true
}

// Held implements [actions.Holder], as far as it is known.
func (a *Action) Held(ctx context.Context, target netip.Prefix) (actions.Entry, bool, error) {
	if len(a.parts) > 0 {
		return a.heldInZones(ctx, target)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.time()
	if it := a.cache.items[target]; it != nil && it.mine {
		return actions.Entry{Target: target, Left: it.left(now)}, true, ctx.Err()
	}
	if w, ok := a.wanted[target]; ok {
		if left, yes := a.coveredFor(target, w, now); yes {
			return actions.Entry{Target: target, Left: left}, true, ctx.Err()
		}
	}
	return actions.Entry{}, false, ctx.Err()
}

// Close implements [actions.Action]. Nothing is kept open that matters.
func (a *Action) Close() error { return nil }

// Pause implements [actions.Paced].
func (a *Action) Pause() time.Duration {
	if len(a.parts) > 0 {
		return a.pauseOfZones()
	}
	a.mu.Lock()
	since := a.opt.now().Sub(a.wrote)
	never := a.wrote.IsZero()
	a.mu.Unlock()
	wait := a.ledger.ready()
	if !never {
		wait = max(wait, a.opt.SyncEvery-since)
	}
	return max(0, wait)
}

// learnedFor is how long a refusal for want of room counts.
const learnedFor = time.Hour

// Room implements [actions.Bounded]: what others hold in the account's lists is no
// room of ours.
func (a *Action) Room(netip.Prefix) (place string, size int) {
	if len(a.parts) > 0 {
		return a.roomInZones()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.place(), a.room()
}

// room is how many items of ours fit. a.mu must be held.
func (a *Action) room() int {
	room := a.opt.Capacity - a.beside - a.cache.notMine()
	if l := a.learned; l.items > 0 && a.opt.now().Sub(l.at) < learnedFor {
		room = min(room, l.items)
	}
	return max(1, room)
}

// Usage is what is used of the budgets.
func (a *Action) Usage() []Usage { return a.ledger.usage() }

// Stats returns the counts.
func (a *Action) Stats() Stats {
	if len(a.parts) > 0 {
		return a.statsOfZones()
	}
	a.client.gate.mu.Lock()
	sent := a.client.gate.sent
	a.client.gate.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.Unused = a.unused
	s.Requests, s.Items, s.Others = sent, a.cache.mine, a.cache.notMine()
	now := a.time()
	s.Overdue = a.overdue(now)
	for p, w := range a.wanted {
		if it := a.cache.items[p]; it == nil || !it.mine {
			if _, yes := a.coveredFor(p, w, now); yes {
				s.Covered++
			}
		}
	}
	return s
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
