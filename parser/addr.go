package parser

import (
	"bytes"
	"net/netip"
)

// maxAddrText is longer than any address with any interface name as zone.
const maxAddrText = 128

// ParseAddr reads an IPv4 or IPv6 address that fills all of b. It is the one
// place where an address enters the program: the result is unmapped (an
// IPv4-mapped IPv6 address is the IPv4 address) and has no zone, so that one
// client has one form.
//
// It accepts what [netip.ParseAddr] accepts and, unlike it, allocates
// nothing.
func ParseAddr(b []byte) (netip.Addr, bool) {
	if len(b) > maxAddrText {
		return netip.Addr{}, false
	}
	if a, ok := parse4(b); ok {
		return netip.AddrFrom4(a), true
	}
	if i := bytes.IndexByte(b, '%'); i >= 0 {
		if i == len(b)-1 {
			return netip.Addr{}, false
		}
		b = b[:i]
	}
	a, ok := parse6(b)
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(a).Unmap(), true
}

// parse4 reads a dotted quad: decimal, no leading zeros.
func parse4(b []byte) (a [4]byte, ok bool) {
	if len(b) < len("0.0.0.0") || len(b) > len("255.255.255.255") {
		return a, false
	}
	part, digits, value := 0, 0, 0
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			if digits > 0 && value == 0 {
				return a, false
			}
			value = value*10 + int(c-'0')
			digits++
			if value > 255 {
				return a, false
			}
		case c == '.' && digits > 0 && part < 3:
			a[part] = byte(value)
			part, digits, value = part+1, 0, 0
		default:
			return a, false
		}
	}
	if part != 3 || digits == 0 {
		return a, false
	}
	a[3] = byte(value)
	return a, true
}

// parse6 reads the text forms of RFC 4291, section 2.2, without a zone.
func parse6(b []byte) (a [16]byte, ok bool) {
	gap := -1 // where "::" stands in a
	n := 0    // bytes of a filled
	if len(b) >= 2 && b[0] == ':' && b[1] == ':' {
		gap, b = 0, b[2:]
		if len(b) == 0 {
			return a, true
		}
	}
	for n < 16 {
		value, digits := 0, 0
		for digits < len(b) {
			h := unhex(b[digits])
			if h < 0 {
				break
			}
			value = value<<4 | h
			digits++
			if digits > 4 {
				return a, false
			}
		}
		if digits == 0 {
			return a, false
		}
		if digits < len(b) && b[digits] == '.' { // an IPv4 tail
			if n > 12 || gap < 0 && n != 12 {
				return a, false
			}
			v4, ok := parse4(b)
			if !ok {
				return a, false
			}
			copy(a[n:], v4[:])
			n, b = n+4, nil
			break
		}
		a[n], a[n+1] = byte(value>>8), byte(value)
		n, b = n+2, b[digits:]
		if len(b) == 0 {
			break
		}
		if b[0] != ':' || len(b) == 1 {
			return a, false
		}
		b = b[1:]
		if b[0] == ':' {
			if gap >= 0 {
				return a, false
			}
			gap, b = n, b[1:]
			if len(b) == 0 {
				break
			}
		}
	}
	if len(b) != 0 {
		return a, false
	}
	if n == 16 {
		return a, gap < 0
	}
	if gap < 0 {
		return a, false
	}
	copy(a[16-(n-gap):], a[gap:n])
	clear(a[gap : 16-(n-gap)])
	return a, true
}

// unhex returns the value of a hexadecimal digit, or -1. It is a table, since
// whether a digit is a letter can't be foreseen, and a wrong guess takes longer.
func unhex(c byte) int { return int(hexValues[c]) - 1 }

// hexValues holds the value of each hexadecimal digit plus one, and else 0.
var hexValues = [256]uint8{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16,
	'A': 11, 'B': 12, 'C': 13, 'D': 14, 'E': 15, 'F': 16,
}

// ParsePrefix reads an address or a range as people write them, unmapped; what
// is wider than all of IPv4 in its IPv6 form stays in that. The bits behind the
// mask are kept.
func ParsePrefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	if mapped := 128 - 32; p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, true
}
