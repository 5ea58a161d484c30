package cli

import (
	"net/netip"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/parser"
)

const (
	// fewPeers is how many different addresses a handful of proxies has, and
	// manyLines how many lines tell that no others come.
	fewPeers  = 3
	manyLines = 50

	// someLines with private addresses tell of a proxy: no client on the
	// Internet has one.
	someLines = 3
)

// headerSample is what the lines of a log's beginning show of its forwarding
// header.
type headerSample struct {
	lines  int                // that parse
	named  int                // whose header names somebody else than the peer
	other  int                // whose header is no list of addresses
	inside int                // of those named, with a peer that is not on the Internet
	peers  map[netip.Addr]int // of those named
	all    map[netip.Addr]bool
}

func (s *headerSample) add(ev *parser.Event) {
	if s.peers == nil {
		s.peers, s.all = map[netip.Addr]int{}, map[netip.Addr]bool{}
	}
	s.lines++
	s.all[ev.Peer] = true
	if len(ev.Forward) == 0 {
		return
	}
	client, ok := parser.HeaderClient(ev.Forward)
	switch {
	case !ok:
		s.other++
	case client != ev.Peer:
		s.named++
		s.peers[ev.Peer]++
		if ev.Peer.IsPrivate() || ev.Peer.IsLoopback() || ev.Peer.IsLinkLocalUnicast() {
			s.inside++
		}
	}
}

// busiest is the peer with most lines that name somebody else.
func (s *headerSample) busiest() netip.Addr {
	var best netip.Addr
	for a, n := range s.peers {
		if m := s.peers[best]; n > m || n == m && a.Less(best) {
			best = a
		}
	}
	return best
}

// behindProxy reports whether the lines look like those of a server behind a
// proxy: most of those with a header come from addresses that no client has, or
// nearly all lines from few.
func (s *headerSample) behindProxy() bool {
	if s.named >= someLines && 2*s.inside > s.named {
		return true
	}
	return s.lines >= manyLines && len(s.all) <= fewPeers && 2*s.named > s.lines
}

// header warns of a forwarding header that is not used, and of one that is none.
func (f *fileCheck) header(l *config.Log, name string, s *headerSample) {
	at := f.conf.At(0, "logs", l.Name, "format")
	switch {
	case 2*s.other > s.lines:
		f.warn(at, "what stands in the place of the forwarding header is no address in %d of the first %d lines of %s: see tailban probe",
			s.other, s.lines, name)
	case len(f.conf.TrustedProxies) == 0 && !l.Rewritten && s.behindProxy():
		f.warn(at, "lines of %s hold a forwarding header, as from the proxy %s, but no proxy is trusted: that proxy would be banned: set trusted_proxies",
			name, s.busiest())
	}
}
