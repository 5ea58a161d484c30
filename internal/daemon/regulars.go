package daemon

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"

	"github.com/tailban/tailban/state"
)

const (
	// maxRegulars is how many clients are remembered, about 50 bytes each.
	maxRegulars = 100_000

	// A regular was seen on so many days of the memory, today left out.
	regularDays   = 3
	regularMemory = 14 // days

	// recently is how long ago a client was seen at most to count among those
	// that a jail could hit.
	recently = time.Hour
)

// regulars remembers on which days clients came and behaved. Whoever is banned
// begins anew. When it is full, those who were seen on one day only, and not
// today, make room: a crowd of newcomers pushes out nobody who comes again and
// again.
type regulars struct {
	cap     int
	clients map[regularKey]regular
	dropped uint64 // newcomers for whom there was no room
	changed bool   // since it was last stored
}

// regularKey is an IPv4 address, or the network half of an IPv6 /64, which no
// IPv4 address is, as the first 3 bits of a global one are 001 (RFC 4291).
type regularKey uint64

type regular struct {
	minute  uint32 // when it was last seen, since 1970
	day     uint16 // when it was last seen, since 1970-01-01
	days    uint16 // bit i: seen i days before that
	first   uint16 // the first day
	vouched bool   // a user of it was one that the server has checked
}

func newRegulars() *regulars {
	return &regulars{cap: maxRegulars, clients: map[regularKey]regular{}}
}

// keyOfRegular returns the key of a target; false: it is none that is remembered.
func keyOfRegular(target netip.Prefix) (regularKey, bool) {
	a := target.Addr()
	switch {
	case a.Is4() && target.Bits() == 32:
		b := a.As4()
		return regularKey(binary.BigEndian.Uint32(b[:])), true
	case a.Is6() && target.Bits() == 64:
		b := a.As16()
		hi := binary.BigEndian.Uint64(b[:8])
		return regularKey(hi), hi>>32 != 0
	}
	return 0, false
}

func (k regularKey) target() netip.Prefix {
	var b [16]byte
	if k>>32 == 0 {
		binary.BigEndian.PutUint32(b[:], uint32(k))
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), 32)
	}
	binary.BigEndian.PutUint64(b[:], uint64(k))
	return netip.PrefixFrom(netip.AddrFrom16(b), 64)
}

// note notes that a client came and behaved.
func (r *regulars) note(target netip.Prefix, vouched bool, now time.Time) {
	key, ok := keyOfRegular(target)
	if !ok {
		return
	}
	minute := uint32(now.Unix() / 60)
	day := uint16(minute / (24 * 60))
	c, known := r.clients[key]
	switch {
	case known && c.minute == minute && (c.vouched || !vouched):
		return // nothing new
	case known && day >= c.day:
		c.days = c.days<<(min(16, day-c.day)) | 1
		if c.days == 1 { // it was away for so long that it begins anew
			c.first = day
		}
	case known: // the clock was set back: what it said before can't be told from what is
		c = regular{days: 1, first: day, vouched: c.vouched}
	case len(r.clients) >= r.cap && !r.makeRoom(day):
		r.dropped++
		return
	default:
		c = regular{days: 1, first: day}
	}
	c.minute, c.day, c.vouched = minute, day, c.vouched || vouched
	r.clients[key] = c
	r.changed = true
}

// makeRoom forgets somebody who was seen on one day only, before today, or not
// for long. It looks at a few, which the map picks.
func (r *regulars) makeRoom(day uint16) bool {
	looks := 16
	for key, c := range r.clients {
		if c.day != day && !c.vouched && c.days == 1 || int(day)-int(c.day) > regularMemory {
			delete(r.clients, key)
			return true
		}
		if looks--; looks == 0 {
			break
		}
	}
	return false
}

// has reports whether a client is a regular.
func (r *regulars) has(target netip.Prefix, now time.Time) bool {
	key, ok := keyOfRegular(target)
	if !ok {
		return false
	}
	c, known := r.clients[key]
	return known && c.is(now)
}

// forget has a client begin anew, and returns what was known.
func (r *regulars) forget(target netip.Prefix) (c regular, known bool) {
	key, ok := keyOfRegular(target)
	if !ok {
		return regular{}, false
	}
	c, known = r.clients[key]
	delete(r.clients, key)
	r.changed = r.changed || known
	return c, known
}

// restore undoes forget.
func (r *regulars) restore(target netip.Prefix, c regular) {
	if key, ok := keyOfRegular(target); ok {
		r.clients[key] = c
		r.changed = true
	}
}

// is reports whether what is known makes a client a regular.
func (c *regular) is(now time.Time) bool {
	today := uint16(now.Unix() / (24 * 60 * 60))
	age := int(today) - int(c.day)
	if age < 0 || age > regularMemory {
		return false
	}
	if c.vouched {
		return true
	}
	days := uint32(c.days) << age           // bit i: i days before today
	days &= (1<<(regularMemory+1) - 1) &^ 1 // today says nothing: an attack may have begun
	return bits.OnesCount32(days) >= regularDays
}

// recent reports whether it was seen within the last hour.
func (c *regular) recent(now time.Time) bool {
	return now.Unix()/60-int64(c.minute) <= int64(recently/time.Minute)
}

// stored is all of it as it is kept.
func (r *regulars) stored() []state.Regular {
	out := make([]state.Regular, 0, len(r.clients))
	for key, c := range r.clients {
		out = append(out, state.Regular{Target: key.target(), Day: c.day, Days: c.days, First: c.first, Minute: c.minute, Vouched: c.vouched})
	}
	return out
}

// load takes up what was kept.
func (r *regulars) load(list []state.Regular) {
	for i := range list {
		s := &list[i]
		if key, ok := keyOfRegular(s.Target); ok && len(r.clients) < r.cap {
			r.clients[key] = regular{minute: s.Minute, day: s.Day, days: s.Days, first: s.First, vouched: s.Vouched}
		}
	}
}
