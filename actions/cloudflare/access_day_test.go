package cloudflare_test

import (
	"math/rand/v2"
	"testing"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestDayOfAccessRules is [TestDay] for access rules.
func TestDayOfAccessRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	atEdge(t, fake.Options{LogBody: -1}, byRules, func(e *edge) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 2000 {
			e.ban(address(i), time.Hour)
			time.Sleep(time.Duration(rng.IntN(86_400)) * time.Millisecond)
		}
		e.after(2 * time.Hour)
		e.hasRules(fake.AccountID)
		all := e.requests("", "")
		e.Logf("%d requests, %d of them change rules", all, e.requests("POST", "")+e.requests("DELETE", ""))
		if all > 6000 {
			e.Errorf("%d requests: that is more than it was", all)
		}
	})
}

// TestStormOfAccessRules is what comes of more bans than there are requests: how many
// are there after half an hour, and that not one request is refused.
func TestStormOfAccessRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	atEdge(t, fake.Options{LogBody: -1}, byRules, func(e *edge) {
		e.after(time.Minute)
		for i := range 2000 {
			e.ban(address(i), 24*time.Hour)
		}
		e.after(30 * time.Minute)
		n := len(e.rules(fake.AccountID))
		log, _ := e.server.Requests()
		for _, r := range log {
			if r.Limited {
				e.Fatalf("%s %s at %v was refused", r.Method, r.Path, r.At)
			}
		}
		e.Logf("%d rules after half an hour, by %d requests", n, len(log))
		if n < 1300 {
			e.Errorf("%d rules after half an hour, by %d requests", n, len(log))
		}
		if s := e.reconciler.Stats(); s.Failing {
			e.Errorf("the reconciler says %+v", s)
		}
	})
}
