package cloudflare_test

import (
	"net/netip"
	"testing"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestManyRefused is that more refused items than are left out at a time keep no
// other from the list for ever.
func TestManyRefused(t *testing.T) {
	atEdge(t, fake.Options{ShortIPv6: true}, nil, func(e *edge) {
		e.after(time.Minute)
		for i := range 70 {
			a := netip.MustParseAddr("2001:db8::").As16()
			a[15] = byte(i)
			e.reconciler.Set(netip.PrefixFrom(netip.AddrFrom16(a), 128), time.Now().Add(10*time.Hour))
		}
		e.ban("192.0.2.1/32", 5*time.Hour)
		e.after(25 * time.Minute)
		e.holds("192.0.2.1")
		if s := e.reconciler.Stats(); s.Failing || s.Rejected != 70 {
			e.Errorf("stats are %+v", s)
		}
		before := e.requests("POST", "/items")
		e.after(time.Hour)
		if n := e.requests("POST", "/items") - before; n > 140 {
			e.Errorf("%d writes in an hour for what is refused", n)
		}
		e.server.Change(func(o *fake.Options) { o.ShortIPv6 = false })
		e.after(6 * time.Hour)
		if n := len(e.server.Items(listName)); n != 70 { // the other is over
			e.Errorf("what is not refused any more is not tried again: there are %d", n)
		}
	})
}
