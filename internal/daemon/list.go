package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// Bans implements control.Viewer.
func (d *daemon) Bans(ctx context.Context, q control.BansQuery) (*control.Bans, error) {
	if q.Sort != "" && !slices.Contains(control.Sorts(), q.Sort) {
		return nil, &control.Error{Code: control.CodeBadRequest, Message: "bans can't be sorted by " + quote(q.Sort), Hint: "by one of " + list(control.Sorts())}
	}
	select { // many bans are much memory: one list at a time
	case d.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}
	var found pick
	defer func(began time.Time) {
		// Whoever asks again and again leaves the engine most of its time.
		time.AfterFunc(listRest*found.took-time.Since(began), func() { <-d.listing })
	}(time.Now())
	found, err := asked(ctx, d, func(e *engine, now time.Time) (pick, error) {
		keys, err := e.pick(&q)
		return pick{keys, now, time.Since(now)}, err
	})
	if err != nil {
		return nil, err
	}
	picked := found.keys
	out := &control.Bans{Now: found.at.UTC(), Total: len(picked), Bans: []control.Ban{}}
	sortKeys(picked, q.Sort)
	if q.Sort != "packets" {
		picked = cut(picked, q.Limit)
	}
	// In pieces, between which the engine does its work.
	for part := range slices.Chunk(picked, shownAtOnce) {
		bans, err := asked(ctx, d, func(e *engine, _ time.Time) ([]control.Ban, error) { return e.shownAll(part), nil })
		if err != nil {
			return nil, err
		}
		out.Bans = append(out.Bans, bans...)
	}
	d.fillHeld(ctx, out.Bans)
	if q.Sort == "packets" {
		slices.SortStableFunc(out.Bans, func(a, b control.Ban) int { return cmp.Compare(dropped(&b), dropped(&a)) })
		out.Bans = cut(out.Bans, q.Limit)
	}
	return out, nil
}

// listRest is how many times longer than the look through all bans is the time
// from one list to the next at least.
const listRest = 20

// shownAtOnce is how many bans are copied between two events.
const shownAtOnce = 256

