//go:build linux

package actions

import (
	"net/netip"
	"time"
)

const (
	// anyMoment is what a ban that should have ended has left in a listing:
	// whoever compares leaves it to Run or to the program.
	anyMoment = time.Nanosecond
	// overstay is how long beyond its time a ban is listed like that if its
	// program should have ended it.
	overstay = 10 * time.Second

	minAgain = time.Second // between tries to take out a ban that has ended
	maxAgain = time.Minute

	// forgetAfter is how long is remembered that the removal of a ban we know
	// nothing of has failed.
	forgetAfter = time.Hour
)

// memory is what is known of bans.
type memory struct {
	known  map[netip.Prefix]*known
	busy   map[netip.Prefix]chan struct{} // what a program is at work on; closed when it is done
	seq    uint64                         // counts changes
	worked uint64                         // targets that a program has banned
	vain   int                            // times in a row that removals were tried and none has worked

	listings int                       // going on
	taken    map[netip.Prefix]struct{} // out while a listing goes on
}

// known is what is known of one target.
type known struct {
	until time.Time // as the program has it; zero: when it ends is not known
	end   time.Time // when Run takes it out: that, or the later time that could not be set
	held  bool      // in force
	maybe bool      // may be: an addition has failed
	seq   uint64    // of the last change

	fails int    // in a row
	alone bool   // the last of them for this target alone
	since uint64 // memory.worked before the first pass with one of them

	again time.Time // when Run tries next to take it out

	// stuck is why it could not be taken out; nil: nobody has failed to, or it is
	// to be in force again.
	stuck error
}

func newMemory() memory {
	return memory{known: map[netip.Prefix]*known{}, busy: map[netip.Prefix]chan struct{}{}}
}

func (m *memory) get(target netip.Prefix) *known {
	k, ok := m.known[target]
	if !ok {
		k = &known{}
		m.known[target] = k
	}
	m.seq++
	k.seq = m.seq
	return k
}

func (m *memory) banned(target netip.Prefix, until time.Time) {
	m.worked++
	k := m.get(target)
	*k = known{until: until, end: until, held: true, seq: k.seq}
}

func (m *memory) unbanned(target netip.Prefix) {
	delete(m.known, target)
	m.vain = 0 // also if a program has failed for what was done
	if m.listings > 0 {
		m.taken[target] = struct{}{}
	}
}

// failed notes that a run for a target has failed, and why. until is when the
// ban would end, or zero if it was to be taken out; worked is memory.worked as it
// was when the pass began.
func (m *memory) failed(target netip.Prefix, until, now time.Time, alone bool, worked uint64, err error) {
	k := m.get(target)
	if removal := until.IsZero(); removal != (k.stuck != nil) {
		k.fails = 0 // of the other program
	}
	if k.fails == 0 {
		k.since = worked
	}
	k.fails++
	k.alone = alone
	k.again = now.Add(jitter(min(minAgain<<min(k.fails, 10), maxAgain)))
	if k.stuck = nil; until.IsZero() {
		k.stuck = err
	}
	switch {
	case !until.IsZero():
		k.maybe = k.maybe || !k.held
		if until.After(k.end) {
			k.end = until
		}
	case !k.held && !k.maybe:
		k.end = now.Add(forgetAfter)
	}
}

// notTried notes that the removal of a target was left for later.
func (m *memory) notTried(target netip.Prefix, now time.Time) {
	k := m.known[target]
	if k == nil {
		k = m.get(target)
		k.end = now.Add(forgetAfter)
	}
	if k.stuck == nil {
		k.stuck = errNotTried
	}
}

func (m *memory) fails(target netip.Prefix) int {
	if k := m.known[target]; k != nil {
		return k.fails
	}
	return 0
}

// refuses reports whether a program fails for this target but not for others.
func (m *memory) refuses(target netip.Prefix) bool {
	k := m.known[target]
	return k != nil && k.fails >= manyFails && k.alone && m.worked > k.since
}

