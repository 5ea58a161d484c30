package guard

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/netlab"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Whatever addresses this machine has, they are in the set.
func TestHostOfThisMachine(t *testing.T) {
	entries, err := Host(Paths{})
	if err != nil {
		t.Skipf("no rtnetlink here: %v", err)
	}
	s := New(nil)
	s.Update(entries)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if !ok {
			t.Fatalf("odd address %v", a)
		}
		ip = ip.Unmap()
		if _, reason := s.Check("", netip.PrefixFrom(ip, ip.BitLen()), ip); reason == "" {
			t.Errorf("own address %v may be banned", ip)
		}
	}
}

// inside runs f on a thread in a namespace with a link lab0 that has
// 203.0.113.1/24 and 2001:db8:1::1/64.
func inside(t *testing.T, f func() error) {
	t.Helper()
	if err := netlab.Available(); err != nil {
		t.Skipf("needs network namespaces: %v", err)
	}
	a, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := netlab.New()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := netlab.Link(a, netip.MustParsePrefix("203.0.113.1/24"), b, netip.MustParsePrefix("203.0.113.2/24")); err != nil {
		t.Fatal(err)
	}
	if err := a.AddAddr(netlab.LinkName(0), netip.MustParsePrefix("2001:db8:1::1/64")); err != nil {
		t.Fatal(err)
	}
	if err := a.Do(f); err != nil {
		t.Fatal(err)
	}
}

func route(dst, via string, table int) error {
	link, err := netlink.LinkByName(netlab.LinkName(0))
	if err != nil {
		return err
	}
	_, to, err := net.ParseCIDR(dst)
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: net.ParseIP(via), Table: table})
}

func TestHostGateways(t *testing.T) {
	inside(t, func() error {
		link, err := netlink.LinkByName(netlab.LinkName(0))
		if err != nil {
			return err
		}
		for _, r := range []struct {
			dst, via string
			table    int
		}{
			{"0.0.0.0/0", "203.0.113.10", unix.RT_TABLE_MAIN},
			{"0.0.0.0/1", "203.0.113.11", unix.RT_TABLE_MAIN},
			{"0.0.0.0/0", "203.0.113.12", 77},
			{"::/0", "2001:db8:1::10", unix.RT_TABLE_MAIN},
		} {
			if err := route(r.dst, r.via, r.table); err != nil {
				return err
			}
		}
		_, to, err := net.ParseCIDR("198.51.100.0/24")
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: to, MultiPath: []*netlink.NexthopInfo{
			{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("203.0.113.13")},
			{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("203.0.113.14")},
		}}); err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{
			IPNet: &net.IPNet{IP: net.ParseIP("192.0.2.1"), Mask: net.CIDRMask(32, 32)},
			Peer:  &net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(32, 32)},
		}); err != nil {
			return err
		}

		entries, err := Host(Paths{})
		if err != nil {
			return err
		}
		s := New(nil)
		s.Update(entries)
		for addr, want := range map[string]string{
			"203.0.113.1": "own address", "2001:db8:1::1": "own address", "192.0.2.1": "own address",
			"203.0.113.10": "gateway", "203.0.113.11": "gateway", "203.0.113.12": "gateway",
			"203.0.113.13": "gateway", "203.0.113.14": "gateway", "2001:db8:1::10": "gateway", "192.0.2.2": "gateway",
			"203.0.113.20": "", "2001:db8:1::20": "",
		} {
			a := netip.MustParseAddr(addr)
			if _, reason := s.Check("", netip.PrefixFrom(a, a.BitLen()), a); reason != want {
				t.Errorf("%s: %q, want %q", addr, reason, want)
			}
		}
		return nil
	})
}

// An address that is added while the daemon runs is protected at once, also
// after more changes than the kernel reports.
func TestRunFollowsChanges(t *testing.T) {
	inside(t, func() error {
		s := New(nil)
		link, err := netlink.LinkByName(netlab.LinkName(0))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		own, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer own.Close()
		changes := make(chan error, 1)
		go func() {
			defer cancel()
			changes <- change(own, link, s)
		}()
		if err := s.Run(ctx, Paths{}, slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil {
			return err
		}
		return <-changes
	})
}

// change adds addresses and waits for each to be protected.
func change(h *netlink.Handle, link netlink.Link, s *Set) error {
	add := func(i int) (netip.Addr, error) {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		return a, h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	}
	end := time.Now().Add(20 * time.Second)
	protected := func(a netip.Addr) error {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, yes := s.Protected(netip.PrefixFrom(a, 32)); yes {
				return nil
			}
			if time.Now().After(end) {
				return context.DeadlineExceeded
			}
			<-tick.C
		}
	}
	first, err := add(1)
	if err != nil {
		return err
	}
	if err := protected(first); err != nil {
		return err
	}
	for i := 2; i < 3000; i++ { // many more than an event queue holds
		if _, err := add(i); err != nil {
			return err
		}
	}
	last, err := add(3000)
	if err != nil {
		return err
	}
	return protected(last)
}
