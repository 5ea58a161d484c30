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
	since     time.Time // when the first of it came
}

func newPending() *pending {
	return &pending{
		bans:      map[netip.Prefix]*Ban{},
		offences:  map[OffenceKey]*Offence{},
		positions: map[PositionKey]*Position{},
	}
}

func (p *pending) len() int {
	return len(p.bans) + len(p.offences) + len(p.positions)
}

// urgent reports whether a ban or its end waits.
func (p *pending) urgent() bool { return len(p.bans) > 0 }

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
	for _, t := range u.Unbans {
		if fits(checkPrefix(t)) {
			p.bans[t] = nil
		}
	}
	for _, k := range u.ForgetOffences {
		if fits(k.check()) {
			p.offences[k] = nil
		}
	}
	for _, k := range u.ForgetPositions {
		if fits(k.check()) {
			p.positions[k] = nil
		}
	}
	for i := range u.Bans {
		if b := u.Bans[i].Clone(); fits(b.Check()) {
			p.bans[b.Target] = &b
		}
	}
	for _, o := range u.Offences {
		if fits(o.Check()) {
			p.offences[o.Key()] = &o
		}
	}
	for _, f := range u.Positions {
		if fits(f.Check()) {
			p.positions[f.Key()] = &f
		}
	}
	return refused, why
}

// addNewer merges what came after p.
func (p *pending) addNewer(q *pending) {
	maps.Copy(p.bans, q.bans)
	maps.Copy(p.offences, q.offences)
	maps.Copy(p.positions, q.positions)
}

// update returns all of it as one update.
func (p *pending) update() Update {
	var u Update
	for t, b := range p.bans {
		if b == nil {
			u.Unbans = append(u.Unbans, t)
		} else {
			u.Bans = append(u.Bans, *b)
		}
	}
	for k, o := range p.offences {
		if o == nil {
			u.ForgetOffences = append(u.ForgetOffences, k)
		} else {
			u.Offences = append(u.Offences, *o)
		}
	}
	for k, f := range p.positions {
		if f == nil {
			u.ForgetPositions = append(u.ForgetPositions, k)
		} else {
			u.Positions = append(u.Positions, *f)
		}
	}
	return u
}