// keeps reports whether the removal of a target is given up for now: it has
// failed often for this one alone, or all do. Unlike bans, which must not be
// missing without the action's being said to fail, these are told as overdue.
func (m *memory) keeps(target netip.Prefix) bool {
	k := m.known[target]
	return m.vain >= manyFails || k != nil && k.fails >= manyFails && k.alone
}

// left is the time left of a ban that is in force; 0: not known.
func (m *memory) left(target netip.Prefix, now time.Time) time.Duration {
	k := m.known[target]
	if k == nil || k.until.IsZero() || !k.held {
		return 0
	}
	return max(k.until.Sub(now), anyMoment)
}

// due returns what is to be taken out, and when to look again; zero: only when
// something has changed.
func (m *memory) due(now time.Time) (targets []netip.Prefix, next time.Time) {
	for target, k := range m.known {
		if k.end.IsZero() || !k.held && !k.maybe {
			continue
		}
		at := k.end
		if k.again.After(at) {
			at = k.again
		}
		if !at.After(now) {
			targets = append(targets, target)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return targets, next
}

// over reports whether a ban has ended and is to be taken out still.
func (m *memory) over(target netip.Prefix, now time.Time) bool {
	k := m.known[target]
	return k != nil && (k.held || k.maybe) && !k.end.IsZero() && !k.end.After(now)
}

// forget drops what has ended by itself, and failures that are long ago.
func (m *memory) forget(now time.Time, expires bool) {
	for target, k := range m.known {
		if k.past(now, expires) {
			delete(m.known, target)
		}
	}
}

// past reports whether a ban has ended by itself, or its failure is long ago.
func (k *known) past(now time.Time, expires bool) bool {
	return !k.end.IsZero() && !k.end.After(now) && (expires || !k.held && !k.maybe)
}

// overdue is what was to be taken out and could not be, with why.
func (m *memory) overdue(now time.Time, expires bool) map[netip.Prefix]error {
	all := map[netip.Prefix]error{}
	for target, k := range m.known {
		if k.stuck != nil && !k.past(now, expires) {
			all[target] = k.stuck
		}
	}
	return all
}

// entries is what is in force as far as is remembered, with what was to be taken
// out and may be.
func (m *memory) entries(now time.Time) []Entry {
	entries := make([]Entry, 0, len(m.known))
	for target, k := range m.known {
		if k.held || k.stuck != nil {
			entries = append(entries, Entry{Target: target, Left: m.left(target, now)})
		}
	}
	return entries
}

// beginListing returns the change after which nothing a program lists is news.
func (m *memory) beginListing() uint64 {
	if m.listings == 0 {
		m.taken = map[netip.Prefix]struct{}{}
	}
	m.listings++
	return m.seq
}

// learn takes a listing that was begun at a change for the truth, and returns
// it with the times left that are known: those that the program tells, or else
// those we gave it.
func (m *memory) learn(listed map[netip.Prefix]time.Duration, begun uint64, now time.Time, expires bool) []Entry {
	for target, k := range m.known {
		if _, there := listed[target]; k.seq > begun || there {
			continue
		}
		m.gone(target, k)
	}
	entries := make([]Entry, 0, len(listed))
	for target, left := range listed {
		if _, gone := m.taken[target]; gone {
			continue
		}
		k := m.known[target]
		if k == nil {
			k = &known{}
			m.known[target] = k
		}
		if k.seq <= begun {
			if k.maybe {
				m.worked++ // for this one the program has not failed
				k.fails = 0
			}
			k.held, k.maybe = true, false
			if left > 0 {
				k.until = now.Add(left)
				k.end = k.until
			}
		}
		if expires && !k.until.IsZero() && now.Sub(k.until) > overstay {
			k.until, k.end = time.Time{}, time.Time{} // the program has not ended it
		}
		entries = append(entries, Entry{Target: target, Left: m.left(target, now)})
	}
	return entries
}

// gone notes that a target has been seen not to be there.
func (m *memory) gone(target netip.Prefix, k *known) {
	k.held, k.maybe, k.stuck = false, false, nil
	if k.fails == 0 || k.end.IsZero() {
		delete(m.known, target)
	}
}

func (m *memory) endListing() {
	if m.listings--; m.listings == 0 {
		m.taken = nil
	}
}
