package detector

import (
	"iter"
	"math/bits"
	"slices"
	"time"
)

// table holds the windows of all rules within a fixed amount of memory.
//
// When it is full, windows are evicted from the rule that uses most, and
// there from the lowest fill level that holds more than its small guaranteed
// share: a flood of keys with one event each pushes out its like, never a key
// near its limit, and a crowd of well-filled keys cannot keep newcomers from
// being counted. Within a level the longest untouched goes first (second
// chance, in order of arrival).
type table struct {
	index index
	pages [][]slot
	free  uint32       // first free slot, linked by next; none if noSlot
	rules []*tableRule // by number; nil: the number is free
	hosts int          // keys of single IPv6 addresses

	cap, used int64 // bytes
	evicted   uint64
	late      uint64
	refused   uint64 // events not counted for lack of memory
}

// tableKey is a key and a rule, packed into 24 bytes.
type tableKey struct {
	hi, lo uint64
	bits   uint8
	rule   uint16
}

func (k key) of(rule uint16) tableKey { return tableKey{k.hi, k.lo, uint8(k.bits), rule} }

func (k *tableKey) target() key { return key{k.hi, k.lo, uint64(k.bits)} }

// tableRule is what a rule has in the table.
type tableRule struct {
	span   int64
	used   int64
	levels []level
}

// level is a queue of slots whose windows had, when they were queued, between
// 2^n and 2^(n+1) − 1 events.
type level struct {
	head, tail uint32 // most recently queued first
	used       int64
}

// slot is what a key has. It is never copied but by move, since its window's
// times lie in it.
type slot struct {
	key        tableKey
	win        window
	prev, next uint32
	level      uint8
	touched    bool
	few        [fewTimes]int64 // where the window's times are for as long as they fit
}

// fewTimes is how many times a slot has room for: more than most clients ever
// need at once.
const fewTimes = 6

// spilled is how many bytes a window has besides its slot.
func (w *window) spilled() int64 {
	if cap(w.times) <= fewTimes {
		return 0
	}
	return 8 * int64(cap(w.times))
}

const (
	noSlot   = ^uint32(0)
	pageBits = 10

	// slotBytes is what a key costs, with its first few times: the slot, and its
	// share of an index that is between three eighths and three quarters full.
	slotBytes = 120 + 22

	// sweepPast is how many windows still of use forget looks past, so that
	// one with a time far in the future does not hide the idle ones behind it.
	sweepPast = 4
)

func newTable(cap int64) *table {
	return &table{index: newIndex(), free: noSlot, cap: cap}
}

// setCap sets how many bytes windows may take.
func (t *table) setCap(cap int64) {
	t.cap = cap
	t.room(0, noSlot)
}

// minMemory is that of several windows that are as large as they get.
func minMemory(limit int, span time.Duration) int64 {
	return 4 * (slotBytes + 8*int64(maxTimes(int64(span), limit, true)))
}

// addRule makes room for a rule whose limits are at most that high. Its number
// is used in all else; it may have been that of a rule that was dropped.
func (t *table) addRule(limit int, span int64) uint16 {
	n := slices.Index(t.rules, nil)
	if n < 0 {
		n = len(t.rules)
		t.rules = append(t.rules, nil)
	}
	t.rules[n] = &tableRule{span: span}
	t.widen(uint16(n), limit)
	return uint16(n)
}

// widen makes room for a higher limit.
func (t *table) widen(rule uint16, limit int) {
	r := t.rules[rule]
	for len(r.levels) <= bits.Len(uint(maxTimes(r.span, limit, true))) {
		r.levels = append(r.levels, level{head: noSlot, tail: noSlot})
	}
}

// dropRule forgets a rule with all its windows.
func (t *table) dropRule(rule uint16) {
	t.clearRule(rule)
	t.rules[rule] = nil
}

// clearRule has a rule begin at zero.
func (t *table) clearRule(rule uint16) {
	r := t.rules[rule]
	for n := range r.levels {
		for r.levels[n].tail != noSlot {
			t.remove(r.levels[n].tail)
		}
	}
}

// addAt counts an event and reports whether it crosses the limit, in which case
// the window is consumed. hint is a slot that the key may have.
func (t *table) addAt(hint uint32, rule uint16, limit int, k key, at int64) bool {
	if limit == 0 {
		if t.rules[rule].used != 0 { // the limit may have been another
			if i := t.find(k.of(rule)); i != noSlot {
				t.remove(i)
			}
		}
		return true
	}
	o, _, i := t.count(hint, rule, limit, k, at)
	if o != crossing {
		return false
	}
	t.remove(i)
	return true
}

