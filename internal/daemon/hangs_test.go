package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// hanging is an action that answers nothing, from its first change of bans on
// until it is released. It doesn't even listen to its context.
type hanging struct {
	fakeFirewall
	begun    atomic.Bool
	released chan struct{}
}

func (h *hanging) Apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error {
	h.begun.Store(true)
	<-h.released
	return h.fakeFirewall.Apply(ctx, add, remove)
}

func (h *hanging) Held(ctx context.Context, target netip.Prefix) (actions.Entry, bool, error) {
	<-h.released
	return h.fakeFirewall.Held(ctx, target)
}

// One action hangs, and the kernel's goes on: bans reach it, lines are counted,
// and whoever asks is told which one it is, and doesn't wait for it.
func TestHangingActionStopsNoOther(t *testing.T) {
	t.Parallel()
	k := newKernelLab(t)
	firewall := actions.NewNftables(actions.NftablesOptions{NetNS: k.ns.FD()})
	slow := &hanging{fakeFirewall: fakeFirewall{bans: map[netip.Prefix]time.Time{}}, released: make(chan struct{})}
	l := newLiveWith(t, k.siteFiles, k.config(strings.Replace(enforced, "limit = 2", "limit = 0", 1)+"[actions.slow]\ntype = \"log\"\n"),
		map[string]actions.Action{"firewall": firewall, "slow": slow}, nil)
	events, err := l.client.Follow(t.Context())
	check(t, err)

	k.requests("203.0.113.1", 1)
	k.waitHeld("203.0.113.1")
	wait(t, "the other to hang", slow.begun.Load)
	for i := 2; i < 8; i++ { // while it does
		client := fmt.Sprintf("203.0.113.%d", i)
		began := time.Now()
		k.requests(client, 1)
		k.waitHeld(client)
		t.Logf("%s in the kernel after %v", client, time.Since(began))
	}

	action := func(name string) control.ActionStatus {
		s := l.status()
		return s.Actions[slices.IndexFunc(s.Actions, func(a control.ActionStatus) bool { return a.Name == name })]
	}
	const why = "no answer from action slow within 2s: does it hang?"
	wait(t, "the status to say it", func() bool { a := action("slow"); return a.Failing && a.Err == why })
	if action("firewall").Failing {
		t.Error("the other is said to fail as well")
	}
	if s := l.status(); s.Healthy || s.Problems[0].Kind != "failing" || s.Problems[0].Where != "action slow" || s.Bans != 7 {
		t.Errorf("the status: %d bans, %+v", s.Bans, s.Problems)
	}
	if !slices.ContainsFunc(takeEvents(t, events, "alarm"), func(e control.Event) bool { return strings.Contains(e.Reason, why) }) {
		t.Error("nobody is alarmed")
	}
	began := time.Now()
	x := l.explain("203.0.113.1")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("an explanation took %v", took)
	}
	for _, at := range x.Bans[0].Actions {
		switch at.Action {
		case "firewall":
			if at.Held == nil || !*at.Held {
				t.Errorf("explained: %+v, want it held", at)
			}
		case "slow":
			if at.Held != nil || at.Err != "no answer within 2s: does it hang?" {
				t.Errorf("explained: %+v, want no answer", at)
			}
		}
	}

	close(slow.released)
	wait(t, "it to work again", func() bool { return !action("slow").Failing && slow.holds("203.0.113.7/32") })
	l.stop()
	if n := len(l.journal.said("bans are not enforced, trying again until they are")); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// takeEvents waits for an event of a kind, and returns all of that kind that
// have come.
func takeEvents(t testing.TB, events <-chan control.Event, kind string) (found []control.Event) {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.Kind == kind {
				found = append(found, e)
			}
			continue
		case <-end:
			t.Fatalf("no event of kind %s", kind)
		default:
		}
		if len(found) > 0 {
			return found
		}
		select {
		case e := <-events:
			if e.Kind == kind {
				found = append(found, e)
			}
		case <-end:
			t.Fatalf("no event of kind %s", kind)
		}
	}
}
