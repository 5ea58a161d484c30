//go:build linux

package actions

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What the kernel's IP sets are told and tell: linux/netfilter/ipset/ip_set.h,
// read in net/netfilter/ipset/ip_set_core.c. Attributes are struct nlattr;
// numbers are in network order and flagged as such, but for those of lines.

// ipset is what a set is, without its members.
type ipset struct {
	name    string
	kind    string // "hash:ip" or "hash:net"
	family  uint8  // unix.NFPROTO_IPV4 or NFPROTO_IPV6
	netmask uint8  // members of a hash:ip are cut to it; 0: they are whole addresses
	size    uint32 // members, at most
	bans    bool   // members have timeouts and counters
}

// Revisions of the types of sets: the first that have counters. Later ones only
// add what is not used.
const (
	revisionHashIP  = 1
	revisionHashNet = 3
)

const (
	hashIP  = "hash:ip"
	hashNet = "hash:net"

	flagListHeader = 1 << 2 // IPSET_FLAG_LIST_HEADER: leave the members out
)

// member is what is in a set.
type member struct {
	target  netip.Prefix
	timeout uint32 // seconds; 0: for good
	packets uint64
	bytes   uint64
	counted bool // set the counters as well
	except  bool // it is an exception from the networks around it ("nomatch")
}

func appendAttr(b []byte, kind uint16, value ...byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.NLA_HDRLEN+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

func appendString(b []byte, kind uint16, s string) []byte {
	return appendAttr(b, kind, append([]byte(s), 0)...)
}

func appendUint32(b []byte, kind uint16, v uint32) []byte {
	return appendAttr(b, kind|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint32(nil, v)...)
}

func appendUint64(b []byte, kind uint16, v uint64) []byte {
	return appendAttr(b, kind|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint64(nil, v)...)
}

// appendLine is for the number of a member in its message, by which the kernel
// names the one that it doesn't take.
func appendLine(b []byte, line int) []byte {
	return appendAttr(b, nl.IPSET_ATTR_LINENO, binary.NativeEndian.AppendUint32(nil, uint32(line))...)
}

// appendNested appends an attribute of attributes.
func appendNested(b []byte, kind uint16, fill func([]byte) []byte) []byte {
	at := len(b)
	b = fill(append(b, 0, 0, 0, 0))
	binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at))
	binary.NativeEndian.PutUint16(b[at+2:], kind|unix.NLA_F_NESTED)
	return b
}

// request begins a message about a set: struct nfgenmsg and two attributes.
func request(set string) []byte {
	b := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}
	b = appendAttr(b, nl.IPSET_ATTR_PROTOCOL, nl.IPSET_PROTOCOL)
	return appendString(b, nl.IPSET_ATTR_SETNAME, set)
}

// create is the message that makes a set.
func (s *ipset) create() []byte {
	revision := byte(revisionHashIP)
	if s.kind == hashNet {
		revision = revisionHashNet
	}
	b := request(s.name)
	b = appendString(b, nl.IPSET_ATTR_TYPENAME, s.kind)
	b = appendAttr(b, nl.IPSET_ATTR_REVISION, revision)
	b = appendAttr(b, nl.IPSET_ATTR_FAMILY, s.family)
	return appendNested(b, nl.IPSET_ATTR_DATA, func(b []byte) []byte {
		b = appendUint32(b, nl.IPSET_ATTR_MAXELEM, s.size)
		if s.netmask > 0 {
			b = appendAttr(b, nl.IPSET_ATTR_NETMASK, s.netmask)
		}
		if s.bans {
			b = appendUint32(b, nl.IPSET_ATTR_TIMEOUT, 0) // of members that say none
			b = appendUint32(b, nl.IPSET_ATTR_CADT_FLAGS, nl.IPSET_FLAG_WITH_COUNTERS)
		}
		return b
	})
}

// change is the message that adds or removes members, numbered from 1.
func (s *ipset) change(members []member, adding bool) []byte {
	b := appendLine(request(s.name), 0)
	return appendNested(b, nl.IPSET_ATTR_ADT, func(b []byte) []byte {
		for i := range members {
			b = appendNested(b, nl.IPSET_ATTR_DATA, func(b []byte) []byte {
				return appendLine(s.appendMember(b, &members[i], adding), i+1)
			})
		}
		return b
	})
}

// ask is the message that asks whether a set has a member.
func (s *ipset) ask(m member) []byte {
	return appendNested(request(s.name), nl.IPSET_ATTR_DATA, func(b []byte) []byte {
		return s.appendMember(b, &m, false)
	})
}

