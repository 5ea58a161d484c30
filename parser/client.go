package parser

import (
	"bytes"
	"net/netip"

	"github.com/gaissmai/bart"
)

// Resolution says how a client was found.
type Resolution uint8

const (
	// Direct: the peer is no trusted proxy and therefore the client; a
	// header it sent is ignored. The kernel sees this address.
	Direct Resolution = iota
	// Forwarded: a trusted proxy's header named the client. Only an edge
	// sees this address.
	Forwarded
	// Infrastructure: the peer is a trusted proxy and no hop beyond it is
	// known. The client returned is the peer.
	Infrastructure
	// Nobody: the header holds a value that is no client (malformed,
	// private, loopback …): the event counts for nobody.
	Nobody
)

func (r Resolution) String() string {
	return [...]string{"direct", "forwarded", "infrastructure", "nobody"}[r]
}

// Resolver finds the client of an event. It is safe for concurrent use.
type Resolver struct {
	trusted *bart.Lite
	any     bool
}

// NewResolver makes a Resolver that trusts the forwarding header of these
// peers.
func NewResolver(trusted []netip.Prefix) *Resolver {
	r := &Resolver{trusted: new(bart.Lite), any: len(trusted) > 0}
	for _, p := range trusted {
		r.trusted.Insert(p)
	}
	return r
}

// Trusted reports whether a is a trusted proxy.
func (r *Resolver) Trusted(a netip.Addr) bool { return r.any && r.trusted.Contains(a) }

// Resolve walks from the peer outward: right to left through the header as
// long as the hop it came from is trusted. The first hop that is not trusted
// is the client. An entry that is no address ends the walk without a client;
// the one before it is never tried instead, as whoever wrote the bad entry
// wrote that one as well.
func (r *Resolver) Resolve(peer netip.Addr, header []byte) (netip.Addr, Resolution) {
	if !r.Trusted(peer) {
		return peer, Direct
	}
	for len(header) > 0 {
		hop := header
		if i := bytes.LastIndexByte(header, ','); i >= 0 {
			hop, header = header[i+1:], header[:i]
		} else {
			header = nil
		}
		hop = bytes.TrimSpace(hop)
		if len(hop) == 0 {
			continue
		}
		a, ok := parseHop(hop)
		if !ok {
			return netip.Addr{}, Nobody
		}
		if r.Trusted(a) {
			continue
		}
		if !canBeClient(a) {
			return netip.Addr{}, Nobody
		}
		return a, Forwarded
	}
	return peer, Infrastructure
}

// parseHop reads one entry of a forwarding header: an address, perhaps with a
// port, perhaps in brackets or quotes (which logs show escaped).
func parseHop(b []byte) (netip.Addr, bool) {
	for _, q := range []string{`"`, `\"`, `\x22`} {
		if len(b) >= 2*len(q) && string(b[:len(q)]) == q && string(b[len(b)-len(q):]) == q {
			b = b[len(q) : len(b)-len(q)]
			break
		}
	}
	// A zone means nothing on another host, and "%3A" is no zone at all.
	if bytes.IndexByte(b, '%') >= 0 {
		return netip.Addr{}, false
	}
	if len(b) > 0 && b[0] == '[' {
		i := bytes.IndexByte(b, ']')
		if i < 0 || i+1 < len(b) && !isPort(b[i+1:]) {
			return netip.Addr{}, false
		}
		a, ok := ParseAddr(b[1:i])
		return a, ok && bytes.IndexByte(b[:i], ':') >= 0
	}
	// One colon: IPv4 with a port. IPv6 has at least two.
	if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		if !isPort(b[i:]) {
			return netip.Addr{}, false
		}
		b = b[:i]
	}
	return ParseAddr(b)
}

// isPort reports whether b is ":" and a port number.
func isPort(b []byte) bool {
	n, ok := digits(b[1:])
	return b[0] == ':' && ok && len(b) >= 2 && len(b) <= 6 && n <= 65535
}

var (
	carrierNAT = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	thisNet    = netip.MustParsePrefix("0.0.0.0/8")     // RFC 1122
	classE     = netip.MustParsePrefix("240.0.0.0/4")   // RFC 1112; also what Cloudflare's Pseudo IPv4 makes up
)

// canBeClient reports whether an address from a header can be a client on
// the Internet. Documentation ranges can, as they stand for such clients.
func canBeClient(a netip.Addr) bool {
	return !(a.IsPrivate() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() ||
		a.IsLinkLocalUnicast() || carrierNAT.Contains(a) || thisNet.Contains(a) || classE.Contains(a))
}
