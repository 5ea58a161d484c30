package cloudflare_test

import (
	"math/rand/v2"
	"testing"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestDay is what an ordinary day costs: 2,000 bans of an hour each, at any time.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	atEdge(t, fake.Options{LogBody: -1}, leased, func(e *edge) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 2000 {
			e.ban(address(i), time.Hour)
			time.Sleep(time.Duration(rng.IntN(86_400)) * time.Millisecond)
		}
		e.after(2 * time.Hour)
		e.holds()
		writes := e.requests("POST", "/items") + e.requests("DELETE", "/items")
		all := e.requests("", "")
		e.Logf("%d requests, %d of them change items", all, writes)
		if all > 17_000 || writes > 3500 {
			e.Errorf("%d requests, %d of them change items: that is more than it was", all, writes)
		}
	})
}
