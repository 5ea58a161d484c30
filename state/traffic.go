package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// LogTraffic is who stood for most of a log's lines, at the moment of a snapshot.
type LogTraffic struct {
	Log    string    `json:"log"`
	Began  time.Time `json:"began"` // the span at hand
	Now    Tally     `json:"now"`   // of the span at hand
	Before Tally     `json:"before,omitzero"`
	Day    uint16    `json:"day"` // from 1970-01-01 (UTC)
	Today  Tally     `json:"today"`
	Graces []Grace   `json:"graces,omitempty"`
}

// Tally is how many lines there were, and from whom as far as that is known.
type Tally struct {
	Lines uint64       `json:"lines"`
	Heavy []Heavy      `json:"heavy,omitempty"`
	Few   []netip.Addr `json:"few,omitempty"`   // others
	Edges []netip.Addr `json:"edges,omitempty"` // those of providers
}

// Heavy is an address that at least so many lines came from.
type Heavy struct {
	Addr netip.Addr `json:"addr"`
	N    uint64     `json:"n"`
}

// Grace is until when an address is not banned that stood for most of a log.
type Grace struct {
	Addr  netip.Addr `json:"addr"`
	Until time.Time  `json:"until"`
}

// traffic writes one of a log.
func (s *summed) traffic(t *LogTraffic) error {
	p, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("traffic of log %s: %w", t.Log, err)
	}
	s.text(string(p))
	return nil
}

func (d *decoding) traffic() (t LogTraffic) {
	text := d.take(d.number(1))
	if d.err != nil {
		return t
	}
	if err := json.Unmarshal(text, &t); err != nil {
		d.fail(fmt.Errorf("traffic: %w", err))
	}
	return t
}
