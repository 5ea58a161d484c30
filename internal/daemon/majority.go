package daemon

import (
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"github.com/tailban/tailban/internal/lists"
)

const (
	// A log's traffic is looked at over the last half hour to hour, and of each
	// day, if there were so many lines. They are few, so that a site that is new
	// to us has no proxy banned before we know better.
	majoritySpan  = 30 * time.Minute
	majorityLines = 20
	majorityADay  = 100

	// majorityOthers is from how many other addresses in that time on a private
	// address is taken for a client among clients, and of how many of its own a
	// provider has to come at least.
	majorityOthers = 8

	// heavyCounters is how many addresses a tally keeps. What it counts may be
	// low by a 17th of all lines.
	heavyCounters = 16
)

// tally finds the addresses that most lines come from, in a fixed space: that of
// Misra and Gries (1982). No count is too high.
type tally struct {
	lines    uint64
	counters [heavyCounters]heavy
	others   few // of the parties that were there
	edges    few // of the addresses of providers
}

// few are different addresses, as many as matter.
type few map[netip.Addr]struct{}

func (f *few) add(a netip.Addr) {
	if len(*f) > majorityOthers {
		return
	}
	if *f == nil {
		*f = few{}
	}
	(*f)[a] = struct{}{}
}

type heavy struct {
	addr netip.Addr
	n    uint64
}

func (t *tally) add(a netip.Addr) {
	t.lines++
	free := -1
	for i := range t.counters {
		c := &t.counters[i]
		if c.n > 0 && c.addr == a {
			c.n++
			return
		}
		if c.n == 0 {
			free = i
		}
	}
	t.others.add(a)
	if free >= 0 {
		t.counters[free] = heavy{a, 1}
		return
	}
	for i := range t.counters {
		t.counters[i].n--
	}
}

// of is how many lines came from an address, at least.
func (t *tally) of(a netip.Addr) uint64 {
	for i := range t.counters {
		if c := &t.counters[i]; c.n > 0 && c.addr == a {
			return c.n
		}
	}
	return 0
}

// majority is who stands for most of a log's traffic: a proxy that is taken for
// its clients, or a flood. A flood from the Internet does not come from the host's
// surroundings, nor from many addresses of a provider. That it has been there for
// days is a weak sign, as it can be prepared.
type majority struct {
	now, before tally // of this half hour, and of the one before
	began       time.Time
	today       tally
	day         uint16
	days        map[netip.Addr]dayBits // addresses that stood for most of a day
	parties     *bart.Table[netip.Addr]

	grace map[netip.Addr]time.Time // until when those of days are spared
	given time.Duration            // that is for so long
}

// dayBits are days, as in regular.
type dayBits struct{ day, days uint16 }

// trusting returns m, or a new one if m is nil, for a configuration. Addresses of
// a provider that it does not trust count as one. Who is only known for standing
// out for days is spared once for the time given.
func (m *majority) trusting(proxies []netip.Prefix, given time.Duration) *majority {
	if m == nil {
		m = &majority{days: map[netip.Addr]dayBits{}, grace: map[netip.Addr]time.Time{}}
	}
	m.given = given
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	m.parties = new(bart.Table[netip.Addr])
	for _, proxy := range lists.Proxies() {
		for _, p := range proxy.Prefixes {
			if !trusted(p.Addr()) {
				m.parties.Insert(p, proxy.Prefixes[0].Addr())
			}
		}
	}
	return m
}

// party is whom an address counts as.
func (m *majority) party(a netip.Addr) (p netip.Addr, provider bool) {
	if p, ok := m.parties.Lookup(a); ok {
		return p, true
	}
	return a, false
}

// add counts a line.
func (m *majority) add(client netip.Addr, now time.Time) {
	switch passed := now.Sub(m.began); {
	case passed >= 2*majoritySpan || passed < 0:
		m.now, m.before, m.began = tally{}, tally{}, now
	case passed >= majoritySpan:
		m.now, m.before, m.began = tally{}, m.now, now
	}
	if day := uint16(now.Unix() / (24 * 60 * 60)); day != m.day {
		m.endDay(day)
	}
	p, provider := m.party(client)
	m.now.add(p)
	m.today.add(p)
	if provider {
		m.now.edges.add(client)
	}
}

// endDay notes who stood for most of the day that is over.
func (m *majority) endDay(next uint16) {
	if m.today.lines >= majorityADay {
		for i := range m.today.counters {
			c := &m.today.counters[i]
			if 2*c.n <= m.today.lines {
				continue
			}
			b := m.days[c.addr]
			if m.day >= b.day {
				b.days = b.days<<(min(16, m.day-b.day)) | 1
			}
			b.day = m.day
			m.days[c.addr] = b
		}
	}
	for a, b := range m.days { // at most one is added a day
		if int(next)-int(b.day) > regularMemory {
			delete(m.days, a)
			delete(m.grace, a)
		}
	}
	m.today, m.day = tally{}, next
}

// misread says why an address is more likely a proxy that is taken for its
// clients than a client; "" if it isn't. banning says that it would be banned now,
// which begins the time that some are given.
func (m *majority) misread(client netip.Addr, now time.Time, banning bool) string {
	p, provider := m.party(client)
	lines := m.now.lines + m.before.lines
	if lines < majorityLines || 2*(m.now.of(p)+m.before.of(p)) <= lines {
		return ""
	}
	const stands = "stands for most of this log's traffic, and "
	switch {
	case provider && max(len(m.now.edges), len(m.before.edges)) >= majorityOthers:
		return stands + "is one of many addresses of a provider: do they belong into trusted_proxies?"
	case inside(p) && len(m.now.others) <= majorityOthers && len(m.before.others) <= majorityOthers:
		return stands + "is a private address almost alone: a proxy that belongs into trusted_proxies?"
	case m.longTime(p) && m.mayWait(p, now, banning):
		return stands + "has done so for days: a proxy that belongs into trusted_proxies? It will be banned soon"
	}
	return ""
}

// mayWait gives an address some time, once: for a person to look at it. Somebody
// who has prepared a flood for days gains no more than that.
func (m *majority) mayWait(a netip.Addr, now time.Time, banning bool) bool {
	until, known := m.grace[a]
	if !known {
		until = now.Add(m.given)
		if banning {
			m.grace[a] = until
		}
	}
	return now.Before(until)
}

// longTime reports whether an address stood for most of several days, today left
// out.
func (m *majority) longTime(a netip.Addr) bool {
	b, ok := m.days[a]
	if !ok || int(m.day)-int(b.day) > regularMemory {
		return false
	}
	return bits.OnesCount16(b.days&(1<<regularMemory-1)) >= regularDays
}

// inside reports whether an address is nobody's on the Internet (RFC 1918, 4193
// and 6598).
func inside(a netip.Addr) bool {
	return a.IsPrivate() || netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10).Contains(a)
}
