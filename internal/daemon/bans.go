package daemon

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// banTable is what should be in force: one ban per target, with its owners.
// When it is full, the ban that ends soonest makes room.
type banTable struct {
	cap     int
	bans    map[netip.Prefix]*heldBan
	changes *queue[heldBan] // by when the first owner lets go
	ends    *queue[heldBan] // by when the last one does
	waiting *queue[heldBan] // for their turn to be enforced, the worst first

	networks bart.Table[*heldBan] // bans of what no client is counted by
	evicted  uint64
}

type heldBan struct {
	state.Ban
	requests        uint64    // that have come through since it was decided, or taken up
	forwarded       uint64    // of these: through a proxy
	lastRequest     int64     // the time of the latest of them
	change, end     time.Time // when the first and the last owner let go
	changeAt, endAt int       // places in the queues
	waitAt          int       // likewise, if it waits
	queued          bool      // it has had its turn, or waits for it
}

func newBanTable(cap int) *banTable {
	return &banTable{
		cap:  cap,
		bans: map[netip.Prefix]*heldBan{},
		changes: newQueue(
			func(h *heldBan) time.Time { return h.change },
			func(h *heldBan) *int { return &h.changeAt }),
		ends: newQueue(
			func(h *heldBan) time.Time { return h.end },
			func(h *heldBan) *int { return &h.endAt }),
		waiting: newQueueBy(
			func(a, b *heldBan) bool { return a.severity() > b.severity() },
			func(h *heldBan) *int { return &h.waitAt }),
	}
}

// restore adds a ban from before, of a target that has none yet, whether or
// not there is room. Its times keep the monotonic reading of now, so that a
// step of the wall clock doesn't move its end.
func (t *banTable) restore(b state.Ban, now time.Time) *state.Ban {
	b.Owners = fromNow(b.Owners, now)
	ban := t.insert(b)
	h := t.bans[b.Target]
	h.queued = h.enforceable()
	return ban
}

func (t *banTable) insert(b state.Ban) *state.Ban {
	h := &heldBan{Ban: b}
	h.change, h.end = ends(h.Owners)
	t.bans[b.Target] = h
	t.changes.add(h)
	t.ends.add(h)
	if isNetwork(b.Target) {
		t.networks.Insert(b.Target, h)
	}
	if h.Waiting {
		t.waiting.add(h)
	}
	return &h.Ban
}

// add makes an owner one of its target's ban. It returns the ban, and false if
// the owner is there already, for the same line. full is a ban that had to
// make room.
func (t *banTable) add(target netip.Prefix, origin string, o state.Owner) (ban *state.Ban, full *state.Ban, isNew bool) {
	if h := t.bans[target]; h != nil {
		if i := h.owner(o.Jail); i >= 0 && sameLine(h.Owners[i].Line, o.Line) {
			return &h.Ban, nil, false
		}
	}
	ban, full = t.put(target, origin, o)
	return ban, full, true
}

// put makes an owner one of its target's ban, in place of one of the same jail.
func (t *banTable) put(target netip.Prefix, origin string, o state.Owner) (ban *state.Ban, full *state.Ban) {
	h := t.bans[target]
	if h == nil {
		if len(t.bans) >= t.cap {
			full = t.evict()
		}
		return t.insert(state.Ban{Target: target, Origin: origin, Owners: []state.Owner{o}}), full
	}
	observed := !h.enforceable()
	if i := h.owner(o.Jail); i < 0 {
		h.Owners = append(h.Owners, o)
	} else {
		h.Owners[i] = o
	}
	if observed && h.enforceable() { // what came while nothing kept it away says nothing of the ban
		h.requests, h.forwarded, h.lastRequest = 0, 0, 0
	}
	t.moved(h)
	return &h.Ban, nil
}

// owner is the place of a jail among the owners, -1 if it has none.
func (h *heldBan) owner(jail string) int {
	return slices.IndexFunc(h.Owners, func(o state.Owner) bool { return o.Jail == jail })
}

// since is when the first owner decided.
func (h *heldBan) since() time.Time {
	first := h.Owners[0].Since
	for _, o := range h.Owners[1:] {
		if o.Since.Before(first) {
			first = o.Since
		}
	}
	return first
}

func owner(d *detector.Decision, now time.Time) state.Owner {
	o := state.Owner{
		Jail: d.Jail, Client: d.Client, Since: now, Until: now.Add(d.Ban),
		Offence: d.Offence, Count: d.Count, Limit: d.Limit, Window: d.Window, Plane: d.Plane.String(), Event: time.Unix(0, d.Time),
		Line: state.LineID{Path: d.Line.Path, Dev: d.Line.Dev, Ino: d.Line.Ino, Offset: d.Line.Offset},
	}
	if !d.Observe {
		o.Actions = d.Actions
	}
	return o
}

// sameLine compares lines by what identifies them; the path is for people.
// What has no file has no lines that are read twice.
func sameLine(a, b state.LineID) bool {
	return a.Dev|a.Ino != 0 && a.Dev == b.Dev && a.Ino == b.Ino && a.Offset == b.Offset
}

// overfull reports whether more bans were restored than there may be.
func (t *banTable) overfull() bool { return len(t.bans) > t.cap }

// evict drops the ban that ends soonest. There must be one.
func (t *banTable) evict() *state.Ban {
	victim := t.ends.first()
	t.evicted++
	t.drop(victim)
	return &victim.Ban
}

// take takes a ban off the table. It must be there.
func (t *banTable) take(target netip.Prefix) *state.Ban {
	h := t.bans[target]
	t.drop(h)
	return &h.Ban
}

// expire lets go of owners whose time is up. It calls changed for each ban
// that has owners left, and ended for each that has none.
func (t *banTable) expire(now time.Time, changed, ended func(*state.Ban)) {
	for h := t.changes.first(); h != nil && !h.change.After(now); h = t.changes.first() {
		left := slices.DeleteFunc(slices.Clone(h.Owners), func(o state.Owner) bool { return !o.Until.After(now) })
		if len(left) == 0 {
			t.drop(h)
			ended(&h.Ban)
			continue
		}
		h.Owners = left
		t.moved(h)
		changed(&h.Ban)
	}
}

// next returns when the next owner's time is up.
func (t *banTable) next() (time.Time, bool) {
	h := t.changes.first()
	if h == nil {
		return time.Time{}, false
	}
	return h.change, true
}

// moved notes that a ban's owners have changed.
func (t *banTable) moved(h *heldBan) {
	h.change, h.end = ends(h.Owners)
	t.changes.moved(h)
	t.ends.moved(h)
	if h.Waiting {
		t.waiting.moved(h)
	}
}

func (t *banTable) drop(h *heldBan) {
	t.changes.remove(h)
	t.ends.remove(h)
	if h.Waiting {
		t.waiting.remove(h)
	}
	if isNetwork(h.Target) {
		t.networks.Delete(h.Target)
	}
	delete(t.bans, h.Target)
}

// ends returns when the first and the last owner let go.
func ends(owners []state.Owner) (first, last time.Time) {
	first, last = owners[0].Until, owners[0].Until
	for _, o := range owners[1:] {
		if o.Until.Before(first) {
			first = o.Until
		}
		if o.Until.After(last) {
			last = o.Until
		}
	}
	return first, last
}
