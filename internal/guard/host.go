package guard

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	// refresh is how often the host is looked at although it has reported no
	// change.
	refresh = time.Minute

	// settle is how long changes are gathered before the host is looked at
	// again: a daemon that speaks a routing protocol changes many routes at
	// once. A look that takes long is followed by a pause of twenty times
	// that.
	settle = 200 * time.Millisecond
)

// Host lists the host's own addresses, the other ends of its point-to-point
// links, the next hops of its routes in all tables, from rtnetlink, and the name
// servers it asks, from files. It needs no privilege.
func Host(p Paths) ([]Entry, error) {
	out := resolvers(p) // first: that one is also a gateway says more
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list own addresses: %w", err)
	}
	for _, a := range addrs {
		out = appendHost(out, a.IP, "own address")
		if a.Peer != nil && !a.Peer.IP.Equal(a.IP) && isHost(a.Peer.Mask) {
			out = appendHost(out, a.Peer.IP, "gateway")
		}
	}
	seen := map[netip.Addr]bool{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		err := netlink.RouteListFilteredIter(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE,
			func(r netlink.Route) bool {
				out = appendHops(out, seen, &r)
				return true
			})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
	}
	return out, nil
}

// appendHops appends the next hops of a route that are not among seen.
func appendHops(out []Entry, seen map[netip.Addr]bool, r *netlink.Route) []Entry {
	hops := []net.IP{r.Gw}
	if via, ok := r.Via.(*netlink.Via); ok {
		hops = append(hops, via.Addr)
	}
	for _, hop := range r.MultiPath {
		hops = append(hops, hop.Gw)
		if via, ok := hop.Via.(*netlink.Via); ok {
			hops = append(hops, via.Addr)
		}
	}
	for _, ip := range hops {
		if a, ok := netip.AddrFromSlice(ip); ok && !seen[a.Unmap()] {
			seen[a.Unmap()] = true
			out = appendHost(out, ip, "gateway")
		}
	}
	return out
}

func isHost(m net.IPMask) bool {
	ones, bits := m.Size()
	return ones == bits
}

func appendHost(out []Entry, ip net.IP, reason string) []Entry {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return out
	}
	a = a.Unmap()
	return append(out, Entry{netip.PrefixFrom(a, a.BitLen()), reason})
}

// Run keeps the set equal to what the host is, from rtnetlink's events and by
// looking again from time to time. A host that cannot be read leaves the set
// as it was. It blocks until ctx is done.
func (s *Set) Run(ctx context.Context, p Paths, log *slog.Logger) error {
	w := &watch{log: log, changed: make(chan struct{}, 1)}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	failing := false
	for {
		w.subscribe(ctx) // before the look, so that no change is missed between
		began := time.Now()
		entries, err := Host(p)
		switch {
		case err == nil:
			s.Update(entries)
			failing = false
		case !failing:
			failing = true
			log.Warn("cannot read the host's addresses; the never-ban set stays as it was", "err", err)
		}
		pause := max(settle, 20*time.Since(began))
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			sleep.For(ctx, pause)
		case <-tick.C:
		}
	}
}

// watch listens to changes of addresses and routes. The kernel drops events
// when there are too many; the subscription then ends, and is taken again.
type watch struct {
	log     *slog.Logger
	changed chan struct{}

	addrs, routes bool // subscribed
	ended         chan *bool
	said          bool
}

// subscribe makes the subscriptions that are not there. Without them changes
// are seen at the next refresh.
func (w *watch) subscribe(ctx context.Context) {
	if w.ended == nil {
		w.ended = make(chan *bool, 2)
	}
	for more := true; more; {
		select {
		case which := <-w.ended:
			*which = false
			w.say("changes of the host's addresses came too fast, and were read anew", nil)
		default:
			more = false
		}
	}
	if !w.addrs {
		events := make(chan netlink.AddrUpdate)
		if err := netlink.AddrSubscribe(events, ctx.Done()); err != nil {
			w.say("cannot watch the host's addresses; they are read every minute", err)
		} else {
			w.addrs = true
			go forward(w, events, &w.addrs)
		}
	}
	if !w.routes {
		events := make(chan netlink.RouteUpdate)
		if err := netlink.RouteSubscribe(events, ctx.Done()); err != nil {
			w.say("cannot watch the host's routes; they are read every minute", err)
		} else {
			w.routes = true
			go forward(w, events, &w.routes)
		}
	}
}

func (w *watch) say(msg string, err error) {
	if w.said {
		return
	}
	w.said = true
	if err != nil {
		w.log.Warn(msg, "err", err)
		return
	}
	w.log.Info(msg)
}

// forward turns events into wake-ups, until they end.
func forward[E any](w *watch, events <-chan E, which *bool) {
	for range events {
		w.wake()
	}
	w.ended <- which
	w.wake()
}

func (w *watch) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
