//go:build linux

package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LinkName returns the name of the interface that the i-th call of [Link]
// for a namespace made in it, counted from 0.
func LinkName(i int) string { return fmt.Sprintf("lab%d", i) }

func (n *NS) nextLink() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	return LinkName(n.links - 1)
}

// Link connects two namespaces by a virtual cable whose ends have the given
// addresses and are up. Two namespaces may be connected several times, and an
// interface may get more addresses by AddAddr.
func Link(a *NS, aAddr netip.Prefix, b *NS, bAddr netip.Prefix) error {
	aName, bName := a.nextLink(), b.nextLink()
	err := a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = aName
		err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs:     attrs,
			PeerName:      bName,
			PeerNamespace: netlink.NsFd(b.FD()),
		})
		if err != nil {
			return fmt.Errorf("make a veth pair %s and %s: %w", aName, bName, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(a.configure(aName, aAddr), b.configure(bName, bAddr))
}

func (n *NS) configure(link string, addr netip.Prefix) error {
	if err := n.AddAddr(link, addr); err != nil {
		return err
	}
	return n.Do(func() error { return linkUp(link) })
}

// AddAddr gives an interface one more address, with the length of the network
// that is reached through it. IPv6 addresses are usable at once: they are not
// tested for duplicates.
func (n *NS) AddAddr(link string, addr netip.Prefix) error {
	return n.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", link, err)
		}
		a := &netlink.Addr{IPNet: ipNet(addr)}
		if addr.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return fmt.Errorf("add address %s to interface %s: %w", addr, link, err)
		}
		return nil
	})
}

// DefaultRoute sends what has no other route to a neighbour.
func (n *NS) DefaultRoute(via netip.Addr) error {
	dst := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if via.Is6() {
		dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return n.Do(func() error {
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(dst), Gw: via.AsSlice()}); err != nil {
			return fmt.Errorf("add a default route via %s: %w", via, err)
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   p.Addr().AsSlice(),
		Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
	}
}