func cut[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// sortKey is what a ban is sorted by.
type sortKey struct {
	target  netip.Prefix
	at      time.Time // its end, or its beginning
	offence int
}

// pick is what a query has picked.
type pick struct {
	keys []sortKey
	at   time.Time
	took time.Duration // on the engine's goroutine
}

// pick lists the bans that a query is about.
func (e *engine) pick(q *control.BansQuery) ([]sortKey, error) {
	if q.Jail != "" {
		if err := e.checkOwner(q.Jail); err != nil {
			return nil, err
		}
	}
	out := make([]sortKey, 0, len(e.bans.bans))
	for target, h := range e.bans.bans {
		if !picks(q, &h.Ban) {
			continue
		}
		k := sortKey{target: target, at: h.end}
		switch q.Sort {
		case "since":
			k.at = h.since()
		case "offence":
			for i := range h.Owners {
				k.offence = max(k.offence, h.Owners[i].Offence)
			}
		}
		out = append(out, k)
	}
	return out, nil
}

// shownAll shows the bans of some targets, those that are still there.
func (e *engine) shownAll(keys []sortKey) []control.Ban {
	out := make([]control.Ban, 0, len(keys))
	for i := range keys {
		if h := e.bans.bans[keys[i].target]; h != nil {
			out = append(out, e.shown(h))
		}
	}
	return out
}

func picks(q *control.BansQuery, b *state.Ban) bool {
	return (!q.Overlap.IsValid() || q.Overlap.Overlaps(b.Target)) &&
		(q.Jail == "" || slices.ContainsFunc(b.Owners, func(o state.Owner) bool { return o.Jail == q.Jail })) &&
		(q.Action == "" || !b.Until(q.Action).IsZero())
}

func sortKeys(keys []sortKey, by string) {
	slices.SortFunc(keys, func(a, b sortKey) int {
		c := 0
		switch by {
		case "since":
			c = b.at.Compare(a.at)
		case "offence":
			c = cmp.Compare(b.offence, a.offence)
		case "target", "packets":
		default:
			c = a.at.Compare(b.at)
		}
		return cmp.Or(c, a.target.Compare(b.target))
	})
}

func dropped(b *control.Ban) (n uint64) {
	for i := range b.Actions {
		if p := b.Actions[i].Packets; p != nil {
			n += *p
		}
	}
	return n
}

// shown is a ban as people get to see it, without what only actions know.
func (e *engine) shown(h *heldBan) control.Ban {
	b := control.Ban{
		Target: h.Target, Origin: h.Origin, Since: utc(h.since()), Until: utc(h.end), Observed: !h.Waiting, Waiting: h.Waiting,
		Owners: make([]control.Owner, 0, len(h.Owners)), Actions: []control.AtAction{}, Seen: h.requests, SeenForwarded: h.forwarded,
	}
	if h.lastRequest != 0 {
		b.LastSeen = time.Unix(0, h.lastRequest).UTC()
	}
	for i := range h.Owners {
		o := &h.Owners[i]
		shown := control.Owner{
			Jail: o.Jail, Client: o.Client, Since: utc(o.Since), Until: utc(o.Until), Offence: o.Offence, Count: o.Count,
			Limit: o.Limit, Window: o.Window.Seconds(), Plane: o.Plane, Reason: o.Reason, By: o.By, Event: utc(o.Event),
			File: o.Line.Path, Offset: o.Line.Offset, Actions: nonNil(slices.Clone(o.Actions)),
		}
		if o.Sample != nil {
			shown.Line = evidence(o.Sample, detector.Line{Path: o.Line.Path, Offset: o.Line.Offset}, utc(o.Event))
			shown.Line.Client = o.Client
		}
		b.Owners = append(b.Owners, shown)
	}
	for name := range e.reconciler {
		if end := h.Ban.Until(name); !end.IsZero() {
			b.Actions = append(b.Actions, control.AtAction{Action: name, Until: utc(end)})
			b.Observed = b.Observed && !e.enforcing[name]
		}
	}
	slices.SortFunc(b.Actions, func(x, y control.AtAction) int { return cmp.Compare(x.Action, y.Action) })
	return b
}

// fewBans is up to how many bans an action is asked for one by one.
const fewBans = 16

// How long an action may take to tell what it holds: of a few bans, and of all.
const (
	heldPatience = 2 * time.Second
	listPatience = 5 * time.Second
)

// fillHeld adds what the actions really hold.
func (d *daemon) fillHeld(ctx context.Context, bans []control.Ban) {
	for _, e := range d.enforcers() {
		if e.enforces {
			fillFrom(ctx, e, bans)
		}
	}
}

// holding is what an action says of one target.
type holding struct {
	entry   actions.Entry
	yes     bool
	network netip.Prefix // as part of which it is held, and whose entry this is; invalid: by itself
	err     error
}

// fillFrom asks one action, which may hang.
func fillFrom(ctx context.Context, e *enforcer, bans []control.Ban) {
	var targets []netip.Prefix
	var at []*control.AtAction
	for i := range bans {
		if a := atAction(&bans[i], e.name); a != nil {
			targets, at = append(targets, bans[i].Target), append(at, a)
		}
	}
	now, patience, ask := time.Now(), listPatience, e.listed
	if _, ok := e.action.(actions.Holder); ok && len(bans) <= fewBans {
		patience, ask = heldPatience, e.held
	} else if e.beside == nil {
		return // it can't tell
	}
	answers, ok := within(ctx, patience, func() []holding { return ask(ctx, targets) })
	for i, a := range at {
		if !ok {
			a.Err = fmt.Sprintf("no answer within %v: does it hang?", patience)
			continue
		}
		a.Network = answers[i].network
		fillAt(a, &answers[i], e.programs == nil && e.edge == nil, now)
	}
}

// held asks for targets one by one.
func (e *enforcer) held(ctx context.Context, targets []netip.Prefix) []holding {
	out := make([]holding, len(targets))
	for i, target := range targets {
		h := &out[i]
		ask := e.action.(actions.Holder).Held
		h.entry, h.yes, h.err = ask(ctx, target)
		if n, in := e.networkOf(target); in && !h.yes && h.err == nil {
			if h.entry, h.yes, h.err = ask(ctx, n); h.yes {
				h.network = n
			}
		}
	}
	return out
}

// listed finds targets among all that there is.
func (e *enforcer) listed(ctx context.Context, targets []netip.Prefix) []holding {
	entries, err := e.list(ctx)
	there := make(map[netip.Prefix]*actions.Entry, len(entries))
	for i := range entries {
		there[entries[i].Target] = &entries[i]
	}
	out := make([]holding, len(targets))
	for i, target := range targets {
		out[i].err = err
		if x := there[target]; x != nil {
			out[i].entry, out[i].yes = *x, true
			continue
		}
		if n, in := e.networkOf(target); in {
			if x := there[n]; x != nil {
				out[i].entry, out[i].yes, out[i].network = *x, true, n
			}
		}
	}
	return out
}

func atAction(b *control.Ban, name string) *control.AtAction {
	for i := range b.Actions {
		if b.Actions[i].Action == name {
			return &b.Actions[i]
		}
	}
	return nil
}

// fillAt fills in an answer. counts says that the action counts packets.
func fillAt(at *control.AtAction, h *holding, counts bool, now time.Time) {
	if h.err != nil {
		at.Err = h.err.Error()
		return
	}
	at.Held = &h.yes
	if !h.yes {
		return
	}
	if counts {
		at.Packets = &h.entry.Packets
	}
	if h.entry.Left > 0 {
		at.Ends = utc(now.Add(h.entry.Left))
	}
}
