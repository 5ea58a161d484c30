package daemon

import (
	"net/netip"
	"time"

	"github.com/tailban/tailban/state"
)

// maxOffences is how many offences are stored. It is as many as the detector
// remembers.
const maxOffences = 200_000

// history knows which offences are stored, and when each stops to count: the
// store would keep them for good.
type history struct {
	cap  int
	last func(history string) time.Duration // how long after the latest one offences count
	keys map[state.OffenceKey]*pastOffence
	ends *queue[pastOffence]
}

type pastOffence struct {
	key state.OffenceKey
	end time.Time
	at  int // in the queue
}

func newHistory(cap int, last func(string) time.Duration) *history {
	return &history{
		cap:  cap,
		last: last,
		keys: map[state.OffenceKey]*pastOffence{},
		ends: newQueue(
			func(p *pastOffence) time.Time { return p.end },
			func(p *pastOffence) *int { return &p.at }),
	}
}

// add notes an offence that is to be stored.
func (h *history) add(o *state.Offence) {
	end := o.Last.Add(h.last(o.Jail))
	if p := h.keys[o.Key()]; p != nil {
		p.end = end
		h.ends.moved(p)
		return
	}
	p := &pastOffence{key: o.Key(), end: end}
	h.keys[p.key] = p
	h.ends.add(p)
}

// forget drops the offences that no longer count, and of too many those that
// stop to soonest, and returns their keys.
func (h *history) forget(now time.Time) (gone []state.OffenceKey) {
	for p := h.ends.first(); p != nil && (len(h.keys) > h.cap || !p.end.After(now)); p = h.ends.first() {
		h.ends.remove(p)
		delete(h.keys, p.key)
		gone = append(gone, p.key)
	}
	return gone
}

// dropOne forgets one, and returns its key if there was one.
func (h *history) dropOne(key state.OffenceKey) []state.OffenceKey {
	p := h.keys[key]
	if p == nil {
		return nil
	}
	h.ends.remove(p)
	delete(h.keys, key)
	return []state.OffenceKey{key}
}

// drop forgets the offences of targets inside a network, of one history or, if
// that is "", of all, and returns their keys.
func (h *history) drop(network netip.Prefix, history string) (gone []state.OffenceKey) {
	for key, p := range h.keys {
		if history != "" && key.Jail != history || key.Target.Bits() < network.Bits() || !network.Overlaps(key.Target) {
			continue
		}
		h.ends.remove(p)
		delete(h.keys, key)
		gone = append(gone, key)
	}
	return gone
}
