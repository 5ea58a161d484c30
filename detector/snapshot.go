package detector

import (
	"net/netip"
	"slices"
)

// Snapshot is what an engine has counted, so that another one can go on from
// there. It shares no memory with the engine. Windows are in columns: they can
// be a million.
type Snapshot struct {
	Rules []string // identities of the jails and of the wanted

	// Of each window, those of a rule from the longest untouched one on:
	Rule   []uint16 // index into Rules
	Hi, Lo []uint64 // of its target's address, IPv4 in its mapped form
	Bits   []uint8  // of its target's length, of 128
	Flags  []uint8  // FlagSlow, FlagTouched
	Late   []uint32 // events in a row that came too late
	Room   []uint32 // for how many events it has memory
	Count  []uint32 // how many of Times are its own

	Times []int64 // of all windows' events, one window after the other, each ascending; nanoseconds since the epoch

	Bans     []SnapshotBan
	Offences []SnapshotOffence
}

// Flags of a window.
const (
	FlagSlow    = 1 << iota // an event of it was late by a window or more
	FlagTouched             // it had an event since it was last looked at for eviction
)

// SnapshotBan is a ban that keeps events from counting.
type SnapshotBan struct {
	Target netip.Prefix
	Owner  string // "": it is enforced; DenyName; or the identity of the jail that only observes
	Until  int64
}

// SnapshotOffence is a count of offences.
type SnapshotOffence struct {
	History string
	Target  netip.Prefix
	Tried   bool // of a time when the rule only observed
	Count   int
	Last    int64 // event time of the latest
}

// Snapshot copies what has been counted. It takes the time of one pass over
// all windows.
func (e *Engine) Snapshot() *Snapshot {
	t := e.windows
	n := t.index.len()
	s := &Snapshot{
		Rule: make([]uint16, 0, n), Hi: make([]uint64, 0, n), Lo: make([]uint64, 0, n), Bits: make([]uint8, 0, n),
		Flags: make([]uint8, 0, n), Late: make([]uint32, 0, n), Room: make([]uint32, 0, n), Count: make([]uint32, 0, n),
		Times: make([]int64, 0, max(0, t.used-int64(n)*slotBytes)/8+2*int64(n)),
	}
	owners := map[int]string{enforced: "", denyID: DenyName}
	for _, j := range e.jails {
		owners[j.id] = j.identity
		s.addRule(t, j.rule, j.identity)
	}
	for i := range e.wanted {
		if w := &e.wanted[i]; w.limited() {
			s.addRule(t, w.rule, w.identity)
		}
	}
	s.Bans = make([]SnapshotBan, 0, e.bans.len())
	for bk, b := range e.bans.entries {
		s.Bans = append(s.Bans, SnapshotBan{bk.prefix(), owners[bk.owner], b.until})
	}
	s.Offences = make([]SnapshotOffence, 0, e.past.len())
	for k, o := range e.past.entries {
		s.Offences = append(s.Offences, SnapshotOffence{k.history, k.prefix(), k.tried, o.value.count, o.value.last})
	}
	return s
}

func (s *Snapshot) addRule(t *table, rule uint16, identity string) {
	number := uint16(len(s.Rules))
	s.Rules = append(s.Rules, identity)
	for _, l := range t.rules[rule].levels {
		for i := l.tail; i != noSlot; {
			x := t.slot(i)
			s.addWindow(number, x)
			i = x.prev
		}
	}
}

func (s *Snapshot) addWindow(rule uint16, x *slot) {
	w := &x.win
	if len(w.times) == 0 && !w.slow {
		return // as good as none
	}
	var flags uint8
	if w.slow {
		flags |= FlagSlow
	}
	if x.touched {
		flags |= FlagTouched
	}
	s.Rule = append(s.Rule, rule)
	s.Hi = append(s.Hi, x.key.hi)
	s.Lo = append(s.Lo, x.key.lo)
	s.Bits = append(s.Bits, x.key.bits)
	s.Flags = append(s.Flags, flags)
	s.Late = append(s.Late, uint32(w.late))
	s.Room = append(s.Room, uint32(cap(w.times)))
	s.Count = append(s.Count, uint32(len(w.times)))
	s.Times = append(s.Times, w.times...)
}

