//go:build linux

package actions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// dumpBuffer is the most that the kernel puts into one part of a dump. It
// begins each part by walking past all that it has sent, so that a listing in
// small parts, as the library asks for, takes seconds.
const dumpBuffer = 32 << 10

// errAttribute is for what the kernel does not send.
var errAttribute = errors.New("attribute does not fit into its message")

// dumpTries is how often a set is listed to have it whole. Each listing takes
// milliseconds, in which somebody else has to change something.
const dumpTries = 10

// errInterrupted is for a set that others never let us list as it is.
var errInterrupted = fmt.Errorf("somebody else changed the firewall during each of %d listings", dumpTries)

// dumpElements lists a set over a socket that nothing else is read from
// meanwhile. After an error replies may be left in it.
func dumpElements(c *netlink.Conn, set *nftables.Set) ([]nftables.SetElement, error) {
	return untilWhole(func() ([]nftables.SetElement, bool, error) { return dumpOnce(c, set) })
}

func untilWhole(list func() ([]nftables.SetElement, bool, error)) ([]nftables.SetElement, error) {
	for range dumpTries {
		elements, whole, err := list()
		if err != nil || whole {
			return elements, err
		}
	}
	return nil, errInterrupted
}

// dumpOnce is dumpElements in one try. What is not whole may lack elements, or
// have them twice: the kernel goes on by their count, and they have moved.
func dumpOnce(c *netlink.Conn, set *nftables.Set) (elements []nftables.SetElement, whole bool, err error) {
	request, err := dumpRequest(set)
	if err != nil {
		return nil, false, err
	}
	sent, err := c.Send(request)
	if err != nil {
		return nil, false, err
	}
	return readDump(c, sent.Header.Sequence)
}

// readDump reads the answer to a request. Of that the kernel makes each part
// when the one before is read.
func readDump(c *netlink.Conn, request uint32) (elements []nftables.SetElement, whole bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false, err
	}
	var parts consistency
	for {
		buf := make([]byte, dumpBuffer) // keys stay in it
		k, err := receive(raw, buf)
		if err != nil {
			return nil, false, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:k])
		if err != nil {
			return nil, false, fmt.Errorf("parse what the kernel sent: %w", err)
		}
		for _, m := range messages {
			if m.Header.Seq != request {
				continue
			}
			parts.note(&m)
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return elements, !parts.torn, errorOf(m.Data)
			}
			if elements, err = appendElements(elements, m.Data); err != nil {
				return nil, false, err
			}
		}
	}
}

// consistency finds out whether all parts of a dump are of one state. Kernels
// mark a dump that is not by a flag, but not all do so for elements of sets (6.18
// does not). Each part tells its state, though: in struct nfgenmsg, behind two
// bytes, is the end of the generation's number.
type consistency struct {
	generation [2]byte
	known      bool // there was a part
	torn       bool
}

func (c *consistency) note(m *syscall.NetlinkMessage) {
	if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
		c.torn = true
	}
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return
	}
	generation := [2]byte(m.Data[2:4])
	c.torn = c.torn || c.known && generation != c.generation
	c.generation, c.known = generation, true
}

// dumpRequest asks for all elements of a set (linux/netfilter/nf_tables.h).
func dumpRequest(set *nftables.Set) (netlink.Message, error) {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: append([]byte(set.Table.Name), 0)},
		{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: append([]byte(set.Name), 0)},
	})
	return netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM,
			Flags: netlink.Request | netlink.Dump,
		},
		Data: append([]byte{byte(set.Table.Family), unix.NFNETLINK_V0, 0, 0}, attributes...),
	}, err
}

// receive reads one part of a dump.
func receive(raw syscall.RawConn, buf []byte) (k int, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		for {
			k, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_TRUNC)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if err := errors.Join(waitErr, err); err != nil {
		return 0, fmt.Errorf("receive: %w", err)
	}
	if k > len(buf) {
		return 0, fmt.Errorf("receive: a message of %d bytes, more than the kernel is to send at once", k)
	}
	return k, nil
}

