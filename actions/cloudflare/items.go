package cloudflare

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// item is one of the list, as far as we know.
type item struct {
	id    string // "": not known yet
	tag   tag    // of ours
	ours  bool   // it has the product's tag
	mine  bool   // and the instance's
	until time.Time

	// Of access rules, which may do something else than ban.
	wrong  bool // it is mine, and doesn't do what it should
	weak   bool // it does less than ours would
	allows bool // it lets through
}

// left is how long what is mine has left.
func (i *item) left(now time.Time) time.Duration {
	if left := i.until.Sub(now); left > 0 && i.wrong {
		return noEnd
	} else if left > 0 {
		return left
	}
	return anyMoment
}

// over reports whether the time of an item of ours is over.
func (i *item) over(now time.Time) bool { return i.ours && !i.until.After(now) }

// cache is what the list holds, as far as we know. It is wrong after whatever went
// wrong, and when somebody else has changed the list.
type cache struct {
	valid  bool
	items  map[netip.Prefix]*item
	others bart.Table[*item] // those that are not this instance's
	mine   int
	other  int // items that are no addresses
}

// size is how many items the list should have.
func (c *cache) size() int { return len(c.items) + c.other }

// notMine is how many of them are not this instance's.
func (c *cache) notMine() int { return c.size() - c.mine }

// pages is how many requests it takes to read it.
func (c *cache) pages() int { return 1 + c.size()/perPage }

// newCache sorts what was listed. What is no address isn't ours to judge, but takes
// room.
func newCache(raw []rawItem, instance string) *cache {
	c := &cache{valid: true, items: make(map[netip.Prefix]*item, len(raw))}
	for _, r := range raw {
		p, ok := parseIP(r.ip)
		if !ok {
			c.other++
			continue
		}
		it := &item{id: r.id}
		it.tag, it.ours = parseTag(r.comment)
		it.mine, it.until = it.ours && it.tag.instance == instance, it.tag.until
		c.put(p, it)
	}
	return c
}

func (c *cache) put(p netip.Prefix, it *item) {
	c.drop(p)
	c.items[p] = it
	if it.mine {
		c.mine++
	} else {
		c.others.Insert(p, it)
	}
}

func (c *cache) drop(p netip.Prefix) {
	it := c.items[p]
	if it == nil {
		return
	}
	delete(c.items, p)
	if it.mine {
		c.mine--
	} else {
		c.others.Delete(p)
	}
}

// cover is the end of what others have put in and that covers a target; forever:
// something does that has no end. exact says that it is the very item that the
// target would be.
func (c *cache) cover(target netip.Prefix, now time.Time) (until time.Time, exact, yes bool) {
	for p, it := range c.others.Supernets(target) {
		if it.over(now) || it.allows || it.weak && p != target {
			continue
		}
		end := it.until
		if !it.ours {
			end = now.Add(forever)
		}
		if !yes || end.After(until) {
			until = end
		}
		yes, exact = true, exact || p == target
	}
	return until, exact, yes
}

// forever is longer than any ban.
const forever = 100 * 365 * 24 * time.Hour

// parseIP reads the address or network of an item.
func parseIP(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

// formatIP writes a target as an item has it: one address without its length.
func formatIP(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// Shortest networks that an item can be.
const shortest4, shortest6 = 8, 12

// fits reports whether a target can be an item.
func fits(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() >= shortest4
	}
	return p.Addr().Is6() && !p.Addr().Is4In6() && p.Bits() >= shortest6
}
