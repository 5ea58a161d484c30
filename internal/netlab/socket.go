//go:build linux

package netlab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Dialer returns a function like [net.Dialer.DialContext] whose sockets are
// made inside the namespace. Addresses are numeric: nothing is resolved, as
// that could happen on threads elsewhere.
func (n *NS) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return n.DialerFrom(netip.Addr{})
}

// DialerFrom is Dialer with the address to connect from; the zero address
// leaves that to the kernel.
func (n *NS) DialerFrom(local netip.Addr) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return nil, fmt.Errorf("dial %s: not a numeric address and port: %w", addr, err)
		}
		d := net.Dialer{LocalAddr: localAddr(network, local)}
		var c net.Conn
		err := n.Do(func() (err error) {
			c, err = d.DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}
}

func localAddr(network string, a netip.Addr) net.Addr {
	if !a.IsValid() {
		return nil
	}
	if len(network) >= 3 && network[:3] == "udp" {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
}

// Listen is [net.Listen] with the socket made inside the namespace. The
// address is numeric or only a port.
func (n *NS) Listen(network, addr string) (net.Listener, error) {
	var l net.Listener
	err := n.Do(func() (err error) {
		l, err = net.Listen(network, addr)
		return err
	})
	return l, err
}

// ListenPacket is [net.ListenPacket] with the socket made inside the
// namespace.
func (n *NS) ListenPacket(network, addr string) (net.PacketConn, error) {
	var c net.PacketConn
	err := n.Do(func() (err error) {
		c, err = net.ListenPacket(network, addr)
		return err
	})
	return c, err
}
