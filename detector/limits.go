package detector

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// limits says what a jail's limit is for a client. Each limit is a rule of
// its own in the table of windows: as a target is all inside or all outside of
// a network that has one, its events always meet the same rule.
type limits struct {
	usual  limit
	byFrom *bart.Table[limit] // nil: the usual one for all
}

type limit struct {
	events int
	rule   uint16
}

// newLimits makes room in the table for each limit of a jail.
func newLimits(t *table, j *Jail) limits {
	rules := map[int]limit{}
	add := func(events int) limit {
		l, ok := rules[events]
		if !ok {
			l = limit{events: events, rule: t.addRule(events, int64(j.Window))}
			rules[events] = l
		}
		return l
	}
	ls := limits{usual: add(j.Limit)}
	if len(j.Overrides) > 0 {
		ls.byFrom = new(bart.Table[limit])
		for _, o := range j.Overrides {
			ls.byFrom.Insert(o.From, add(o.Limit))
		}
	}
	return ls
}

// of returns the limit for a client.
func (ls *limits) of(client netip.Addr) limit {
	if ls.byFrom != nil {
		if l, ok := ls.byFrom.Lookup(client); ok {
			return l
		}
	}
	return ls.usual
}
