//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Of which states sockets are looked at, as bits.
//
// In openStates every socket counts, also one that no process has yet: a
// handshake may wait for data (TCP_DEFER_ACCEPT), a connection for its turn to
// be accepted, and both for a place that others could have. In endingStates our
// side has said that it is done. Most of these sockets are closed, hold up
// nobody, and the kernel lets them go by itself; before Linux 6.11 one that is
// destroyed could then stay forever (commit bac76cf89816). So only those count
// that a process still has open, as servers that linger do.
//
// SYN-SENT is of our own connections, and TIME-WAIT is nobody's.
const (
	openStates   = 1<<tcpEstablished | 1<<tcpSynRecv | 1<<tcpCloseWait
	endingStates = 1<<tcpFinWait1 | 1<<tcpFinWait2 | 1<<tcpClosing | 1<<tcpLastAck
)

// cutTargets are targets whose connections are to be cut.
type cutTargets map[netip.Prefix]struct{}

// lengths are the prefix lengths that occur, by family, as indexes.
type lengths struct{ four, six [129]bool }

func (t cutTargets) lengths() *lengths {
	l := &lengths{}
	for p := range t {
		if p.Addr().Is4() {
			l.four[p.Bits()] = true
		} else {
			l.six[p.Bits()] = true
		}
	}
	return l
}

// hold reports whether an address is in one of the targets.
func (t cutTargets) hold(l *lengths, a netip.Addr) bool {
	of := &l.six
	if a.Is4() {
		of = &l.four
	}
	for bits := range a.BitLen() + 1 {
		if !of[bits] {
			continue
		}
		if p, err := a.Prefix(bits); err == nil {
			if _, in := t[p]; in {
				return true
			}
		}
	}
	return false
}

// cutResult is what became of the connections of some targets.
type cutResult struct {
	cut, failed uint64
	failure     error // one of those; nil: none failed
}

// lookAtSockets lists all sockets and ends those of the targets. An error means
// that not all was done.
func (c *Cutter) lookAtSockets(ctx context.Context, targets cutTargets) (r cutResult, err error) {
	d, err := openSockDiag(c.opt.NetNS)
	if err != nil {
		return r, explainCut(err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	sockets, err := c.find(d, targets)
	if err != nil {
		return r, explainCut(err)
	}
	for i := range sockets {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		switch err := d.end(&sockets[i]); {
		case err == nil:
			r.cut++
		case errors.Is(err, errGone):
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
			return r, explainCut(err) // so it is for all
		default:
			r.failed, r.failure = r.failed+1, err
		}
	}
	return r, nil
}

// find lists the sockets to end. A dual-stack server's sockets are IPv6 ones,
// with the client's address mapped.
func (c *Cutter) find(d *sockDiag, targets cutTargets) ([]tcpSocket, error) {
	var found []tcpSocket
	listening := map[uint16]struct{}{}
	l := targets.lengths()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := d.list(family, openStates|endingStates|1<<tcpListen, func(s *tcpSocket) {
			switch {
			case !c.covers(s.local):
			case s.state == tcpListen:
				listening[s.local] = struct{}{}
			case c.counts(s) && targets.hold(l, s.remote) && !c.spares(s.remote):
				found = append(found, *s)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	accepted := found[:0]
	for i := range found {
		if _, yes := listening[found[i].local]; yes {
			accepted = append(accepted, found[i])
		}
	}
	return accepted, nil
}

// covers reports whether bans are about a local port.
func (c *Cutter) covers(port uint16) bool {
	_, yes := c.ports[port]
	return yes || c.ports == nil
}

// counts reports whether a socket is worth ending in its state.
func (c *Cutter) counts(s *tcpSocket) bool {
	bit := 1 << s.state
	return bit&openStates != 0 || bit&endingStates != 0 && s.open
}

// spares reports whether an address is protected, whatever network is banned.
func (c *Cutter) spares(a netip.Addr) bool {
	if c.opt.Protected == nil {
		return false
	}
	_, yes := c.opt.Protected(netip.PrefixFrom(a, a.BitLen()))
	return yes
}

// errGone is for a socket that has ended since it was listed.
var errGone = errors.New("the socket is gone")

// end is destroy that tells a socket that is gone from what is wrong. The kernel
// finds none, or another one (ESTALE); older ones refuse one in TIME-WAIT as they
// refuse all if they can't end sockets.
func (d *sockDiag) end(s *tcpSocket) error {
	err := d.destroy(s)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESTALE):
		return errGone
	case errors.Is(err, unix.EOPNOTSUPP) && d.destroys() == nil:
		return errGone
	case err != nil:
		return fmt.Errorf("end the connection from %s to port %d: %w", s.remote, s.local, err)
	}
	return nil
}