// pass counts an event if it is within the limit, and reports whether it is.
func (t *table) pass(rule uint16, limit int, k key, at int64) bool {
	o, pos, i := t.count(noSlot, rule, limit, k, at)
	if o == crossing {
		t.slot(i).win.takeBack(pos, t.rules[rule].span)
	}
	return o == kept
}

func (t *table) count(hint uint32, rule uint16, limit int, k key, at int64) (outcome, int, uint32) {
	t.compact()
	r := t.rules[rule]
	tk := k.of(rule)
	i := hint
	if int(i>>pageBits) >= len(t.pages) || t.slot(i).key != tk { // that of a free slot is no key's
		i = t.find(tk)
	}
	if i == noSlot {
		if !t.room(slotBytes, noSlot) {
			t.refused++
			return tooLate, 0, noSlot
		}
		i = t.take(tk, r)
	}
	s := t.slot(i)
	s.touched = true
	before := s.win.spilled()
	o, pos := s.win.add(at, r.span, limit)
	if o == tooLate {
		t.late++
	}
	if grown := s.win.spilled() - before; grown != 0 {
		t.charge(r, s, grown)
		t.room(0, i)
	}
	return o, pos, i
}

// foresee says what count would, and changes nothing. With a limit of 0 every
// event crosses.
func (t *table) foresee(rule uint16, limit int, k key, at int64) outcome {
	r := t.rules[rule]
	if limit == 0 {
		return crossing
	}
	var w window
	if now := t.look(rule, k); now != nil {
		w = *now
		w.times = slices.Clone(now.times)
	} else if slotBytes > t.cap {
		return tooLate
	}
	o, _ := w.add(at, r.span, limit)
	return o
}

// look returns a window, nil if there is none. It is only to be looked at.
func (t *table) look(rule uint16, k key) *window {
	i := t.find(k.of(rule))
	if i == noSlot {
		return nil
	}
	return &t.slot(i).win
}

// forget drops windows whose latest event, and the next span, lie before
// horizon. It looks at the longest untouched of each level first and gives up
// after a few that are still of use.
func (t *table) forget(horizon int64) {
	for _, r := range t.rules {
		if r == nil {
			continue
		}
		for n := range r.levels {
			l := &r.levels[n]
			for useful := 0; l.tail != noSlot && useful <= sweepPast; {
				i := l.tail
				s := t.slot(i)
				if w := &s.win; len(w.times) == 0 || w.latest()+keep(r.span, w.slow) < horizon {
					t.remove(i)
					continue
				}
				if !s.touched {
					useful++
				}
				t.requeue(r, s, i)
			}
		}
	}
	t.compact()
}

// find returns the slot of a key, noSlot if it has none.
func (t *table) find(k tableKey) uint32 {
	x := &t.index
	tag := x.hash(k)
	for at := x.home(tag); ; at = x.after(at) {
		switch e := x.entries[at]; {
		case e == 0:
			return noSlot
		case e.tag() == tag:
			if i := e.slot(); t.slot(i).key == k {
				return i
			}
		}
	}
}

func (t *table) slot(i uint32) *slot { return &t.pages[i>>pageBits][i&(1<<pageBits-1)] }

// keys goes over the slots and keys of all windows. The one at hand may be
// removed.
func (t *table) keys() iter.Seq2[uint32, tableKey] {
	return func(yield func(uint32, tableKey) bool) {
		for _, r := range t.rules {
			if r == nil {
				continue
			}
			for n := range r.levels {
				for i := r.levels[n].head; i != noSlot; {
					next := t.slot(i).next
					if !yield(i, t.slot(i).key) {
						return
					}
					i = next
				}
			}
		}
	}
}

// take makes a slot for a new key.
func (t *table) take(k tableKey, r *tableRule) uint32 {
	if t.free == noSlot {
		page := make([]slot, 1<<pageBits)
		base := uint32(len(t.pages)) << pageBits
		for j := range page {
			page[j].next = base + uint32(j) + 1
		}
		page[len(page)-1].next = noSlot
		t.pages = append(t.pages, page)
		t.free = base
	}
	i := t.free
	s := t.slot(i)
	t.free = s.next
	*s = slot{key: k}
	s.win.times = s.few[:0]
	t.index.put(k, i)
	if k.target().host() {
		t.hosts++
	}
	t.push(r, s, i)
	t.charge(r, s, slotBytes)
	return i
}

// remove forgets a key.
func (t *table) remove(i uint32) {
	s := t.slot(i)
	r := t.rules[s.key.rule]
	t.charge(r, s, -slotBytes-s.win.spilled())
	t.unlink(r, s)
	t.index.delete(s.key, i)
	if s.key.target().host() {
		t.hosts--
	}
	*s = slot{next: t.free}
	t.free = i
}

func (t *table) charge(r *tableRule, s *slot, bytes int64) {
	t.used += bytes
	r.used += bytes
	r.levels[s.level].used += bytes
}
