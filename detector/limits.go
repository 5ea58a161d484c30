package detector

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// limits says what a jail's limit is for a client. As a target is all inside
// or all outside of a network that has one, its events always meet the same.
type limits struct {
	usual  int
	byFrom *bart.Table[int] // nil: the usual one for all
	most   int              // the highest of them
}

func newLimits(j *Jail) limits {
	ls := limits{usual: j.Limit, most: j.Limit}
	if len(j.Overrides) > 0 {
		ls.byFrom = new(bart.Table[int])
		for _, o := range j.Overrides {
			ls.byFrom.Insert(o.From, o.Limit)
			ls.most = max(ls.most, o.Limit)
		}
	}
	return ls
}

// of returns the limit for a client.
func (ls *limits) of(client netip.Addr) int {
	if ls.byFrom != nil {
		if l, ok := ls.byFrom.Lookup(client); ok {
			return l
		}
	}
	return ls.usual
}
