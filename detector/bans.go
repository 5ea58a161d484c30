package detector

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// banKey names a ban that is in force or, for a rule that enforces nothing,
// would be.
type banKey struct {
	key
	owner int // enforced, or denyID, or the id of a jail
}

func (bk banKey) quick() uint32 { return bk.key.quick() + uint32(bk.owner) }

// A ban that is enforced ends all counting of its target, whoever asked for
// it. One that isn't stops only the counting of the rule that asked for it.
const (
	enforced = -1
	denyID   = -2
)

// setBan notes a ban, unless one of the same owner runs longer.
func (e *Engine) setBan(target netip.Prefix, owner int, until int64) {
	bk := banKey{keyOf(target), owner}
	if _, running, ok := e.bans.get(bk, e.ev.Time); ok && running > until {
		return
	}
	e.bans.put(bk, struct{}{}, until)
}

// banNoted keeps books of the bans that a client's target alone doesn't find.
func (e *Engine) banNoted(bk banKey, n int) {
	if n < 0 {
		e.sieve.remove(bk.key)
	} else if e.sieve.add(bk.key) {
		e.sieve.reset()
		for bk := range e.bans.entries {
			e.sieve.add(bk.key)
		}
	}
	if bk.host() {
		e.hosts += n
	}
	if p := bk.prefix(); !isTarget(p) {
		e.noteNetwork(p, n)
	}
}

func (e *Engine) noteNetwork(p netip.Prefix, n int) {
	if e.networks == nil {
		e.networks = new(bart.Table[int])
	}
	e.networks.Modify(p, func(bans int, _ bool) (int, bool) { return bans + n, bans+n == 0 })
	if e.networks.Size() == 0 {
		e.networks = nil
	}
}

// banned reports whether the candidate's target, its address alone or a
// network that holds it is banned at the event's time.
func (e *Engine) banned(c *candidate, owner int) bool {
	if e.recall != nil {
		return e.recallsBan(c, owner)
	}
	if e.bans.len() == 0 {
		return false
	}
	if e.sieve.may(c.key) {
		if _, _, ok := e.bans.get(banKey{c.key, owner}, c.time); ok {
			return true
		}
	}
	if e.hosts > 0 && c.key.bits < 128 {
		if _, _, ok := e.bans.get(banKey{keyOf(single(c.client)), owner}, c.time); ok {
			return true
		}
	}
	if e.networks == nil || !e.networks.Contains(c.client) {
		return false
	}
	for p := range e.networks.Supernets(single(c.client)) {
		if _, _, ok := e.bans.get(banKey{keyOf(p), owner}, c.time); ok {
			return true
		}
	}
	return false
}

// Restore tells the engine of a ban that it did not decide, or not since its
// start, so that events of its target don't count until it ends: in no jail if
// the ban is enforced, or else in the one that decided it. The target may be a
// network of any size: then those of all clients inside don't.
func (e *Engine) Restore(target netip.Prefix, jail string, isEnforced bool, until time.Time) {
	owner := enforced
	switch {
	case isEnforced:
	case jail == DenyName:
		owner = denyID
	default:
		j := e.jail(jail)
		if j == nil {
			return // the jail is gone, and with it what it observed
		}
		owner = j.id
	}
	e.setBan(target.Masked(), owner, until.UnixNano())
}

// Unban lets events count again at once that one ban, of exactly that target,
// kept from it. Windows and offences stay as they are: see [Engine.Clear].
func (e *Engine) Unban(target netip.Prefix) {
	k := keyOf(target.Masked())
	e.bans.delete(banKey{k, enforced})
	e.bans.delete(banKey{k, denyID})
	for _, j := range e.jails {
		e.bans.delete(banKey{k, j.id})
	}
}
