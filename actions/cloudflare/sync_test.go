package cloudflare_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

func TestBanEndsAndIsRemoved(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 10*time.Minute)
		e.ban("2001:db8:0:1::/64", time.Hour)
		e.after(20 * time.Second)
		e.holds("192.0.2.1", "2001:db8:0:1::/64")
		e.said("no rule uses the list", 1)
		if c := e.items()["192.0.2.1"]; !strings.HasPrefix(c, "tailban/web-1 until=") {
			e.Errorf("the comment is %q", c)
		}
		e.after(12 * time.Minute)
		e.holds("2001:db8:0:1::/64")
		if s := e.reconciler.Stats(); s.Failing || s.DriftAdded+s.DriftRemoved+s.DriftCorrected > 0 {
			e.Errorf("stats are %+v", s)
		}
	})
}

// TestFirstAtOnce is that a ban out of the blue does not wait, and the next ones do.
func TestFirstAtOnce(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.after(time.Minute)
		e.ban("192.0.2.1/32", time.Hour)
		e.after(4 * time.Second)
		e.holds("192.0.2.1")
		e.ban("192.0.2.2/32", time.Hour)
		e.after(4 * time.Second)
		e.holds("192.0.2.1")
		e.after(20 * time.Second)
		e.holds("192.0.2.1", "192.0.2.2")
	})
}

// TestNoCallPerBan counts what 1,000 bans within a minute cost.
func TestNoCallPerBan(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.after(time.Minute)
		log, _ := e.server.Requests()
		before := len(log)
		for i := range 1000 {
			e.ban(address(i), 2*time.Hour)
			time.Sleep(60 * time.Millisecond)
		}
		e.after(time.Minute)
		if n := len(e.server.Items(listName)); n != 1000 {
			e.Fatalf("the list holds %d items, want 1000", n)
		}
		log, _ = e.server.Requests()
		if n := len(log) - before; n > 25 {
			e.Errorf("1000 bans took %d requests, want 25 at most", n)
		}
		if n := e.requests("POST", "/items"); n > 6 {
			e.Errorf("1000 bans took %d writes, want 6 at most", n)
		}
	})
}

func TestUnban(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		for _, x := range []string{"192.0.2.1/32", "192.0.2.2/32", "203.0.113.0/24"} {
			e.ban(x, time.Hour)
		}
		e.after(30 * time.Second)
		e.reconciler.Delete(netip.MustParsePrefix("192.0.2.1/32"))
		e.after(30 * time.Second)
		e.holds("192.0.2.2", "203.0.113.0/24")
	})
}

// TestOthers is that items of others are never changed, and count where they cover.
func TestOthers(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		foreign := []fake.Item{
			{IP: "192.0.2.0/24", Comment: "by hand, do not touch"},
			{IP: "198.51.100.7", Comment: "tailban is not the beginning of a tag"},
			{IP: "203.0.113.5", Comment: cloudflare.NewTag("web-2", time.Now().Add(20*time.Minute))},
		}
		if err := e.server.AddForeignItems(listName, foreign...); err != nil {
			e.Fatal(err)
		}
		e.after(11 * time.Minute) // a full pass
		for _, x := range []string{"192.0.2.1/32", "198.51.100.7/32", "203.0.113.5/32"} {
			e.ban(x, time.Hour)
		}
		e.after(time.Minute)
		e.holds("192.0.2.0/24", "198.51.100.7", "203.0.113.5")
		if n := e.requests("POST", "/items"); n > 0 {
			e.Errorf("%d writes for what others ban already", n)
		}
		if s := e.action.Stats(); s.Covered != 3 || s.Others != 3 || s.Items != 0 {
			e.Errorf("stats are %+v", s)
		}
		if s := e.reconciler.Stats(); s.Failing || s.Pending > 0 {
			e.Errorf("the reconciler's are %+v", s)
		}

		// The other instance's is over, and ours goes on.
		e.after(10 * time.Minute)
		if c := e.items()["203.0.113.5"]; !strings.HasPrefix(c, "tailban/web-1 ") {
			e.Errorf("what another instance had banned until its end has the comment %q", c)
		}
		e.reconciler.Delete(netip.MustParsePrefix("192.0.2.1/32"))
		e.reconciler.Delete(netip.MustParsePrefix("198.51.100.7/32"))
		e.after(2 * time.Minute)
		got := e.items()
		for _, f := range foreign[:2] {
			if got[f.IP] != f.Comment {
				e.Errorf("%s is %q, want %q", f.IP, got[f.IP], f.Comment)
			}
		}
		if s := e.reconciler.Stats(); s.DriftAdded+s.DriftRemoved+s.DriftCorrected > 0 {
			e.Errorf("the reconciler repaired what was right: %+v", s)
		}
	})
}