// errorOf is what the last message of an answer says: 0, or an error number
// less than that.
func errorOf(data []byte) error {
	if len(data) < 4 {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(data)); code < 0 {
		return fmt.Errorf("receive: %w", unix.Errno(-code))
	}
	return nil
}

// appendElements decodes a message of NFT_MSG_NEWSETELEM, header excluded. The
// keys of elements share memory with it.
func appendElements(elements []nftables.SetElement, data []byte) ([]nftables.SetElement, error) {
	const header = 4 // struct nfgenmsg
	if len(data) < header {
		return nil, errAttribute
	}
	err := eachAttribute(data[header:], func(kind uint16, list []byte) error {
		if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return nil
		}
		return eachAttribute(list, func(kind uint16, one []byte) error {
			if kind != unix.NFTA_LIST_ELEM {
				return nil
			}
			e, err := decodeElement(one)
			elements = append(elements, e)
			return err
		})
	})
	return elements, err
}

func decodeElement(data []byte) (e nftables.SetElement, err error) {
	err = eachAttribute(data, func(kind uint16, value []byte) error {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			return eachAttribute(value, func(kind uint16, key []byte) error {
				if kind == unix.NFTA_DATA_VALUE {
					e.Key = key
				}
				return nil
			})
		case unix.NFTA_SET_ELEM_FLAGS:
			if len(value) != 4 {
				return errAttribute
			}
			e.IntervalEnd = binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_TIMEOUT:
			return setDuration(&e.Timeout, value)
		case unix.NFTA_SET_ELEM_EXPIRATION:
			return setDuration(&e.Expires, value)
		case unix.NFTA_SET_ELEM_USERDATA:
			e.Comment = commentOf(value)
		case unix.NFTA_SET_ELEM_EXPR:
			e.Counter, err = decodeCounter(value)
			return err
		}
		return nil
	})
	return e, err
}

// commentOf finds an element's comment in what userland has left with it: type
// and length, a byte each, and the value (libnftnl's udata.h). What is no such
// thing has none.
func commentOf(data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		value := data[2 : 2+int(data[1])]
		if userdata.Type(data[0]) == userdata.NFTNL_UDATA_SET_ELEM_COMMENT {
			return strings.TrimSuffix(string(value), "\x00")
		}
		data = data[2+len(value):]
	}
	return ""
}

// decodeCounter returns nil for another expression than a counter.
func decodeCounter(data []byte) (*expr.Counter, error) {
	var counter *expr.Counter
	err := eachAttribute(data, func(kind uint16, value []byte) error {
		switch {
		case kind == unix.NFTA_EXPR_NAME && string(value) == "counter\x00":
			counter = &expr.Counter{}
		case kind == unix.NFTA_EXPR_DATA && counter != nil:
			return eachAttribute(value, func(kind uint16, value []byte) error {
				switch kind {
				case unix.NFTA_COUNTER_BYTES:
					return setUint64(&counter.Bytes, value)
				case unix.NFTA_COUNTER_PACKETS:
					return setUint64(&counter.Packets, value)
				}
				return nil
			})
		}
		return nil
	})
	return counter, err
}

func setUint64(to *uint64, value []byte) error {
	if len(value) != 8 {
		return errAttribute
	}
	*to = binary.BigEndian.Uint64(value)
	return nil
}

// setDuration reads milliseconds.
func setDuration(to *time.Duration, value []byte) error {
	var ms uint64
	err := setUint64(&ms, value)
	*to = time.Duration(ms) * time.Millisecond
	return err
}

// eachAttribute visits netlink attributes (struct nlattr): length and type,
// two bytes each in the order of the machine, the value, and what fills the
// last four bytes.
func eachAttribute(b []byte, visit func(kind uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < unix.NLA_HDRLEN {
			return errAttribute
		}
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.NLA_HDRLEN || size > len(b) {
			return errAttribute
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := visit(kind, b[unix.NLA_HDRLEN:size]); err != nil {
			return err
		}
		b = b[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return nil
}
