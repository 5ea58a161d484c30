package cloudflare_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
	"pgregory.net/rapid"
)

// TestBudgetHolds is that no span of five minutes ever has more requests than the
// budget, whatever asks for how many and when.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		budget := rapid.IntRange(2, 50).Draw(t, "budget")
		l := cloudflare.NewLedger(cloudflare.Budget{Requests: budget, Changes: 100}, func() time.Time { return now })
		var log []fake.Request
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, 5 * time.Minute}).Draw(t, "pause"))
			if l.Request(false) == 0 {
				log = append(log, fake.Request{At: now})
			}
		}
		if most := fake.Peak(log, 5*time.Minute, func(fake.Request) int { return 1 }); most > budget {
			t.Fatalf("%d requests within 5 minutes, the budget is %d", most, budget)
		}
	})
}

// TestUsageIsWarnedOf is at which shares, and that it isn't said again and again.
func TestUsageIsWarnedOf(t *testing.T) {
	now := time.Unix(0, 0)
	l := cloudflare.NewLedger(cloudflare.Budget{Requests: 10, Changes: 200}, func() time.Time { return now })
	var said []string
	use := func(n int) {
		l.Change(n)
		l.Crossed(func(u cloudflare.Usage, share int) { said = append(said, fmt.Sprintf("%s %d", u.Name, share)) })
	}
	for _, n := range []int{40, 5, 5, 10, 25, 15, 10} {
		use(n)
	}
	now = now.Add(12 * time.Hour)
	use(0)
	use(60)
	want := "changed items 50, changed items 80, changed items 50"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("warned of %q, want %q", got, want)
	}
}

// TestShortBudget is what comes first when not all can be written: what lasts longer;
// the rest waits, and nothing fails.
func TestShortBudget(t *testing.T) {
	small := func(o *cloudflare.Options) { o.Budget.Changes = 40 } // 20 at once, and 20 in 12 hours
	atEdge(t, fake.Options{}, small, func(e *edge) {
		e.after(time.Minute)
		for i := range 30 {
			e.ban(address(i), 10*time.Hour+time.Duration(i)*time.Hour)
			if i == 0 { // written alone, at once; the others are gathered
				e.after(time.Second)
			}
		}
		e.after(2 * time.Minute)
		got := e.items()
		if len(got) != 20 {
			e.Fatalf("the list holds %d items, want 20", len(got))
		}
		s := e.reconciler.Stats()
		if s.Failing || s.Pending != 10 {
			e.Errorf("stats are %+v", s)
		}
		if w := e.action.Stats().Waiting; w != 10 {
			e.Errorf("%d wait, want 10", w)
		}
		e.said("much of a budget", 1)
		for i := 11; i < 30; i++ { // beside the first
			if ip := strings.TrimSuffix(address(i), "/32"); got[ip] == "" {
				e.Errorf("%s is not there, which lasts longer than others", ip)
			}
		}
		e.after(6 * time.Hour)
		if n := len(e.server.Items(listName)); n < 29 {
			e.Errorf("after hours the list holds %d items, want 29 at least", n)
		}
	})
}

// TestFull is that a list that is full keeps what ends last, whoever else has items
// in it, and says so.
func TestFull(t *testing.T) {
	for _, early := range []bool{false, true} {
		atEdge(t, fake.Options{Limits: fake.Limits{Items: 10}, FullAtRequest: early}, nil, func(e *edge) {
			if err := e.server.AddForeignItems(listName, fake.Item{IP: "192.0.2.250", Comment: "by hand"}, fake.Item{IP: "192.0.2.251"}); err != nil {
				e.Fatal(err)
			}
			e.after(11 * time.Minute)
			for i := range 20 {
				e.ban(address(i), 10*time.Hour+time.Duration(i)*time.Hour)
				if i == 5 {
					e.after(time.Minute)
				}
			}
			e.after(30 * time.Minute)
			got := e.items()
			if len(got) > 10 || len(got) < 8 {
				e.Errorf("the list holds %d items, want 8 to 10", len(got))
			}
			if got["192.0.2.250"] != "by hand" {
				e.Error("what somebody else has put in is gone")
			}
			if s := e.reconciler.Stats(); s.Failing || s.LeftOut == 0 {
				e.Errorf("stats are %+v", s)
			}
			e.said("the action is full", 1)
		})
	}
}

// TestCapacity is Full with the capacity told: nothing ever fails.
func TestCapacity(t *testing.T) {
	limits := fake.Limits{Items: 10}
	atEdge(t, fake.Options{Limits: limits}, func(o *cloudflare.Options) { o.Capacity = 10 }, func(e *edge) {
		if err := e.server.AddForeignItems(listName, fake.Item{IP: "192.0.2.250", Comment: "by hand"}); err != nil {
			e.Fatal(err)
		}
		e.after(11 * time.Minute)
		for i := range 30 {
			e.ban(address(i), 10*time.Hour+time.Duration(i)*time.Hour)
			e.after(10 * time.Second)
		}
		e.after(2 * time.Minute)
		want := []string{"192.0.2.250"}
		for i := 21; i < 30; i++ {
			want = append(want, strings.TrimSuffix(address(i), "/32"))
		}
		e.holds(want...)
		e.said("not enforced, trying", 0)
	})
}