// TestOversOfOthers is that what others of us have left behind is removed some time
// after its end, and not before.
func TestOversOfOthers(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.server.AddList(listName, "")
		add := func(ip string, left time.Duration) {
			if err := e.server.AddForeignItems(listName, fake.Item{IP: ip, Comment: cloudflare.NewTag("gone", time.Now().Add(left))}); err != nil {
				e.Fatal(err)
			}
		}
		add("192.0.2.1", -time.Hour)
		add("192.0.2.2", 20*time.Minute)
		e.after(12 * time.Minute)
		e.holds("192.0.2.2")
		e.ban("192.0.2.3/32", 9*time.Minute) // is over a minute later, and removed alone
		e.after(10 * time.Minute)
		e.holds("192.0.2.2")
		e.after(5 * time.Minute)
		e.holds()
	})
}

// TestDrift is that what somebody removes or adds in our name is put right.
func TestDrift(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 2*time.Hour)
		e.ban("192.0.2.2/32", 2*time.Hour)
		e.after(30 * time.Second)
		e.server.RemoveItems(listName, "192.0.2.1")
		stray := fake.Item{IP: "192.0.2.9", Comment: cloudflare.NewTag("web-1", time.Now().Add(time.Hour))}
		if err := e.server.AddForeignItems(listName, stray); err != nil {
			e.Fatal(err)
		}
		e.after(12 * time.Minute)
		e.holds("192.0.2.1", "192.0.2.2")
		e.server.DeleteList(listName)
		e.after(12 * time.Minute)
		e.holds("192.0.2.1", "192.0.2.2")
	})
}

// TestRestart is that a new daemon takes up what the one before has written.
func TestRestart(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 2*time.Hour)
		e.ban("192.0.2.2/32", 2*time.Hour)
		e.after(30 * time.Second)
		e.end()
		writes := e.requests("POST", "/items") + e.requests("DELETE", "/items")
		e.start(nil)
		e.ban("192.0.2.1/32", 2*time.Hour-30*time.Second)
		e.after(time.Minute)
		e.holds("192.0.2.1")
		if n := e.requests("POST", "/items") + e.requests("DELETE", "/items") - writes; n != 1 {
			e.Errorf("the restart took %d writes, want one removal", n)
		}
	})
}

// TestKilled is that a crash between a submission and its end repeats nothing that
// does harm.
func TestKilled(t *testing.T) {
	atEdge(t, fake.Options{Delay: time.Minute}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 2*time.Hour)
		e.after(10 * time.Second)
		if !e.server.Pending() {
			e.Fatal("no operation is pending")
		}
		e.end()
		e.start(nil)
		e.ban("192.0.2.2/32", 2*time.Hour) // and the first is not wanted any more
		e.after(15 * time.Minute)
		e.holds("192.0.2.2")
		if s := e.reconciler.Stats(); s.Failing {
			e.Errorf("it fails: %v", s.Err)
		}
	})
}

// TestGoneByHand is that what somebody has taken out by hand can be taken back, and
// keeps nothing else waiting.
func TestGoneByHand(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 2*time.Hour)
		e.ban("192.0.2.2/32", 2*time.Hour)
		e.after(11 * time.Minute)
		e.server.RemoveItems(listName, "192.0.2.1")
		e.reconciler.Delete(prefix("192.0.2.1/32"))
		e.reconciler.Delete(prefix("192.0.2.2/32"))
		e.ban("192.0.2.3/32", 2*time.Hour)
		e.after(time.Minute)
		e.holds("192.0.2.3")
		e.said("not enforced, trying", 0)
	})
}
