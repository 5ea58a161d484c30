package detector

import (
	"encoding/binary"
	"net/netip"
)

// key stands for a target. IPv4 is kept in its mapped form, so that families
// never meet.
type key struct {
	hi, lo uint64
	bits   uint8 // prefix length, of 128
}

var nat64 = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"),   // RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"), // RFC 8215
}

// TargetOf returns what a ban of a client is about, which is also what its
// events are counted by: the address for IPv4, the /64 for IPv6, since that
// is what one host has at its disposal. Behind a NAT64 prefix each address is
// an IPv4 client of its own.
func TargetOf(client netip.Addr) netip.Prefix {
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
		for _, p := range nat64 {
			if p.Contains(client) {
				bits = 128
			}
		}
	}
	p, _ := client.Prefix(bits) // cannot fail: bits fits the family
	return p
}

func keyOf(p netip.Prefix) key {
	b := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return key{hi: binary.BigEndian.Uint64(b[:8]), lo: binary.BigEndian.Uint64(b[8:]), bits: uint8(bits)}
}