// RestoreSnapshot takes up what another engine has counted. It is for one that
// has counted nothing yet, and knows the pardons there are: what they forgive
// is left out. So are the windows, and the bans that were only observed, of
// rules whose identity is none of the snapshot's: another name, other logs,
// conditions or another window. Memory that does not suffice goes to the
// windows that would be kept when it is full. It returns how many windows it
// has taken up.
//
// From here on it decides as the other one would have. The columns are trusted
// to be of equal length and to fit each other.
func (e *Engine) RestoreSnapshot(s *Snapshot) (taken int) {
	numbers, names, ids := map[string]uint16{}, map[string]string{}, map[string]int{"": enforced, DenyName: denyID}
	for _, j := range e.jails {
		numbers[j.identity], names[j.identity], ids[j.identity] = j.rule, j.Name, j.id
	}
	for i := range e.wanted {
		if w := &e.wanted[i]; w.limited() {
			numbers[w.identity] = w.rule
		}
	}
	times := s.Times
	for i, rule := range s.Rule {
		own := times[:s.Count[i]]
		times = times[s.Count[i]:]
		identity := s.Rules[rule]
		number, known := numbers[identity]
		if !known {
			continue
		}
		k := key{s.Hi[i], s.Lo[i], uint64(s.Bits[i])}
		if before, forgiven := e.pardons.of(k, names[identity]); forgiven {
			own = after(own, before)
		}
		w := window{late: int32(s.Late[i]), slow: s.Flags[i]&FlagSlow != 0}
		if len(own) == 0 && !w.slow {
			continue
		}
		if room := e.windows.roomFor(number, len(own), s.Room[i]); room > fewTimes {
			w.times = make([]int64, 0, room)
		}
		if e.windows.restore(number, k, w, own, s.Flags[i]&FlagTouched != 0) {
			taken++
		}
	}
	for _, b := range s.Bans {
		if id, known := ids[b.Owner]; known && (id != denyID || e.denied.denyRules != nil) {
			e.bans.put(banKey{keyOf(b.Target), id}, struct{}{}, b.Until)
		}
	}
	for _, o := range s.Offences {
		if before, forgiven := e.pardons.of(keyOf(o.Target), o.History); !forgiven || o.Last > before {
			e.offended(o.History, o.Tried, o.Target, o.Count, o.Last)
		}
	}
	return taken
}

// restore puts a window, which has its room if that is more than a slot's, with
// its times at the place of the latest touched one, and reports whether there
// is memory for it.
func (t *table) restore(rule uint16, k key, w window, times []int64, touched bool) bool {
	tk := k.of(rule)
	if t.find(tk) != noSlot || !t.room(slotBytes+w.spilled(), noSlot) {
		return false
	}
	r := t.rules[rule]
	i := t.take(tk, r)
	s := t.slot(i)
	if w.times == nil {
		w.times = s.few[:0]
	}
	s.win = w
	s.win.times = append(s.win.times, times...)
	t.charge(r, s, s.win.spilled())
	t.requeue(r, s, i)
	s.touched = touched
	return true
}

// roomFor bounds the room that a window of so many events asks for by what one
// of its rule can have.
func (t *table) roomFor(rule uint16, events int, asked uint32) int {
	return max(events, min(int(asked), 1<<len(t.rules[rule].levels)))
}

// after returns those of ascending times that are later than t.
func after(times []int64, t int64) []int64 {
	i, _ := slices.BinarySearch(times, t+1)
	return times[i:]
}

// of returns up to which time the events of all clients of a target are
// forgiven in a jail.
func (p *pardons) of(k key, jail string) (before int64, ok bool) {
	if p == nil {
		return 0, false
	}
	for _, here := range p.in.Supernets(k.prefix()) {
		for _, x := range here {
			if x.jail == "" || x.jail == jail {
				before, ok = max(before, x.before), true
			}
		}
	}
	return before, ok
}