// TestBudgetOutlivesRestarts is that starting again and again gives no request more.
func TestBudgetOutlivesRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budget")
	now := time.Unix(0, 0)
	made, changed := 0, 0
	for range 50 {
		l := cloudflare.NewLedger(cloudflare.Budget{Requests: 100, Changes: 1000}, func() time.Time { return now })
		if err := l.Load(path); err != nil {
			t.Fatal(err)
		}
		for range 7 {
			if l.Request(false) == 0 {
				made++
			}
		}
		changed += l.Change(30)
	}
	if made > 50 || changed > 500 {
		t.Errorf("%d requests and %d changes at once, want 50 and 500 at most", made, changed)
	}
	if made < 20 || changed < 480 {
		t.Errorf("%d requests and %d changes: the restarts have cost more than they may", made, changed)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := cloudflare.NewLedger(cloudflare.Budget{Requests: 100, Changes: 1000}, func() time.Time { return now })
	if err := l.Load(path); err == nil || l.Request(false) != 0 {
		t.Errorf("a file that can't be read: %v", err)
	}
}

// TestRefusedCostsNothing is that what was refused has changed no item.
func TestRefusedCostsNothing(t *testing.T) {
	tokens := []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{fake.ListsRead}}}
	small := func(o *cloudflare.Options) { o.Budget.Changes = 400 }
	atEdge(t, fake.Options{Tokens: tokens}, small, func(e *edge) {
		e.server.AddList(listName, "")
		for i := range 100 {
			e.ban(address(i), 20*time.Hour)
		}
		e.after(time.Hour)
		e.server.Change(func(o *fake.Options) { o.Tokens[0].Permissions = nil })
		e.after(10 * time.Minute)
		if n := len(e.items()); n != 100 {
			e.Errorf("the list holds %d items, want 100", n)
		}
	})
}

// TestOversTakeRoom is that bans that are over and still in a list that is full keep
// no new ones out.
func TestOversTakeRoom(t *testing.T) {
	limits := fake.Limits{Items: 10}
	atEdge(t, fake.Options{Limits: limits}, func(o *cloudflare.Options) { o.Capacity = 10 }, func(e *edge) {
		e.after(time.Minute)
		for i := range 10 {
			e.ban(address(i), 8*time.Minute+58*time.Second) // a full pass comes two seconds later
		}
		e.ban(address(0), 8*time.Minute+30*time.Second) // the list is tidied then, and not until a minute later
		e.after(9*time.Minute + 5*time.Second)
		for i := range 10 {
			e.ban(address(100+i), time.Hour)
		}
		e.after(40 * time.Second)
		if got := e.items(); len(got) != 10 || got[strings.TrimSuffix(address(109), "/32")] == "" {
			e.Errorf("the list holds %v", got)
		}
		e.said("not enforced, trying", 0)
	})
}

// TestDiskHangs is that a disk that hangs keeps no request back for long, nor who asks
// what is used, and that all is written down once it works again.
func TestDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := cloudflare.NewLedger(cloudflare.Budget{Requests: 1000, Changes: 1000}, time.Now)
		if err := l.Load(filepath.Join(t.TempDir(), "budget")); err != nil {
			t.Fatal(err)
		}
		works := make(chan struct{})
		written := 0
		l.WriteBy(func(string, []byte) error { <-works; written++; return nil })
		begun := time.Now()
		for range 100 {
			l.Request(true)
			l.Change(1)
		}
		if l.Usage()[0].Used < 90 || time.Since(begun) > 5*time.Second {
			t.Errorf("100 requests took %v", time.Since(begun))
		}
		if err, news := l.KeepFails(); err == nil || !news {
			t.Errorf("it is not told: %v", err)
		}
		close(works)
		synctest.Wait()
		l.Change(1)
		if err, news := l.KeepFails(); err != nil || !news || written != 2 {
			t.Errorf("after that it is written %d times: %v", written, err)
		}
	})
}

// TestSmallerBudget is that what is left of a larger budget is no more than a smaller
// one has.
func TestSmallerBudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budget")
	now := time.Unix(0, 0)
	ledger := func(b cloudflare.Budget) *cloudflare.Ledger {
		l := cloudflare.NewLedger(b, func() time.Time { return now })
		if err := l.Load(path); err != nil {
			t.Fatal(err)
		}
		return l
	}
	ledger(cloudflare.Budget{Requests: 1000, Changes: 10_000}).Change(1)
	l := ledger(cloudflare.Budget{Requests: 100, Changes: 1000})
	made := 0
	for l.Request(false) == 0 {
		made++
	}
	if changed := l.Change(10_000); made > 50 || changed > 500 {
		t.Errorf("%d requests and %d changes at once, want 50 and 500 at most", made, changed)
	}
}

// TestOtherLists is that what the account's other lists hold is no room of ours.
func TestOtherLists(t *testing.T) {
	atEdge(t, fake.Options{Limits: fake.Limits{Items: 10, Lists: 2}}, func(o *cloudflare.Options) { o.Capacity = 10 }, func(e *edge) {
		if err := e.server.AddForeignItems("another", fake.Item{IP: "192.0.2.250"}, fake.Item{IP: "192.0.2.251"}); err != nil {
			e.Fatal(err)
		}
		e.after(11 * time.Minute)
		for i := range 20 {
			e.ban(address(i), 10*time.Hour+time.Duration(i)*time.Hour)
		}
		e.after(time.Minute)
		if n := len(e.items()); n != 8 {
			e.Errorf("the list holds %d items, want 8", n)
		}
		e.said("not enforced, trying", 0)
	})
}

// TestGivenBack is that what is given back late makes no budget larger.
func TestGivenBack(t *testing.T) {
	now := time.Unix(0, 0)
	l := cloudflare.NewLedger(cloudflare.Budget{Requests: 100, Changes: 1000}, func() time.Time { return now })
	got := l.Change(500)
	now = now.Add(12 * time.Hour)
	l.GiveBack(got)
	if n := l.Change(10_000); n != 500 {
		t.Errorf("%d changes at once, want 500", n)
	}
}