func (s *ipset) appendMember(b []byte, m *member, adding bool) []byte {
	b = appendNested(b, nl.IPSET_ATTR_IP, func(b []byte) []byte {
		if a := m.target.Addr(); a.Is6() {
			ip := a.As16()
			return appendAttr(b, nl.IPSET_ATTR_IPADDR_IPV6|unix.NLA_F_NET_BYTEORDER, ip[:]...)
		}
		ip := m.target.Addr().As4()
		return appendAttr(b, nl.IPSET_ATTR_IPADDR_IPV4|unix.NLA_F_NET_BYTEORDER, ip[:]...)
	})
	// A hash:ip would take a length for a range, and store each address of it.
	if s.kind == hashNet {
		b = appendAttr(b, nl.IPSET_ATTR_CIDR, byte(m.target.Bits()))
	}
	if adding && s.bans {
		b = appendUint32(b, nl.IPSET_ATTR_TIMEOUT, m.timeout)
	}
	if adding && m.counted {
		b = appendUint64(b, nl.IPSET_ATTR_BYTES, m.bytes)
		b = appendUint64(b, nl.IPSET_ATTR_PACKETS, m.packets)
	}
	return b
}

// readHeader reads what a set is from a message about it.
func readHeader(data []byte) (s ipset, err error) {
	const nfgenmsg = 4
	if len(data) < nfgenmsg {
		return s, errAttribute
	}
	var timeouts, counters, other bool
	err = eachAttribute(data[nfgenmsg:], func(kind uint16, value []byte) error {
		switch kind {
		case nl.IPSET_ATTR_SETNAME:
			s.name = text(value)
		case nl.IPSET_ATTR_TYPENAME:
			s.kind = text(value)
		case nl.IPSET_ATTR_FAMILY:
			return setByte(&s.family, value)
		case nl.IPSET_ATTR_DATA:
			return eachAttribute(value, func(kind uint16, value []byte) error {
				var v uint32
				var err error
				switch kind {
				case nl.IPSET_ATTR_NETMASK:
					return setByte(&s.netmask, value)
				case nl.IPSET_ATTR_MAXELEM:
					return setUint32(&s.size, value)
				case nl.IPSET_ATTR_TIMEOUT:
					err = setUint32(&v, value)
					timeouts, other = true, other || v != 0
				case nl.IPSET_ATTR_CADT_FLAGS:
					err = setUint32(&v, value)
					counters, other = v&nl.IPSET_FLAG_WITH_COUNTERS != 0, other || v&^nl.IPSET_FLAG_WITH_COUNTERS != 0
				}
				return err
			})
		}
		return nil
	})
	s.bans = timeouts && counters
	if other || timeouts != counters {
		s.kind += " with other options" // none of ours
	}
	return s, err
}

// readMembers appends the members that a message of a listing has.
func (s *ipset) readMembers(to []member, data []byte) ([]member, error) {
	const nfgenmsg = 4
	if len(data) < nfgenmsg {
		return to, errAttribute
	}
	err := eachAttribute(data[nfgenmsg:], func(kind uint16, value []byte) error {
		if kind != nl.IPSET_ATTR_ADT {
			return nil
		}
		return eachAttribute(value, func(kind uint16, value []byte) error {
			if kind != nl.IPSET_ATTR_DATA {
				return nil
			}
			m, err := s.readMember(value)
			to = append(to, m)
			return err
		})
	})
	return to, err
}

func (s *ipset) readMember(data []byte) (m member, err error) {
	var addr netip.Addr
	var bits, flags = -1, uint32(0)
	err = eachAttribute(data, func(kind uint16, value []byte) error {
		switch kind {
		case nl.IPSET_ATTR_IP:
			return eachAttribute(value, func(_ uint16, value []byte) error {
				var ok bool
				if addr, ok = netip.AddrFromSlice(value); !ok {
					return errAttribute
				}
				return nil
			})
		case nl.IPSET_ATTR_CIDR:
			var b uint8
			err := setByte(&b, value)
			bits = int(b)
			return err
		case nl.IPSET_ATTR_TIMEOUT:
			return setUint32(&m.timeout, value)
		case nl.IPSET_ATTR_BYTES:
			return setUint64(&m.bytes, value)
		case nl.IPSET_ATTR_PACKETS:
			return setUint64(&m.packets, value)
		case nl.IPSET_ATTR_CADT_FLAGS:
			return setUint32(&flags, value)
		}
		return nil
	})
	switch {
	case bits >= 0:
	case s.netmask > 0:
		bits = int(s.netmask)
	default:
		bits = addr.BitLen()
	}
	m.target = netip.PrefixFrom(addr, bits)
	m.except = flags&nl.IPSET_FLAG_NOMATCH != 0
	return m, err
}

func text(value []byte) string {
	if n := len(value); n > 0 && value[n-1] == 0 {
		value = value[:n-1]
	}
	return string(value)
}

func setByte(to *uint8, value []byte) error {
	if len(value) != 1 {
		return errAttribute
	}
	*to = value[0]
	return nil
}

func setUint32(to *uint32, value []byte) error {
	if len(value) != 4 {
		return errAttribute
	}
	*to = binary.BigEndian.Uint32(value)
	return nil
}
