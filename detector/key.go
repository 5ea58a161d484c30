package detector

import (
	"encoding/binary"
	"net/netip"
)

// key stands for a target. IPv4 is kept in its mapped form, so that families
// never meet.
type key struct {
	hi, lo uint64
	bits   uint64 // prefix length, of 128; so wide that maps hash and compare all of it at once
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
	switch {
	case !client.IsValid():
		return netip.Prefix{}
	case client.Is4() || behindNAT64(client):
		return single(client)
	}
	return first64(client)
}

// first64 is the /64 of an IPv6 client.
func first64(client netip.Addr) netip.Prefix {
	p, _ := client.Prefix(64) // which it has
	return p
}

// clientKey is that of the client's target.
func clientKey(client netip.Addr) key {
	if client.Is4() {
		b := client.As4()
		return key{lo: 0xffff<<32 | uint64(binary.BigEndian.Uint32(b[:])), bits: 128}
	}
	k := keyOf(single(client))
	if k.bits == 128 && !(k.hi>>56 == 0 && behindNAT64(client)) { // as both prefixes begin
		k.lo, k.bits = 0, 64
	}
	return k
}

func behindNAT64(client netip.Addr) bool {
	for _, p := range nat64 {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

func keyOf(p netip.Prefix) key {
	b := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return key{hi: binary.BigEndian.Uint64(b[:8]), lo: binary.BigEndian.Uint64(b[8:]), bits: uint64(bits)}
}

// prefix undoes keyOf.
func (k key) prefix() netip.Prefix {
	if k.v4() {
		return netip.PrefixFrom(k.addr(), int(k.bits)-96)
	}
	return netip.PrefixFrom(k.addr(), int(k.bits))
}

// addr is the first address of what it stands for.
func (k key) addr() netip.Addr {
	if k.v4() {
		return netip.AddrFrom4([4]byte{byte(k.lo >> 24), byte(k.lo >> 16), byte(k.lo >> 8), byte(k.lo)})
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b)
}

// quick is a hash that is quick, and no more than that: it is for a place to
// look first.
func (k key) quick() uint32 { return uint32((k.hi ^ k.lo) * 0x9e3779b97f4a7c15 >> 32) }

// host reports whether it stands for a single IPv6 address.
func (k key) host() bool { return k.bits == 128 && k.hi != 0 }

// in reports whether it stands for n, or something inside of it.
func (k key) in(n key) bool {
	if k.bits < n.bits || k.v4() != n.v4() {
		return false
	}
	if n.bits <= 64 {
		return (k.hi^n.hi)>>(64-n.bits) == 0
	}
	return k.hi == n.hi && (k.lo^n.lo)>>(128-n.bits) == 0
}

func (k key) v4() bool { return k.bits >= 96 && k.hi == 0 && k.lo>>32 == 0xffff }

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// isTarget reports whether a ban of p is found by the target of a client, or
// its address. All else are networks.
func isTarget(p netip.Prefix) bool { return p.IsSingleIP() || p == TargetOf(p.Addr()) }
