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
		var hop []byte
		hop, header = cutHop(header)
		switch a, what := r.look(hop); what {
		case hopTrusted, hopEmpty:
			continue
		case hopClient:
			return a, Forwarded
		default:
			return netip.Addr{}, Nobody
		}
	}
	return peer, Infrastructure
}

// Hop is one step of the walk from the peer to the client.
type Hop struct {
	Header  bool       // an entry of the forwarding header; else the peer
	Text    string     // as it stands there
	Addr    netip.Addr // not valid if the text is no address
	Trusted bool
	Result  string // what follows from it, in words
}

// Trace does what [Resolver.Resolve] does, and tells each step. The last may
// be about all of the header that was not looked at.
func (r *Resolver) Trace(peer netip.Addr, header []byte) ([]Hop, netip.Addr, Resolution) {
	if !r.Trusted(peer) {
		result := "no trusted proxy: it is the client"
		if len(header) > 0 {
			result += ", and the header that it sent is ignored"
		}
		return []Hop{{Text: peer.String(), Addr: peer, Result: result}}, peer, Direct
	}
	hops := []Hop{{Text: peer.String(), Addr: peer, Trusted: true, Result: "a trusted proxy: its header is looked at, from the right"}}
	for len(header) > 0 {
		var hop []byte
		hop, header = cutHop(header)
		a, what := r.look(hop)
		hops = append(hops, Hop{Header: true, Text: string(hop), Addr: a, Trusted: what == hopTrusted, Result: what.String()})
		if what == hopTrusted || what == hopEmpty {
			continue
		}
		if len(header) > 0 {
			hops = append(hops, Hop{Header: true, Text: string(header), Result: "not looked at: it was written by whoever is to the right of it"})
		}
		if what == hopClient {
			return hops, a, Forwarded
		}
		return hops, netip.Addr{}, Nobody
	}
	return hops, peer, Infrastructure
}

// HeaderClient returns the address that a forwarding header has last, which is
// the one that the peer has added. ok: all of the header's entries are
// addresses.
func HeaderClient(header []byte) (last netip.Addr, ok bool) {
	for len(header) > 0 {
		var hop []byte
		if hop, header = cutHop(header); len(hop) == 0 {
			continue
		}
		a, isAddr := parseHop(hop)
		if !isAddr {
			return netip.Addr{}, false
		}
		if !last.IsValid() {
			last = a
		}
	}
	return last, last.IsValid()
}

// cutHop cuts the rightmost entry off a forwarding header.
func cutHop(header []byte) (hop, rest []byte) {
	if i := bytes.LastIndexByte(header, ','); i >= 0 {
		header, rest = header[i+1:], header[:i]
	}
	return bytes.TrimSpace(header), rest
}

// hopKind is what an entry of a forwarding header is.
type hopKind uint8

const (
	hopEmpty hopKind = iota
	hopTrusted
	hopClient
	hopMalformed
	hopNoClient // an address that can't be a client's
)

func (k hopKind) String() string {
	return [...]string{
		"empty: passed over",
		"a trusted proxy: on to the next",
		"no trusted proxy: it is the client",
		"no address: the event counts for nobody",
		"an address that no client on the Internet has: the event counts for nobody",
	}[k]
}

// look says what an entry is. The address is valid if it is one.
func (r *Resolver) look(hop []byte) (netip.Addr, hopKind) {
	if len(hop) == 0 {
		return netip.Addr{}, hopEmpty
	}
	a, ok := parseHop(hop)
	switch {
	case !ok:
		return netip.Addr{}, hopMalformed
	case r.Trusted(a):
		return a, hopTrusted
	case !canBeClient(a):
		return a, hopNoClient
	default:
		return a, hopClient
	}
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
