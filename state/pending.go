package state

import (
	"maps"
	"net/netip"
	"time"
)

// pending is what waits to be committed: the newest value per key, nil for a
// removal. It grows with the number of keys, not with that of updates.
type pending struct {
	bans      map[netip.Prefix]*Ban
	offences  map[OffenceKey]*Offence
	positions map[PositionKey]*Position

	pardons    map[PardonKey]*Pardon
	allowances map[netip.Prefix]*Allowance
	holds      map[string]*Hold

	notes map[uint64]*Note

	since time.Time // when the first of it came
}

func newPending() *pending {
	return &pending{
		bans:      map[netip.Prefix]*Ban{},
		offences:  map[OffenceKey]*Offence{},
		positions: map[PositionKey]*Position{},

		pardons:    map[PardonKey]*Pardon{},
		allowances: map[netip.Prefix]*Allowance{},
		holds:      map[string]*Hold{},

		notes: map[uint64]*Note{},
	}
}

func (p *pending) len() int {
	return len(p.bans) + len(p.offences) + len(p.positions) + len(p.notes) + p.manual()
}

// manual is how much of it somebody has said by hand.
func (p *pending) manual() int {
	return len(p.pardons) + len(p.allowances) + len(p.holds)
}

// urgent reports whether a ban or its end waits, or something that somebody
// has said by hand.
func (p *pending) urgent() bool { return len(p.bans) > 0 || p.manual() > 0 }

// add merges an update, copying all of it, and returns how many parts of it
// can't be stored and were left out, with the first reason.
func (p *pending) add(u *Update) (refused int, why error) {
	fits := func(err error) bool {
		if err == nil {
			return true
		}
		refused++
		if why == nil {
			why = err
		}
		return false
	}
	forget(fits, p.bans, u.Unbans, checkPrefix)
	forget(fits, p.offences, u.ForgetOffences, OffenceKey.check)
	forget(fits, p.positions, u.ForgetPositions, PositionKey.check)
	forget(fits, p.pardons, u.ForgetPardons, PardonKey.check)
	forget(fits, p.allowances, u.ForgetAllowances, checkPrefix)
	forget(fits, p.holds, u.ForgetHolds, func(jail string) error { return checkName("jail", jail) })
	forget(fits, p.notes, u.ForgetNotes, checkNote)

	for i := range u.Bans {
		if b := u.Bans[i].Clone(); fits(b.Check()) {
			p.bans[b.Target] = &b
		}
	}
	put(fits, p.offences, u.Offences, (*Offence).Key)
	put(fits, p.positions, u.Positions, (*Position).Key)
	put(fits, p.pardons, u.Pardons, (*Pardon).Key)
	put(fits, p.allowances, u.Allowances, func(a *Allowance) netip.Prefix { return a.Target })
	put(fits, p.holds, u.Holds, func(h *Hold) string { return h.Jail })
	for i := range u.Notes {
		if n := u.Notes[i].Clone(); fits(n.Check()) {
			p.notes[n.N] = &n
		}
	}
	return refused, why
}

func forget[K comparable, V any](fits func(error) bool, in map[K]*V, keys []K, check func(K) error) {
	for _, k := range keys {
		if fits(check(k)) {
			in[k] = nil
		}
	}
}

// put copies values that share no memory with their copies.
func put[K comparable, V any, P checked[V]](fits func(error) bool, in map[K]*V, values []V, keyOf func(P) K) {
	for _, v := range values {
		if fits(P(&v).Check()) {
			in[keyOf(&v)] = &v
		}
	}
}

// addNewer merges what came after p.
func (p *pending) addNewer(q *pending) {
	maps.Copy(p.bans, q.bans)
	maps.Copy(p.offences, q.offences)
	maps.Copy(p.positions, q.positions)
	maps.Copy(p.pardons, q.pardons)
	maps.Copy(p.allowances, q.allowances)
	maps.Copy(p.holds, q.holds)
	maps.Copy(p.notes, q.notes)
}

// update returns all of it as one update.
func (p *pending) update() Update {
	var u Update
	u.Bans, u.Unbans = split(p.bans)
	u.Offences, u.ForgetOffences = split(p.offences)
	u.Positions, u.ForgetPositions = split(p.positions)
	u.Pardons, u.ForgetPardons = split(p.pardons)
	u.Allowances, u.ForgetAllowances = split(p.allowances)
	u.Holds, u.ForgetHolds = split(p.holds)
	u.Notes, u.ForgetNotes = split(p.notes)
	return u
}

// split returns the values, and the keys that have none.
func split[K comparable, V any](m map[K]*V) (values []V, removed []K) {
	for k, v := range m {
		if v == nil {
			removed = append(removed, k)
		} else {
			values = append(values, *v)
		}
	}
	return values, removed
}
