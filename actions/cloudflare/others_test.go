package cloudflare_test

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// by puts an item into the list as another instance would, or as a person with the
// comment, and gives its comment.
func (e *edge) by(instance, ip string, left time.Duration) (comment string) {
	e.Helper()
	comment = instance
	if left > 0 {
		comment = cloudflare.NewTag(instance, time.Now().Add(left))
	}
	if err := e.server.AddForeignItems(listName, fake.Item{IP: ip, Comment: comment}); err != nil {
		e.Fatal(err)
	}
	return comment
}

// TestPutInJustNow is that what others have put in since the list was read is neither
// overwritten, nor removed when our ban of it is over or taken back.
func TestPutInJustNow(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.after(15 * time.Minute)
		want := map[string]string{
			"192.0.2.1": e.by("by hand", "192.0.2.1", 0), "192.0.2.2": e.by("web-2", "192.0.2.2", 3*time.Hour),
		}
		e.ban("192.0.2.1/32", 20*time.Minute)
		e.ban("192.0.2.2/32", 20*time.Minute)
		e.ban("192.0.2.3/32", 20*time.Minute)
		e.after(30 * time.Second)
		e.holds("192.0.2.1", "192.0.2.2", "192.0.2.3")
		e.after(5 * time.Minute)
		e.reconciler.Delete(prefix("192.0.2.1/32"))
		e.after(40 * time.Minute)
		e.holds("192.0.2.1", "192.0.2.2")
		for ip, comment := range want {
			if got := e.items()[ip]; got != comment {
				e.Errorf("%s is %q, was %q", ip, got, comment)
			}
		}
	})
}

// TestPutInWhileBusy is the same for what comes by the write that ours waits for.
func TestPutInWhileBusy(t *testing.T) {
	atEdge(t, fake.Options{Delay: 20 * time.Second}, nil, func(e *edge) {
		e.after(15 * time.Minute)
		second := &edge{T: e.T, server: e.server}
		second.start(func(o *cloudflare.Options) { o.Instance = "web-2" })
		defer second.end()
		e.after(time.Second)
		second.ban("192.0.2.1/32", time.Hour)
		e.after(time.Second)
		e.ban("192.0.2.1/32", 30*time.Minute)
		e.after(2 * time.Minute)
		if got := e.items()["192.0.2.1"]; !strings.HasPrefix(got, "tailban/web-2 ") {
			e.Errorf("the item is %q", got)
		}
	})
}

// TestProlonged is that what another host has prolonged since the list was read is
// neither removed nor taken over.
func TestProlonged(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.server.AddList(listName, "")
		e.by("web-2", "192.0.2.1", 19*time.Minute)
		e.by("web-2", "192.0.2.2", 15*time.Minute)
		e.after(11 * time.Minute)
		e.ban("192.0.2.2/32", 2*time.Hour)
		e.after(2 * time.Minute)
		second := e.by("web-2", "192.0.2.2", time.Hour) // it was until in two minutes
		e.after(8 * time.Minute)                        // the list is read, and the first is over
		e.holds("192.0.2.1", "192.0.2.2")
		first := e.by("web-2", "192.0.2.1", time.Hour)
		e.after(10 * time.Minute)
		for ip, comment := range map[string]string{"192.0.2.1": first, "192.0.2.2": second} {
			if got := e.items()[ip]; got != comment {
				e.Errorf("%s is %q, was %q", ip, got, comment)
			}
		}
		e.after(70 * time.Minute) // nobody prolongs them any more
		if got := e.items()["192.0.2.2"]; !strings.HasPrefix(got, "tailban/web-1 ") {
			e.Errorf("what we want for longer is %q", got)
		}
		if _, there := e.items()["192.0.2.1"]; there {
			e.Error("what nobody wants is still there")
		}
	})
}

// TestCoveredAndLonger is that a ban of ours that others cover, too, can be made longer.
func TestCoveredAndLonger(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", time.Hour)
		e.after(time.Minute)
		e.by("by hand", "192.0.2.0/24", 0)
		e.after(11 * time.Minute)
		e.ban("192.0.2.1/32", 20*time.Hour)
		e.ban("192.0.2.1/32", 20*time.Hour)
		e.after(time.Minute)
		if s := e.reconciler.Stats(); s.Failing || s.Misheld+s.DriftAdded+s.DriftCorrected > 0 {
			e.Errorf("stats are %+v", s)
		}
		e.after(12 * time.Minute)
		if s := e.reconciler.Stats(); s.Failing || s.Misheld+s.DriftAdded+s.DriftCorrected > 0 {
			e.Errorf("stats are %+v", s)
		}
		e.server.RemoveItems(listName, "192.0.2.0/24")
		e.after(2 * time.Hour)
		e.holds("192.0.2.1")
	})
}

