package daemon

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// through is how many requests of banned clients have reached the server
// although an action should keep them away.
type through struct {
	requests  uint64
	forwarded uint64 // of these: through a proxy
}

// seen counts a request of a client that is banned, if it is younger than the
// ban: what was in flight when it was decided has the time of its line.
func (e *engine) seen(v *detector.Verdict) {
	h := e.bans.covering(e.detect.Target(v.Client), v.Client)
	if h == nil || v.Time <= h.since().UnixNano() {
		return
	}
	forwarded := v.Plane == parser.Forwarded
	h.requests++
	h.lastRequest = max(h.lastRequest, v.Time)
	if forwarded {
		h.forwarded++
		if h.direct() {
			e.toEdge(h)
		}
	}
	if h.Waiting {
		e.bans.waiting.moved(h)
		return
	}
	for name := range e.enforcing {
		if !h.names(name) {
			continue
		}
		t := e.through[name]
		t.requests++
		if forwarded {
			t.forwarded++
		}
		e.through[name] = t
	}
}

// names reports whether any owner has an action enforce the ban.
func (h *heldBan) names(action string) bool {
	for i := range h.Owners {
		if slices.Contains(h.Owners[i].Actions, action) {
			return true
		}
	}
	return false
}

// covering is the ban that should keep a client away: of what it is counted by,
// of its address or /64, or of a network; one that is enforced before others.
// nil: there is none.
func (t *banTable) covering(target netip.Prefix, client netip.Addr) (found *heldBan) {
	for _, p := range [...]netip.Prefix{target, netip.PrefixFrom(client, client.BitLen()), detector.TargetOf(client)} {
		if h := t.bans[p]; h != nil {
			if h.enforceable() {
				return h
			}
			found = h
		}
	}
	if t.networks.Size() > 0 {
		if h, yes := t.networks.Lookup(client); yes && (found == nil || h.enforceable()) {
			return h
		}
	}
	return found
}

// isNetwork reports whether a ban's target is none that a client is counted by.
func isNetwork(target netip.Prefix) bool {
	return !target.IsSingleIP() && detector.TargetOf(target.Addr()) != target
}

// behindProxy is what a jail's bans since the start were about.
type behindProxy struct {
	first     time.Time // when the first was decided
	bans      int
	forwarded int  // of these: of clients that only a proxy sees
	said      bool // that these are all
}

// A jail whose bans are all about clients behind a proxy is told of when there
// are so many, and so long after the first.
const (
	enoughForwarded = 3
	forwardedAfter  = 3 * time.Minute
)

// add notes a ban that is enforced.
func (b *behindProxy) add(plane parser.Resolution, now time.Time) {
	if b.bans == 0 {
		b.first = now
	}
	b.bans++
	if plane == parser.Forwarded {
		b.forwarded++
	}
}

// sayForwarded says, once, of each jail whose bans are all about clients that
// the kernel doesn't see, that they stop nobody.
func (e *engine) sayForwarded(now time.Time) {
	for name, j := range e.jails {
		b := &j.behind
		if b.said || b.bans < enoughForwarded || b.forwarded < b.bans || now.Sub(b.first) < forwardedAfter {
			continue
		}
		b.said = true
		e.say(now, slog.LevelWarn, "all bans of the jail are about clients behind a proxy: the kernel sees only the proxy, and stops none of them there", "jail", name, "bans", b.bans)
		e.hub.publish(alarm(now, "jail "+name+": all of its bans are about clients behind a proxy, where the kernel stops none of them"))
	}
}
