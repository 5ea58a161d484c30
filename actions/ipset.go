//go:build linux

package actions

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// ipsetBatch is how many members one message changes. It bounds the message
	// to the 64 KiB that the length of an attribute can say.
	ipsetBatch = 800

	// ipsetFullBatch is the same once a set was found full: each message then
	// ends at the first member that finds no room.
	ipsetFullBatch = 50

	// ipsetAnswer holds the largest answer: an error with all of the message
	// that it is about.
	ipsetAnswer = 128 << 10

	// ipsetPatience is how long the kernel may take for an answer, or for the
	// next part of one. It answers at once.
	ipsetPatience = 30 * time.Second
)

// ipsets is a connection to the kernel's IP sets, in one network namespace.
//
// The messages are our own: the netlink library knows neither the netmask of a
// set nor how to change many members by one message, and panics at some errors.
type ipsets struct {
	conn *netlink.Conn
	raw  syscall.RawConn
	buf  []byte
}

// openIPSets connects. netNS is a descriptor of a network namespace, 0: our
// own.
func openIPSets(netNS int) (*ipsets, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netNS})
	if err != nil {
		return nil, fmt.Errorf("connect to the kernel's IP sets: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &ipsets{conn: conn, raw: raw, buf: make([]byte, ipsetAnswer)}, nil
}

func (c *ipsets) close() error { return c.conn.Close() }

// errEnough ends a listing early. The connection is of no use then.
var errEnough = errors.New("enough was read")

// do sends one message and calls each for every part of the answer. The error is
// what the kernel says at its end.
func (c *ipsets) do(command int, flags netlink.HeaderFlags, data []byte, each func([]byte) error) error {
	if err := c.conn.SetDeadline(time.Now().Add(ipsetPatience)); err != nil {
		return err
	}
	sent, err := c.conn.Send(netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_IPSET<<8 | command),
			Flags: netlink.Request | flags,
		},
		Data: data,
	})
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for {
		k, err := receive(c.raw, c.buf)
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(c.buf[:k])
		if err != nil {
			return fmt.Errorf("parse what the kernel sent: %w", err)
		}
		for _, m := range messages {
			if m.Header.Seq != sent.Header.Sequence {
				continue
			}
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return answered(m.Data)
			}
			if err := each(m.Data); err != nil {
				return err
			}
		}
		if err := c.conn.SetDeadline(time.Now().Add(ipsetPatience)); err != nil {
			return err
		}
	}
}

// answered reads the end of an answer: a number, 0 or an error less than that,
// and behind an error the message that it is about, in which the kernel has
// noted the line.
func answered(data []byte) error {
	if len(data) < 4 {
		return nil
	}
	err := ipsetError(-int(int32(binary.NativeEndian.Uint32(data))))
	const skip = 4 + unix.SizeofNlMsghdr + 4 // the number, its header, struct nfgenmsg
	if err == nil || len(data) < skip {
		return err
	}
	line := 0
	_ = eachAttribute(data[skip:], func(kind uint16, value []byte) error { // it may be cut off
		if kind == nl.IPSET_ATTR_LINENO && len(value) == 4 {
			line = int(binary.NativeEndian.Uint32(value))
		}
		return nil
	})
	if line > 0 {
		return &memberError{index: line - 1, err: err}
	}
	return err
}

// execute is do for what is answered by success or an error alone.
func (c *ipsets) execute(command int, data []byte) error {
	return c.do(command, netlink.Acknowledge, data, noParts)
}

func noParts([]byte) error { return nil }

func (c *ipsets) create(s *ipset) error {
	return c.do(nl.IPSET_CMD_CREATE, netlink.Acknowledge|netlink.Create|netlink.Excl, s.create(), noParts)
}

// destroy deletes a set; one that is not there is no error. The flag has the
// kernel tell.
func (c *ipsets) destroy(name string) (existed bool, err error) {
	err = c.do(nl.IPSET_CMD_DESTROY, netlink.Acknowledge|netlink.Excl, request(name), noParts)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// swap exchanges the members and everything else of two sets but their names.
func (c *ipsets) swap(a, b string) error {
	return c.execute(nl.IPSET_CMD_SWAP, appendString(request(a), nl.IPSET_ATTR_SETNAME2, b))
}

// header tells what a set is; nil: there is none of that name.
func (c *ipsets) header(name string) (*ipset, error) {
	var found *ipset
	data := appendUint32(request(name), nl.IPSET_ATTR_FLAGS, flagListHeader)
	err := c.do(nl.IPSET_CMD_LIST, netlink.Dump, data, func(part []byte) error {
		s, err := readHeader(part)
		found = &s
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return found, err
}

// list calls each for every member of a set that has not ended.
func (c *ipsets) list(s *ipset, each func(member) error) error {
	var members []member
	return c.do(nl.IPSET_CMD_LIST, netlink.Dump, request(s.name), func(part []byte) error {
		var err error
		if members, err = s.readMembers(members[:0], part); err != nil {
			return err
		}
		for _, m := range members {
			if err := each(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// has reports whether a set has a member.
func (c *ipsets) has(s *ipset, m member) (bool, error) {
	err := c.execute(nl.IPSET_CMD_TEST, s.ask(m))
	if errors.Is(err, errSetExist) {
		return false, nil
	}
	return err == nil, err
}

// remove takes members out; one that is not there is no error.
func (c *ipsets) remove(ctx context.Context, s *ipset, members []member) error {
	for len(members) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := members[:min(ipsetBatch, len(members))]
		if err := c.execute(nl.IPSET_CMD_DEL, s.change(part, false)); err != nil {
			return err
		}
		members = members[len(part):]
	}
	return nil
}

// add puts members in, or gives those that are there another timeout. A set
// that is full, which is an error that wraps ErrFull, takes as many as it can.
func (c *ipsets) add(ctx context.Context, s *ipset, members []member) error {
	size, full := ipsetBatch, error(nil)
	for len(members) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := members[:min(size, len(members))]
		err := c.execute(nl.IPSET_CMD_ADD, s.change(part, true))
		var at *memberError
		switch {
		case err == nil:
			members = members[len(part):]
		case errors.Is(err, errSetFull) && errors.As(err, &at) && at.index < len(part):
			size, full = ipsetFullBatch, fmt.Errorf("%w, it holds %d", ErrFull, s.size)
			members = members[at.index+1:]
		default:
			return err
		}
	}
	return full
}
