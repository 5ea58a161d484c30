package cloudflare_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestStormKeepsNobodyBannedForLong is that bans that are over go while there are more new
// ones than there are requests.
func TestStormKeepsNobodyBannedForLong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	atEdge(t, fake.Options{LogBody: -1}, byRules, func(e *edge) {
		e.after(time.Minute)
		for i := range 60 * 45 {
			e.ban(address(i), 10*time.Minute)
			time.Sleep(time.Second)
		}
		e.after(0)
		over := 0
		for _, notes := range e.rules(fake.AccountID) {
			_, end, _ := strings.Cut(notes, "until=")
			until, err := time.Parse(time.RFC3339, end)
			if err != nil {
				e.Fatal(err)
			}
			if time.Since(until) > 5*time.Minute {
				over++
			}
		}
		e.Logf("of %d rules %d are over by more than 5 minutes", len(e.rules(fake.AccountID)), over)
		if over > 250 { // without a share of the requests it is more than 1,000
			e.Errorf("of %d rules %d are over by more than 5 minutes", len(e.rules(fake.AccountID)), over)
		}
	})
}

// TestZonesShareRequests is that no zone goes short for another while there are more bans
// than requests.
func TestZonesShareRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	atEdge(t, fake.Options{Accounts: twoZones(), LogBody: -1}, func(o *cloudflare.Options) {
		byRules(o)
		o.Zones = []string{fake.ZoneID, otherZone}
	}, func(e *edge) {
		e.after(time.Minute)
		for i := range 60 * 30 {
			e.ban(address(i), 24*time.Hour)
			time.Sleep(time.Second)
		}
		e.after(0)
		n := []int{len(e.rules(fake.ZoneID)), len(e.rules(otherZone))}
		e.Logf("there are %v rules", n)
		if slices.Min(n) < slices.Max(n)*2/3 {
			e.Errorf("there are %v rules", n)
		}
	})
}
