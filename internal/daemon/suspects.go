package daemon

import (
	"log/slog"
	"net/netip"
	"time"
)

const (
	maxSuspects = 256
	manyLines   = 50 // unparsed, before a peer is spoken of

	// fadeEvery is how often all counts are halved. The longer, the slower a
	// peer must be to stay unnoticed: here, three such lines a minute.
	fadeEvery = 10 * time.Minute
)

// suspects counts peers whose lines don't parse: whoever can make the server
// write such lines would otherwise be invisible. When it is full, the peer
// with the fewest makes room.
type suspects struct {
	peers map[netip.Addr]*suspect
	faded time.Time
}

type suspect struct{ parsed, unparsed int }

// bad counts a line that did not parse.
func (s *suspects) bad(peer netip.Addr) {
	if x := s.peers[peer]; x != nil {
		x.unparsed++
		return
	}
	if s.peers == nil {
		s.peers = map[netip.Addr]*suspect{}
	}
	if len(s.peers) >= maxSuspects {
		var least netip.Addr
		for a, x := range s.peers {
			if !least.IsValid() || x.unparsed < s.peers[least].unparsed {
				least = a
			}
		}
		delete(s.peers, least)
	}
	s.peers[peer] = &suspect{unparsed: 1}
}

// good counts a line that did. Only peers with bad ones are of interest.
func (s *suspects) good(peer netip.Addr) {
	if len(s.peers) == 0 {
		return
	}
	if x := s.peers[peer]; x != nil {
		x.parsed++
	}
}

// look speaks of peers of whose lines more than half don't parse, and from
// time to time lets the past fade.
func (s *suspects) look(log *slog.Logger, said *sayer, name string, now time.Time) {
	for peer, x := range s.peers {
		if x.unparsed >= manyLines && x.unparsed > x.parsed && said.once("unparsed "+name+" "+peer.String(), now) {
			log.Warn("most lines of this peer don't parse, so no jail sees them", "log", name, "peer", peer.String(),
				"unparsed", x.unparsed, "parsed", x.parsed)
		}
	}
	if now.Sub(s.faded) >= fadeEvery {
		s.faded = now
		s.fade()
	}
}

// fade halves all counts.
func (s *suspects) fade() {
	for peer, x := range s.peers {
		x.parsed /= 2
		if x.unparsed /= 2; x.unparsed == 0 {
			delete(s.peers, peer)
		}
	}
}