// TestTakenOverInTime is that our ban goes on as soon as another host's of the same
// target is over.
func TestTakenOverInTime(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.by("web-2", "192.0.2.1", 14*time.Minute)
		e.after(11 * time.Minute)
		e.ban("192.0.2.1/32", time.Hour)
		e.after(3*time.Minute + 30*time.Second)
		if got := e.items()["192.0.2.1"]; !strings.HasPrefix(got, "tailban/web-1 ") {
			e.Errorf("the item is %q", got)
		}
	})
}

// TestProtectedMeanwhile is that what must not be banned is not put in when another
// host's ban of it ends.
func TestProtectedMeanwhile(t *testing.T) {
	var protected atomic.Bool
	guard := func(o *cloudflare.Options) {
		o.Protected = func(netip.Prefix) (string, bool) { return "allowed", protected.Load() }
	}
	atEdge(t, fake.Options{}, guard, func(e *edge) {
		e.by("web-2", "192.0.2.1", 14*time.Minute)
		e.after(11 * time.Minute)
		e.ban("192.0.2.1/32", time.Hour)
		e.after(time.Minute)
		protected.Store(true)
		e.after(4 * time.Minute)
		if got := e.items()["192.0.2.1"]; strings.HasPrefix(got, "tailban/web-1 ") {
			e.Errorf("it is banned: %q", got)
		}
	})
}

// TestTakenOverMeanwhile is that our item that is over, and that another host has
// taken over since the list was read, is the other's.
func TestTakenOverMeanwhile(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", 10*time.Minute)
		e.ban("192.0.2.2/32", 10*time.Minute-10*time.Second) // the list is tidied then, and not until a minute later
		e.after(10*time.Minute + 20*time.Second)
		second := e.by("web-2", "192.0.2.1", time.Hour)
		e.reconciler.Delete(prefix("192.0.2.1/32"))
		e.after(time.Minute)
		if got := e.items()["192.0.2.1"]; got != second {
			e.Errorf("the item of another host is %q, was %q", got, second)
		}
	})
}

// TestCoveredIsForgotten is that bans that others have enforced are not kept in mind
// after their end.
func TestCoveredIsForgotten(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.by("by hand", "100.64.0.0/10", 0)
		e.after(11 * time.Minute)
		for i := range 100 {
			e.ban(address(i), 5*time.Minute)
		}
		e.after(15 * time.Minute)
		if n := e.action.Remembered(); n > 0 {
			e.Errorf("%d are kept in mind", n)
		}
		e.holds("100.64.0.0/10")
	})
}

// TestReadAgainAfterWaiting is that what came by the write that ours has waited for is
// seen although the list has as many items as before.
func TestReadAgainAfterWaiting(t *testing.T) {
	atEdge(t, fake.Options{Delay: 20 * time.Second}, nil, func(e *edge) {
		e.by("by hand", "192.0.2.9", 0)
		e.after(11 * time.Minute)
		second := &edge{T: e.T, server: e.server}
		second.start(func(o *cloudflare.Options) { o.Instance = "web-2" })
		defer second.end()
		e.after(time.Second)
		second.ban("192.0.2.1/32", time.Hour)
		e.after(time.Second) // its write is under way
		e.ban("192.0.2.1/32", 30*time.Minute)
		e.after(20 * time.Second) // it is done, and ours is tried again in some seconds
		e.server.RemoveItems(listName, "192.0.2.9")
		e.after(2 * time.Minute)
		if got := e.items()["192.0.2.1"]; !strings.HasPrefix(got, "tailban/web-2 ") {
			e.Errorf("the item is %q", got)
		}
	})
}

// TestSwappedMeanwhile is that what somebody has put in since the list was read is not
// overwritten, also if the list has as many items as before.
func TestSwappedMeanwhile(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.by("by hand", "192.0.2.9", 0)
		e.after(11 * time.Minute)
		e.server.RemoveItems(listName, "192.0.2.9")
		e.by("by hand", "192.0.2.1", 0)
		e.ban("192.0.2.1/32", 30*time.Minute)
		e.after(time.Minute)
		if got := e.items()["192.0.2.1"]; got != "by hand" {
			e.Errorf("the item is %q", got)
		}
	})
}

// TestTakenOverInTheWay is that our item that is over makes no room for another of ours
// if another host has it by now.
func TestTakenOverInTheWay(t *testing.T) {
	atEdge(t, fake.Options{Limits: fake.Limits{Items: 3}}, func(o *cloudflare.Options) { o.Capacity = 3 }, func(e *edge) {
		e.ban("192.0.2.1/32", 10*time.Minute)
		e.ban("192.0.2.2/32", 10*time.Minute-10*time.Second) // the list is tidied then, and not until a minute later
		e.ban("192.0.2.3/32", time.Hour)
		e.after(10*time.Minute + 10*time.Second)
		second := e.by("web-2", "192.0.2.1", time.Hour)
		e.ban("192.0.2.4/32", time.Hour)
		e.ban("192.0.2.5/32", time.Hour)
		e.after(30 * time.Second)
		if got := e.items(); got["192.0.2.1"] != second {
			e.Errorf("the list holds %v", got)
		}
	})
}
