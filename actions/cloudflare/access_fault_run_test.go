package cloudflare_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestFaultRunOfAccessRules is [TestFaultRun] for access rules: of the account, and of
// two zones.
func TestFaultRunOfAccessRules(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { accessFaultRun(t, seed) })
		})
	}
}

func accessFaultRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	out := &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := fake.New(fake.Options{
		Seed: seed, LogBody: -1, FullIPv6: rng.IntN(2) == 0, Accounts: twoZones(),
		Tokens: []fake.Token{{Secret: fake.Secret + "web-1", ID: "web-1", Owner: "a"}, {Secret: fake.Secret + "web-2", ID: "web-2", Owner: "b"}},
	})
	zones, owners := []string(nil), []string{fake.AccountID}
	if seed%2 == 1 {
		zones, owners = []string{fake.ZoneID, otherZone}, []string{fake.ZoneID, otherZone}
	}
	foreign := map[string]fake.Rule{} // by owner and value
	for i := range 40 {
		r := fake.Rule{Action: "block", Target: "ip", Value: fmt.Sprintf("203.0.113.%d", i), Description: "by hand"}
		if i%2 == 0 {
			r.Description = cloudflare.NewTag("web-9", time.Now().Add(100*time.Hour)) // a third host, that lives
		}
		for _, owner := range owners {
			id, err := s.AddForeignAccessRule(owner, r)
			if err != nil {
				t.Fatal(err)
			}
			r.ID = id
			foreign[owner+" "+r.Value] = r
		}
	}
	hosts := []*host{{name: "web-1", wanted: map[string]time.Time{}}, {name: "web-2", wanted: map[string]time.Time{}}}
	for _, h := range hosts {
		h.memory = filepath.Join(t.TempDir(), "budget")
		h.change = func(o *cloudflare.Options) { o.AccessRules, o.Zones = true, zones }
		h.boot(t, s, log)
	}
	for _, f := range fake.AllFaults() {
		s.SetFaults(0.02, f)
	}
	for range 300 {
		h := hosts[rng.IntN(2)]
		target := address(rng.IntN(150))
		if n := rng.IntN(20); n == 0 {
			target = fmt.Sprintf("203.0.113.%d/32", rng.IntN(60))
		} else if n < 5 {
			target = fmt.Sprintf("2001:db8:0:%x::/64", 1+rng.IntN(50))
		}
		value := strings.TrimSuffix(target, "/32")
		switch n := rng.IntN(100); {
		case n < 70:
			until := time.Now().Add(10*time.Minute + time.Duration(rng.IntN(300))*time.Minute)
			h.wanted[target] = until
			h.rec.Set(netip.MustParsePrefix(target), until)
		case n < 85:
			delete(h.wanted, target)
			h.rec.Delete(netip.MustParsePrefix(target))
		case n < 90:
			h.kill()
			h.boot(t, s, log)
		case n < 93:
			for _, owner := range owners {
				s.RemoveAccessRule(owner, value)
				delete(foreign, owner+" "+value)
			}
		case n < 96: // somebody takes one of ours
			owner := owners[rng.IntN(len(owners))]
			for _, r := range s.AccessRules(owner) {
				if r.Value == value {
					s.EditAccessRule(owner, value, fake.Rule{Action: "block", Description: "keep"})
					r.Description = "keep"
					foreign[owner+" "+value] = r
				}
			}
		}
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Millisecond)
	}
	s.NoFaults()
	time.Sleep(50 * time.Minute)
	synctest.Wait()

	now := time.Now()
	for _, owner := range owners {
		judgeRules(t, s, owner, foreign, hosts, now)
	}
	for _, h := range hosts {
		if st := h.rec.Stats(); st.Failing {
			t.Errorf("%s fails: %v", h.name, st.Err)
		}
	}
	entries, dropped := s.Requests()
	if dropped > 0 {
		t.Fatalf("the log has lost %d requests", dropped)
	}
	for _, h := range hosts {
		most := fake.Peak(entries, 5*time.Minute, func(r fake.Request) int {
			if r.Token == h.name {
				return 1
			}
			return 0
		})
		if b := runBudget(); most > b.Requests {
			t.Errorf("%s has made %d requests within 5 minutes, its budget is %d", h.name, most, b.Requests)
		}
	}
	t.Logf("%d requests", len(entries))
	if t.Failed() {
		for _, r := range entries[len(entries)-60:] {
			t.Logf("%v %s %s %s %s -> %d %v", r.At, r.Token, r.Method, r.Path, r.Query, r.Status, r.Fault)
		}
		t.Log(out)
	}
}

// judgeRules fails unless the rules of an account or zone are those of others, as they
// were, and what the hosts want.
func judgeRules(t *testing.T, s *fake.Server, owner string, foreign map[string]fake.Rule, hosts []*host, now time.Time) {
	t.Helper()
	held := map[netip.Prefix]fake.Rule{}
	for _, r := range s.AccessRules(owner) {
		if was, others := foreign[owner+" "+r.Value]; others {
			if was != r {
				t.Errorf("%s of somebody else is %+v, was %+v", r.Value, r, was)
			}
		}
		held[asPrefix(r.Value)] = r
	}
	for key, was := range foreign {
		if of, value, _ := strings.Cut(key, " "); of == owner && held[asPrefix(value)].ID != was.ID {
			t.Errorf("%s of somebody else is gone", value)
		}
	}
	wanted := map[netip.Prefix]time.Time{}
	for _, h := range hosts {
		for target, until := range h.wanted {
			p := netip.MustParsePrefix(target)
			if until.After(wanted[p]) {
				wanted[p] = until
			}
			if _, ok := held[p]; !ok && until.After(now) {
				t.Errorf("%s should hold %s for %v more, and does not", h.name, target, until.Sub(now))
			}
		}
	}
	for p, r := range held {
		if _, others := foreign[owner+" "+r.Value]; !others && !wanted[p].Add(4*time.Minute).After(now) {
			t.Errorf("%s is held as %q, and nobody wants that at %v; wanted until %v", p, r.Description, now, wanted[p])
		}
	}
}

func asPrefix(value string) netip.Prefix {
	if p, err := netip.ParsePrefix(value); err == nil {
		return p
	}
	a := netip.MustParseAddr(value)
	return netip.PrefixFrom(a, a.BitLen())
}
