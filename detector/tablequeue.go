package detector

import "math/bits"

// room evicts until more bytes fit, sparing one slot. It fails if that cannot
// be done.
func (t *table) room(more int64, spare uint32) bool {
	for t.used+more > t.cap {
		if !t.evict(spare) {
			return false
		}
	}
	return true
}

// evict drops one window, not that of spare.
func (t *table) evict(spare uint32) bool {
	var victim *tableRule
	for _, r := range t.rules {
		if r != nil && (victim == nil || r.used > victim.used) {
			victim = r
		}
	}
	if victim == nil {
		return false
	}
	share := t.cap / int64(4*len(victim.levels))
	for _, least := range []int64{share, 0} {
		for n := range victim.levels {
			if l := &victim.levels[n]; l.used > least && t.evictFrom(victim, l, spare) {
				t.evicted++
				return true
			}
		}
	}
	return false
}

// evictFrom drops the longest untouched slot of a level; those touched since
// they were queued are queued again, at the level that their fill is now.
func (t *table) evictFrom(r *tableRule, l *level, spare uint32) bool {
	for second := false; l.tail != noSlot; {
		i := l.tail
		s := t.slot(i)
		switch {
		case i == spare:
			if second || l.head == i {
				return false
			}
			second = true
			t.requeue(r, s, i)
		case s.touched:
			t.requeue(r, s, i)
		default:
			t.remove(i)
			return true
		}
	}
	return false
}

// requeue moves a slot to the front of the level that its fill is now, and
// takes its touch off.
func (t *table) requeue(r *tableRule, s *slot, i uint32) {
	t.unlink(r, s)
	size := slotBytes + s.win.spilled()
	r.levels[s.level].used -= size
	s.level = uint8(min(max(1, bits.Len(uint(len(s.win.times)))), len(r.levels)) - 1) // it may be from before its limit was lowered
	r.levels[s.level].used += size
	s.touched = false
	t.push(r, s, i)
}

func (t *table) push(r *tableRule, s *slot, i uint32) {
	l := &r.levels[s.level]
	s.prev, s.next = noSlot, l.head
	if l.head != noSlot {
		t.slot(l.head).prev = i
	}
	l.head = i
	if l.tail == noSlot {
		l.tail = i
	}
}

func (t *table) unlink(r *tableRule, s *slot) {
	l := &r.levels[s.level]
	if s.prev != noSlot {
		t.slot(s.prev).next = s.next
	} else {
		l.head = s.next
	}
	if s.next != noSlot {
		t.slot(s.next).prev = s.prev
	} else {
		l.tail = s.prev
	}
}
