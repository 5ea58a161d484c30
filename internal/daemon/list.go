package daemon

import (
	"cmp"
	"context"
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
	out, err := asked(ctx, d, func(e *engine, now time.Time) (*control.Bans, error) {
		if q.Jail != "" && q.Jail != byHand && q.Jail != adoptedJail && !e.hasJail(q.Jail) && !e.owns(q.Jail) {
			return nil, e.noJail(q.Jail)
		}
		out := &control.Bans{Now: now.UTC(), Bans: []control.Ban{}}
		for _, h := range e.bans.bans {
			if picks(&q, &h.Ban) {
				out.Bans = append(out.Bans, e.shown(h))
			}
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	out.Total = len(out.Bans)
	if q.Sort != "packets" {
		sortBans(out.Bans, q.Sort)
		out.Bans = cut(out.Bans, q.Limit)
	}
	d.fillHeld(ctx, out.Bans)
	if q.Sort == "packets" {
		sortBans(out.Bans, q.Sort)
		out.Bans = cut(out.Bans, q.Limit)
	}
	return out, nil
}

func cut(bans []control.Ban, limit int) []control.Ban {
	if limit > 0 && len(bans) > limit {
		return bans[:limit]
	}
	return bans
}

func picks(q *control.BansQuery, b *state.Ban) bool {
	return (!q.Overlap.IsValid() || q.Overlap.Overlaps(b.Target)) &&
		(q.Jail == "" || slices.ContainsFunc(b.Owners, func(o state.Owner) bool { return o.Jail == q.Jail })) &&
		(q.Action == "" || !b.Until(q.Action).IsZero())
}

func sortBans(bans []control.Ban, by string) {
	slices.SortFunc(bans, func(a, b control.Ban) int {
		c := 0
		switch by {
		case "since":
			c = b.Since.Compare(a.Since)
		case "packets":
			c = cmp.Compare(dropped(&b), dropped(&a))
		case "offence":
			c = cmp.Compare(offence(&b), offence(&a))
		case "target":
		default:
			c = a.Until.Compare(b.Until)
		}
		return cmp.Or(c, a.Target.Compare(b.Target))
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

func offence(b *control.Ban) (n int) {
	for i := range b.Owners {
		n = max(n, b.Owners[i].Offence)
	}
	return n
}

// shown is a ban as people get to see it, without what only actions know.
func (e *engine) shown(h *heldBan) control.Ban {
	b := control.Ban{
		Target: h.Target, Origin: h.Origin, Since: utc(h.since()), Until: utc(h.end), Observed: true,
		Owners: make([]control.Owner, 0, len(h.Owners)), Actions: []control.AtAction{}, Seen: h.requests,
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

// fillHeld adds what the actions really hold.
func (d *daemon) fillHeld(ctx context.Context, bans []control.Ban) {
	for _, e := range d.enforcers() {
		if e.enforces {
			fillFrom(ctx, e, bans)
		}
	}
}

func fillFrom(ctx context.Context, e *enforcer, bans []control.Ban) {
	now := time.Now()
	if h, ok := e.action.(actions.Holder); ok && len(bans) <= fewBans {
		for i := range bans {
			if at := atAction(&bans[i], e.name); at != nil {
				entry, held, err := h.Held(ctx, bans[i].Target)
				fillAt(at, &entry, held, err, now)
			}
		}
		return
	}
	entries, err := e.list(ctx)
	held := make(map[netip.Prefix]*actions.Entry, len(entries))
	for i := range entries {
		held[entries[i].Target] = &entries[i]
	}
	for i := range bans {
		if at := atAction(&bans[i], e.name); at != nil {
			entry, yes := held[bans[i].Target]
			fillAt(at, entry, yes, err, now)
		}
	}
}

func atAction(b *control.Ban, name string) *control.AtAction {
	for i := range b.Actions {
		if b.Actions[i].Action == name {
			return &b.Actions[i]
		}
	}
	return nil
}

func fillAt(at *control.AtAction, e *actions.Entry, held bool, err error, now time.Time) {
	if err != nil {
		at.Err = err.Error()
		return
	}
	at.Held = &held
	if held {
		packets := e.Packets
		at.Packets = &packets
		if e.Left > 0 {
			at.Ends = utc(now.Add(e.Left))
		}
	}
}
