package detector

// maxFree is how many slots may be free, and not counted: half a megabyte.
const maxFree = 4 << pageBits

// compact gives memory back if much of it is free, as after a flood: slots of
// the last pages move to free ones before them, and those pages go. It is
// called where no slot's number is at hand, since numbers change.
func (t *table) compact() {
	if live := t.index.len(); len(t.pages)<<pageBits > live+maxFree {
		t.shrink(live>>pageBits + 1)
	}
}

// shrink keeps the first pages only.
func (t *table) shrink(pages int) {
	from, end := uint32(pages)<<pageBits, uint32(len(t.pages))<<pageBits
	free := noSlot
	for i := t.free; i != noSlot; {
		s := t.slot(i)
		next := s.next
		if i < from {
			s.next, free = free, i
		}
		i = next
	}
	t.free = free
	for i := from; i < end; i++ {
		if t.slot(i).used() {
			t.move(i)
		}
	}
	clear(t.pages[pages:])
	t.pages = t.pages[:pages]
}

// used reports whether the slot is a key's.
func (s *slot) used() bool { return s.win.times != nil }

// move moves a slot to one that is free, and has all that refers to it refer to
// that.
func (t *table) move(from uint32) {
	to, s := t.free, t.slot(from)
	m := t.slot(to)
	t.free = m.next
	*m = *s
	if cap(m.win.times) <= fewTimes { // they lie in the slot
		m.win.times = m.few[:len(m.win.times)]
	}
	t.index.delete(m.key, from)
	t.index.put(m.key, to)
	l := &t.rules[m.key.rule].levels[m.level]
	if m.prev != noSlot {
		t.slot(m.prev).next = to
	} else {
		l.head = to
	}
	if m.next != noSlot {
		t.slot(m.next).prev = to
	} else {
		l.tail = to
	}
}
