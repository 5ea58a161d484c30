package cloudflare_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestStorm is 50,000 bans within an hour, of which 10,000 fit: what it costs, and that
// the list has in the end exactly those that end last.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	const bans, room = 50_000, 10_000
	atEdge(t, fake.Options{LogBody: -1}, leased, func(e *edge) {
		e.after(time.Minute)
		begun := time.Now()
		ends := begun.Add(24 * time.Hour)
		for i := range bans {
			// The later, the longer, and a minute apart in groups.
			e.reconciler.Set(netip.MustParsePrefix(address(i)), ends.Add(time.Duration(i/100)*time.Minute))
			if i%1000 == 999 {
				time.Sleep(72 * time.Second)
			}
		}
		e.after(15 * time.Minute)
		got := e.items()
		if len(got) != room {
			e.Errorf("the list holds %d items, want %d", len(got), room)
		}
		for i := bans - room; i < bans; i++ {
			if ip := strings.TrimSuffix(address(i), "/32"); got[ip] == "" {
				e.Fatalf("%s is not in the list, which ends after others that are", ip)
			}
		}
		s := e.reconciler.Stats()
		if s.Failing || s.LeftOut != bans-room || s.Pending > 0 {
			e.Errorf("stats are %+v", s)
		}
		log, dropped := e.server.Requests()
		changes, limited := 0, 0
		for _, r := range log {
			changes += r.ItemChanges
			if r.Limited {
				limited++
			}
		}
		e.Logf("%d requests, %d items changed, for %d bans", len(log), changes, bans)
		if dropped > 0 || limited > 0 || len(log) > 4000 || changes > bans+bans {
			e.Errorf("%d requests, %d items changed, %d of them met a quota", len(log), changes, limited)
		}
		if most := fake.Peak(log, 5*time.Minute, func(fake.Request) int { return 1 }); most > cloudflare.DefaultRequests {
			e.Errorf("%d requests within 5 minutes, the budget is %d", most, cloudflare.DefaultRequests)
		}
	})
}
