//go:build linux

package actions

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

var _ Watcher = (*Nftables)(nil)

const (
	// groupNftables is NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h): each
	// change of any table, by whomever.
	groupNftables = 7

	// watchBuffer holds the changes of one large transaction of somebody else.
	watchBuffer = 4 << 20
)

// Watch implements [Watcher], by the kernel's own messages. What we change
// ourselves is told from the rest by the port of our socket, and does not even
// wake us: the kernel filters it. Elements that end at their time are no
// change.
func (n *Nftables) Watch(ctx context.Context, ready func(), changed func(Change)) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: n.opt.NetNS})
	if err != nil {
		return explainConnect(err)
	}
	defer conn.Close()
	if err := conn.SetReadBuffer(n.watchBuffer); err != nil {
		return fmt.Errorf("watch table inet %s: %w", n.opt.Table, err)
	}
	if err := conn.JoinGroup(groupNftables); err != nil {
		return n.explain("watch", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // it is closed then
	defer stop()
	n.listen(conn)
	defer n.listen(nil)
	ready()
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS): // more came than the socket holds
			for drained := false; !drained && ctx.Err() == nil; {
				if drained, err = drain(conn); err != nil && ctx.Err() == nil {
					return n.explain("watch", err)
				}
				changed(Change{All: true}) // behind it: what was dropped until now is compared
			}
			continue
		case err != nil:
			return n.explain("watch", err)
		}
		if c := n.readChanges(messages); c.All || len(c.Gone)+len(c.Came) > 0 {
			changed(c)
		}
	}
}

// drainReads is how many messages are read at most before somebody is told.
const drainReads = 1 << 15

// drain reads and drops what a socket holds, and reports whether that was all.
// From the first message that it has no room for, and says so by ENOBUFS, until
// it is empty a socket takes no other, and does not say so again.
func drain(conn *netlink.Conn) (all bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false, err
	}
	buf := make([]byte, 1) // the kernel drops the rest of a message
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		for range drainReads {
			_, _, readErr = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			switch readErr {
			case nil, unix.EINTR, unix.ENOBUFS:
				readErr = nil
			default:
				all = readErr == unix.EAGAIN
				return true
			}
		}
		return true
	})
	if all {
		readErr = nil
	}
	return all, errors.Join(err, readErr)
}

// watching is the socket that listens, and our own, whose messages it leaves
// out.
type watching struct {
	conn *netlink.Conn
	port uint32 // of the socket that changes the table; 0: there is none
}

// listen makes conn the socket that listens; nil: there is none.
func (n *Nftables) listen(conn *netlink.Conn) {
	n.watchMu.Lock()
	defer n.watchMu.Unlock()
	n.watching.conn = conn
	n.watching.filter()
}

// sendFrom makes known which socket our changes come from.
func (n *Nftables) sendFrom(socket *netlink.Conn) {
	port := portOf(socket)
	n.watchMu.Lock()
	defer n.watchMu.Unlock()
	n.watching.port = port
	n.watching.filter()
}

// own reports whether a message tells of a change of ours.
func (n *Nftables) own(m *netlink.Message) bool {
	n.watchMu.Lock()
	defer n.watchMu.Unlock()
	return m.Header.PID != 0 && m.Header.PID == n.watching.port
}

// portOf is a netlink socket's address; 0 if it can't be told.
func portOf(socket *netlink.Conn) (port uint32) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if a, err := unix.Getsockname(int(fd)); err == nil {
			if a, ok := a.(*unix.SockaddrNetlink); ok {
				port = a.Pid
			}
		}
	})
	return port
}

// filter has the kernel leave out our own messages: all in one datagram are of
// one transaction, so the first header (struct nlmsghdr, its port at byte 12)
// tells. Without a filter they are left out when they have been read.
func (w *watching) filter() {
	if w.conn == nil || w.port == 0 {
		return
	}
	// The filter reads words in network order, the header is in the host's.
	port := binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, w.port))
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: port, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 30},
		bpf.RetConstant{Val: 0},
	})
	if err == nil {
		_ = w.conn.SetBPF(program) // only saves work
	}
}

// readChanges reads messages of nf_tables (linux/netfilter/nf_tables.h). The
// name of the table is the first attribute of each kind.
func (n *Nftables) readChanges(messages []netlink.Message) (c Change) {
	for i := range messages {
		m := &messages[i]
		if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || n.own(m) {
			continue
		}
		kind := int(m.Header.Type & 0xff)
		const header = 4 // struct nfgenmsg, the family first
		if kind == unix.NFT_MSG_NEWGEN || len(m.Data) < header || m.Data[0] != unix.NFPROTO_INET {
			continue
		}
		table, set := names(m.Data[header:])
		switch {
		case table != n.opt.Table:
		case kind == unix.NFT_MSG_NEWSETELEM || kind == unix.NFT_MSG_DELSETELEM:
			targets, ok := changedTargets(set, m.Data)
			switch {
			case !ok:
				c.All = true
			case kind == unix.NFT_MSG_DELSETELEM:
				c.Gone = append(c.Gone, targets...)
			default:
				c.Came = append(c.Came, targets...)
			}
		default:
			c.All = true
		}
	}
	return c
}

// names reads the first two attributes, which are names of a table and of what
// is in it.
func names(data []byte) (table, in string) {
	_ = eachAttribute(data, func(kind uint16, value []byte) error { // what can't be read isn't ours
		switch kind {
		case unix.NFTA_SET_ELEM_LIST_TABLE:
			table = strings.TrimRight(string(value), "\x00")
		case unix.NFTA_SET_ELEM_LIST_SET:
			in = strings.TrimRight(string(value), "\x00")
		}
		return nil
	})
	return table, in
}

// changedTargets returns the targets that a message names; false: it is about
// another set than one of addresses, or can't be read.
func changedTargets(set string, data []byte) (targets []netip.Prefix, ok bool) {
	if set != setBan4 && set != setBan6 && set != setHost6 {
		return nil, false
	}
	var elements []nftables.SetElement
	elements, err := appendElements(elements, data)
	if err != nil {
		return nil, false
	}
	for _, e := range elements {
		t, ok := targetOf(set, e.Key)
		if !ok {
			return nil, false
		}
		targets = append(targets, t)
	}
	return targets, true
}

// Room is for [Bounded]. Elements that have ended take up room until the
// kernel has swept them away, so not all of a set is to be filled.
func (n *Nftables) Room(target netip.Prefix) (place string, size int) {
	switch set := setFor(target); set {
	case "":
		return "", 0
	case setNet4, setNet6:
		return set, netSize
	default:
		return set, n.opt.Size - n.opt.Size/9
	}
}

var _ Bounded = (*Nftables)(nil)
