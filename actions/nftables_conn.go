//go:build linux

package actions

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// errNotPrepared is for a caller that does not keep to the order.
var errNotPrepared = errors.New("not connected to nftables: Prepare comes first")

const (
	// fdLimit is FD_SETSIZE of select(2): the netlink library waits by
	// pselect(2), which has no place for larger descriptors, and panics.
	fdLimit = 1024

	// lowCount is how many low descriptors are kept: entering a network
	// namespace takes two of them before the socket is made.
	lowCount = 3

	// dialTries is how often to dial before giving in to others that open
	// files at the same moment and take the low descriptors.
	dialTries = 5

	// Buffers hold one transaction and what it may be answered. The kernel
	// gives less to those without CAP_NET_ADMIN in the initial user
	// namespace; batchSize is chosen to fit that as well.
	writeBuffer = 1 << 20
	readBuffer  = 8 << 20
)

// lowFiles keeps a few descriptors below fdLimit from being used by others,
// so that a process with thousands of open files can connect again.
type lowFiles struct {
	mu    sync.Mutex
	files []*os.File
}

// fill opens what is missing, as far as there are low descriptors to be had.
func (l *lowFiles) fill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fillLocked()
}

func (l *lowFiles) fillLocked() {
	for len(l.files) < lowCount {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // it is a precaution; dialing reports what is wrong
		}
		if f.Fd() >= fdLimit {
			f.Close()
			return
		}
		l.files = append(l.files, f)
	}
}

// release gives the descriptors free.
func (l *lowFiles) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked()
}

// lend is release while f runs.
func (l *lowFiles) lend(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := len(l.files) > 0
	l.releaseLocked()
	f()
	if kept {
		l.fillLocked()
	}
}

func (l *lowFiles) releaseLocked() {
	for _, f := range l.files {
		f.Close()
	}
	l.files = nil
}

// connect opens the netlink socket unless it is open.
func (n *Nftables) connect() error {
	if n.conn != nil {
		return nil
	}
	n.low.fill() // Close has let go of them
	conn, socket, err := n.dial()
	n.conn, n.socket = conn, socket
	if err == nil {
		n.sendFrom(socket)
	}
	return err
}

// dial opens a netlink socket with a descriptor below fdLimit. The connection
// owns the socket.
func (n *Nftables) dial() (*nftables.Conn, *netlink.Conn, error) {
	for range dialTries {
		var (
			conn   *nftables.Conn
			socket *netlink.Conn
			fd     int
			err    error
		)
		n.low.lend(func() { conn, socket, fd, err = dial(n.opt.NetNS) })
		if err != nil {
			return nil, nil, explainConnect(err)
		}
		if fd < fdLimit {
			return conn, socket, nil
		}
		if err := closeConn(conn); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("connect to nftables: no file descriptor below %d is free", fdLimit)
}

func closeConn(conn *nftables.Conn) error {
	if err := conn.CloseLasting(); err != nil {
		return fmt.Errorf("close the netlink socket: %w", err)
	}
	return nil
}

func (n *Nftables) disconnect() error {
	if n.conn == nil {
		return nil
	}
	conn := n.conn
	n.conn, n.socket = nil, nil
	return closeConn(conn)
}

// dial opens a netlink socket and tells its descriptor.
func dial(netNS int) (conn *nftables.Conn, socket *netlink.Conn, fd int, err error) {
	setup := func(c *netlink.Conn) error {
		socket = c
		if err := errors.Join(c.SetWriteBuffer(writeBuffer), c.SetReadBuffer(readBuffer)); err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Control(func(p uintptr) { fd = int(p) })
	}
	conn, err = nftables.New(
		nftables.AsLasting(),
		nftables.WithNetNSFd(netNS),
		nftables.WithSockOptions(setup),
	)
	return conn, socket, fd, err
}
