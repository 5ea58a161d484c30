package cloudflare_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// otherZone is a second one of the account.
const otherZone = "e0e0d0c0b0a000998877665544332211"

func twoZones() []fake.Account {
	return []fake.Account{{ID: fake.AccountID, Zones: []fake.Zone{{ID: fake.ZoneID, Name: fake.ZoneName}, {ID: otherZone, Name: "example.net"}}}}
}

// TestSuiteOfAccessRules runs the suite of all actions for access rules: of the
// account, of a zone, and of two.
func TestSuiteOfAccessRules(t *testing.T) {
	t.Parallel()
	for _, zones := range [][]string{nil, {fake.ZoneID}, {fake.ZoneID, otherZone}} {
		t.Run(fmt.Sprintf("%d zones", len(zones)), func(t *testing.T) {
			t.Parallel()
			suite := actionstest.Suite{Large: 300, Network: netip.MustParsePrefix("2001:db8:4::/48")}
			actionstest.RunWith(t, suite, func(t *testing.T) actions.Action {
				s := fake.New(fake.Options{Accounts: twoZones(), Limits: fake.Limits{Requests: 1e6}, FullIPv6: true})
				a := newAction(t, s, func(o *cloudflare.Options) {
					o.AccessRules, o.Zones, o.Budget.Requests = true, zones, 1e6
				})
				a.Quicken(time.Millisecond)
				ctx, stop := context.WithCancel(context.Background())
				var all sync.WaitGroup
				all.Go(func() { _ = a.Run(ctx) })
				t.Cleanup(func() { stop(); all.Wait() })
				return a
			})
		})
	}
}
