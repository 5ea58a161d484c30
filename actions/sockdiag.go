//go:build linux

package actions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// How the kernel tells of TCP sockets, and is told to end one: sock_diag(7),
// linux/inet_diag.h and linux/sock_diag.h. Its side of that is in
// net/ipv4/tcp_diag.c and net/ipv4/inet_diag.c, and tcp_abort in
// net/ipv4/tcp.c.
const (
	sockIDSize  = 48 // struct inet_diag_sockid
	diagReqSize = 56 // struct inet_diag_req_v2, which ends with a sockid
	diagMsgSize = 72 // struct inet_diag_msg, with a sockid behind 4 bytes

	// diagPatience is how long the kernel may take for an answer, or for the
	// next part of one. It answers at once.
	diagPatience = 10 * time.Second
)

// States of a TCP socket (net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpSynRecv     = 3
	tcpFinWait1    = 4
	tcpFinWait2    = 5
	tcpCloseWait   = 8
	tcpLastAck     = 9
	tcpListen      = 10
	tcpClosing     = 11
)

// tcpSocket is a socket as the kernel tells of it.
type tcpSocket struct {
	family, state uint8
	id            [sockIDSize]byte // as the kernel wrote it, its cookie included
	local         uint16           // port
	remote        netip.Addr       // unmapped
	open          bool             // some process has it open
}

// sockDiag is a connection to the kernel's socket monitoring, in one network
// namespace.
type sockDiag struct {
	conn *netlink.Conn
	raw  syscall.RawConn
}

// openSockDiag connects. netNS is a descriptor of a network namespace, 0: our
// own.
func openSockDiag(netNS int) (*sockDiag, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, &netlink.Config{NetNS: netNS})
	if err != nil {
		return nil, fmt.Errorf("connect to the kernel's socket monitoring: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sockDiag{conn: conn, raw: raw}, nil
}

func (d *sockDiag) close() error { return d.conn.Close() }

// list calls f for each TCP socket of a family that is in one of the states,
// given as bits. Sockets that come, go or change meanwhile may be missing.
func (d *sockDiag) list(family uint8, states uint32, f func(*tcpSocket)) error {
	if err := d.conn.SetDeadline(time.Now().Add(diagPatience)); err != nil {
		return err
	}
	sent, err := d.conn.Send(netlink.Message{
		Header: netlink.Header{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: netlink.Request | netlink.Dump},
		Data:   diagRequest(family, states, nil),
	})
	if err != nil {
		return fmt.Errorf("ask for TCP sockets: %w", err)
	}
	buf := make([]byte, dumpBuffer)
	for {
		if err := d.conn.SetReadDeadline(time.Now().Add(diagPatience)); err != nil {
			return err
		}
		k, err := receive(d.raw, buf)
		if err != nil {
			return fmt.Errorf("list TCP sockets: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:k])
		if err != nil {
			return fmt.Errorf("list TCP sockets: parse what the kernel sent: %w", err)
		}
		for _, m := range messages {
			if m.Header.Seq != sent.Header.Sequence {
				continue
			}
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if err := errorOf(m.Data); err != nil {
					return fmt.Errorf("list TCP sockets: %w", err)
				}
				return nil
			}
			if s, ok := parseSocket(m.Data); ok {
				f(&s)
			}
		}
	}
}

// destroy ends a socket as it was listed: whoever uses it gets ECONNABORTED,
// the other side a reset. The cookie in its id says which one is meant. Without
// it the kernel would take whatever socket packets of this connection reach
// now, which for one that is gone is the listening socket.
func (d *sockDiag) destroy(s *tcpSocket) error {
	if err := d.conn.SetDeadline(time.Now().Add(diagPatience)); err != nil {
		return err
	}
	_, err := d.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.SOCK_DESTROY, Flags: netlink.Request | netlink.Acknowledge},
		Data:   diagRequest(s.family, 0, &s.id),
	})
	return err
}

// destroys returns nil if the kernel can end sockets, which needs
// CONFIG_INET_DIAG_DESTROY. It asks it to end one that there can't be.
func (d *sockDiag) destroys() error {
	err := d.destroy(&tcpSocket{family: unix.AF_INET})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// diagRequest is a struct inet_diag_req_v2. Without id it is about all sockets.
func diagRequest(family uint8, states uint32, id *[sockIDSize]byte) []byte {
	b := make([]byte, diagReqSize)
	b[0], b[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], states)
	if id != nil {
		copy(b[diagReqSize-sockIDSize:], id[:])
	}
	return b
}

// parseSocket reads a struct inet_diag_msg. Attributes may follow.
func parseSocket(b []byte) (s tcpSocket, ok bool) {
	if len(b) < diagMsgSize {
		return s, false
	}
	s.family, s.state = b[0], b[1]
	copy(s.id[:], b[4:])
	s.local = binary.BigEndian.Uint16(s.id[0:])
	remote := s.id[20:36]
	switch s.family {
	case unix.AF_INET:
		s.remote = netip.AddrFrom4([4]byte(remote[:4]))
	case unix.AF_INET6:
		s.remote = netip.AddrFrom16([16]byte(remote)).Unmap()
	default:
		return s, false
	}
	s.open = binary.NativeEndian.Uint32(b[68:]) != 0 // its inode
	return s, true
}
