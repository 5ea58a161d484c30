package cloudflare_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// host is one daemon's worth of an account that several share.
type host struct {
	name   string
	memory string // path of what is left of its budgets
	change func(*cloudflare.Options)
	wanted map[string]time.Time // bans, as a state file would keep them
	action *cloudflare.Action
	rec    *actions.Reconciler
	stop   context.CancelFunc
	all    *sync.WaitGroup
}

// boot starts a daemon with what it should have banned.
func (h *host) boot(t *testing.T, s *fake.Server, log *slog.Logger) {
	h.action = newAction(t, s, func(o *cloudflare.Options) {
		o.Instance, o.Log, o.Budget, o.Memory = h.name, log, runBudget(), h.memory
		if leased(o); h.change != nil {
			h.change(o)
		}
		o.Token = func() (string, error) { return fake.Secret + h.name, nil }
	})
	h.rec = actions.NewReconciler(actions.Options{
		Name: h.name, Action: h.action, Log: log, Interval: 10 * time.Minute,
		MinBackoff: 15 * time.Second, MaxBackoff: 5 * time.Minute, Patience: 6 * time.Minute,
	})
	for target, until := range h.wanted {
		h.rec.Set(netip.MustParsePrefix(target), until)
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(t.Context())
	h.all = &sync.WaitGroup{}
	h.all.Go(func() { _ = h.rec.Run(ctx) })
	h.all.Go(func() { _ = h.action.Run(ctx) })
	h.all.Go(func() { _ = h.action.RunLease(ctx) })
}

func (h *host) kill() {
	h.stop()
	h.all.Wait()
}

func runBudget() cloudflare.Budget { return cloudflare.Budget{Requests: 200, Changes: 4000} }

// TestFaultRun has two hosts on one account ban and unban for hours, while everything
// that can go wrong does, people edit the list, and the hosts are killed. Afterwards
// the list has what both want, nothing of others was touched, and no span of time has
// seen more than the budgets.
func TestFaultRun(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faultRun(t, seed) })
		})
	}
}

func faultRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := fake.New(fake.Options{
		Seed: seed, DelayJitter: 20 * time.Second, PendingRetry: rng.IntN(2) * 5, AcceptWith200: rng.IntN(2) == 0,
		EmptyAfter: rng.IntN(2) == 0, LogBody: -1,
		Tokens: []fake.Token{{Secret: fake.Secret + "web-1", ID: "web-1", Owner: "a"}, {Secret: fake.Secret + "web-2", ID: "web-2", Owner: "b"}},
	})
	foreign := map[string]string{}
	for i := range 40 {
		it := fake.Item{IP: fmt.Sprintf("203.0.113.%d", i), Comment: "by hand"}
		if i%2 == 0 {
			it.Comment = cloudflare.NewTag("web-9", time.Now().Add(100*time.Hour)) // a third host, that lives
		}
		foreign[it.IP] = it.Comment
		if err := s.AddForeignItems(listName, it); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddForeignRule(fake.ZoneID, fake.Rule{Action: "log", Expression: "(ip.src eq 198.51.100.1)"}); err != nil {
		t.Fatal(err)
	}
	rules := s.Rules(fake.ZoneID)
	hosts := []*host{{name: "web-1", wanted: map[string]time.Time{}}, {name: "web-2", wanted: map[string]time.Time{}}}
	for _, h := range hosts {
		h.memory = filepath.Join(t.TempDir(), "budget")
		h.boot(t, s, log)
	}
	for _, f := range fake.AllFaults() {
		s.SetFaults(0.02, f)
	}
	boots := 2
	for range 300 {
		h := hosts[rng.IntN(2)]
		target := address(rng.IntN(300))
		if rng.IntN(20) == 0 {
			target = fmt.Sprintf("203.0.113.%d/32", rng.IntN(60))
		}
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
			boots++
		case n < 95:
			s.RemoveItems(listName, strings.TrimSuffix(target, "/32"))
			delete(foreign, strings.TrimSuffix(target, "/32"))
		}
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Millisecond)
	}
	s.NoFaults()
	time.Sleep(50 * time.Minute)
	synctest.Wait()

	now := time.Now()
	switch after := s.Rules(fake.ZoneID); {
	case len(after) != 2 || after[0] != rules[0]:
		t.Errorf("the rules are %+v, one is ours and the other was %+v", after, rules[0])
	case !s.Blocked(netip.MustParseAddr("203.0.113.2"), now) && foreign["203.0.113.2"] != "":
		t.Error("the rule does not block what is in the list")
	}
	held := map[string]string{}
	for _, it := range s.Items(listName) {
		held[it.IP] = it.Comment
	}
	for ip, comment := range foreign {
		if held[ip] != comment {
			t.Errorf("%s of somebody else is %q, was %q", ip, held[ip], comment)
		}
		delete(held, ip)
	}
	for _, h := range hosts {
		for target, until := range h.wanted {
			ip := strings.TrimSuffix(target, "/32")
			if _, others := foreign[ip]; others {
				continue
			}
			if _, ok := held[ip]; !ok && until.After(now) {
				t.Errorf("%s should hold %s for %v more, and does not", h.name, ip, until.Sub(now))
			}
		}
		if st := h.rec.Stats(); st.Failing {
			t.Errorf("%s fails: %v", h.name, st.Err)
		}
	}
	for ip, comment := range held {
		tag, ours := cloudflare.ParseTag(comment)
		wants := false
		for _, h := range hosts {
			wants = wants || ours && strings.HasPrefix(comment, "tailban/"+h.name+" ") && h.wanted[ip+"/32"].Add(4*time.Minute).After(now)
		}
		if !wants {
			t.Errorf("%s is held as %v, and nobody wants that at %v; wanted until %v, %v", ip, tag, now, hosts[0].wanted[ip+"/32"], hosts[1].wanted[ip+"/32"])
		}
	}
	entries, dropped := s.Requests()
	if dropped > 0 {
		t.Fatalf("the log has lost %d requests", dropped)
	}
	for _, h := range hosts {
		of := func(r fake.Request) int {
			if r.Token == h.name {
				return 1
			}
			return 0
		}
		b := runBudget()
		if most := fake.Peak(entries, 5*time.Minute, of); most > b.Requests {
			t.Errorf("%s has made %d requests within 5 minutes, its budget is %d", h.name, most, b.Requests)
		}
		if most := fake.Peak(entries, 12*time.Hour, func(r fake.Request) int { return of(r) * r.ItemChanges }); most > b.Changes {
			t.Errorf("%s has changed %d items within 12 hours, its budget is %d", h.name, most, b.Changes)
		}
	}
	if t.Failed() {
		for _, r := range entries[len(entries)-60:] {
			t.Logf("%v %s %s %s %s -> %d %d %v", r.At, r.Token, r.Method, r.Path, r.Query, r.Status, r.ItemChanges, r.Fault)
		}
		t.Logf("%d requests, %d starts\n%s", len(entries), boots, out)
	}
}
