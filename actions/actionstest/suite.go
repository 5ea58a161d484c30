// Package actionstest holds the one suite that every action passes.
package actionstest

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

const (
	hour = time.Hour
	// slack is what a listing may differ from the time set: tests share
	// their machine.
	slack = 30 * time.Second
	// patience is how long to wait for what must happen.
	patience = 30 * time.Second
	// large is the size of the one large batch, few what it has at most in short:
	// the race detector sees no more in many.
	large = 12000
	few   = 20
)

// Run tests an action against the contract of [actions.Action]. newAction
// returns one that holds nothing, whenever it is called; Run prepares and
// closes it. It may skip the test.
func Run(t *testing.T, newAction func(t *testing.T) actions.Action) {
	RunSized(t, large, newAction)
}

// RunSized is Run with another size of the large batch, for an action whose
// bans are dear.
func RunSized(t *testing.T, size int, newAction func(t *testing.T) actions.Action) {
	RunWith(t, Suite{Large: size}, newAction)
}

// Suite is what an action may need otherwise than most.
type Suite struct {
	Large   int          // size of the large batch; 0: that of Run
	Network netip.Prefix // an IPv6 network that it can ban; the zero value: a /62
}

// RunWith is Run for an action that can't ban networks of any length.
func RunWith(t *testing.T, s Suite, newAction func(t *testing.T) actions.Action) {
	if s.Large == 0 {
		s.Large = large
	}
	if testing.Short() {
		s.Large = min(s.Large, few)
	}
	if !s.Network.IsValid() {
		s.Network = netip.MustParsePrefix("2001:db8:0:4::/62")
	}
	tests := []struct {
		name string
		f    func(*harness)
	}{
		{"holds nothing at first", func(h *harness) { h.holds(nil) }},
		{"add", add},
		{"add is idempotent", addTwice},
		{"time is extended and shortened", changeTime},
		{"no time left adds nothing", noTimeLeft},
		{"remove", remove},
		{"remove what is absent", removeAbsent},
		{"remove and add at once", removeAndAdd},
		{"a ban ends by itself", expire},
		{"remove what has just ended", removeExpired},
		{"large batch", largeBatch},
		{"prepare again keeps bans", prepareTwice},
		{"close keeps bans, prepare opens again", reopen},
		{"a cancelled context", cancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &harness{T: t, action: newAction(t), large: s.Large, network: s.Network}
			t.Cleanup(func() {
				if err := h.action.Close(); err != nil {
					t.Error("Close: ", err)
				}
			})
			h.prepare()
			tt.f(h)
		})
	}
}

// harness is an action with helpers that fail the test.
type harness struct {
	*testing.T
	action  actions.Action
	large   int
	network netip.Prefix
}

func (h *harness) prepare() {
	h.Helper()
	if err := h.action.Prepare(h.Context()); err != nil {
		h.Fatal("Prepare: ", err)
	}
}

func (h *harness) apply(add []actions.Entry, remove []netip.Prefix) {
	h.Helper()
	if err := h.action.Apply(h.Context(), add, remove); err != nil {
		h.Fatal("Apply: ", err)
	}
}

// list returns the time left by target and fails on a target listed twice.
func (h *harness) list() map[netip.Prefix]time.Duration {
	h.Helper()
	entries, err := h.action.List(h.Context())
	if err != nil {
		h.Fatal("List: ", err)
	}
	got := map[netip.Prefix]time.Duration{}
	for _, e := range entries {
		if _, twice := got[e.Target]; twice {
			h.Errorf("%s is listed twice", e.Target)
		}
		got[e.Target] = e.Left
	}
	return got
}

// holds fails unless the action holds exactly these, with these times left, or
// the longest that it can hold.
func (h *harness) holds(want []actions.Entry) {
	h.Helper()
	got := h.list()
	if len(got) != len(want) {
		h.Errorf("the action holds %d bans, want %d", len(got), len(want))
	}
	for _, e := range want {
		if l, yes := h.action.(actions.Limited); yes {
			e.Left = min(e.Left, l.Longest())
		}
		left, ok := got[e.Target]
		switch {
		case !ok:
			h.Fatalf("the action does not hold %s", e.Target)
		case left > e.Left || left < e.Left-slack:
			h.Fatalf("%s has %v left, want %v or little less", e.Target, left, e.Left)
		}
	}
}

// kinds has one target of each kind that bans have.
func (h *harness) kinds(left time.Duration) []actions.Entry {
	return []actions.Entry{
		{Target: netip.MustParsePrefix("192.0.2.1/32"), Left: left},
		{Target: netip.MustParsePrefix("2001:db8:0:1::/64"), Left: left},
		{Target: netip.MustParsePrefix("2001:db8:0:2::3/128"), Left: left},
		{Target: netip.MustParsePrefix("203.0.113.0/24"), Left: left},
		{Target: h.network, Left: left},
	}
}

func targets(entries []actions.Entry) []netip.Prefix {
	ps := make([]netip.Prefix, len(entries))
	for i, e := range entries {
		ps[i] = e.Target
	}
	return ps
}

func add(h *harness) {
	h.apply(h.kinds(hour), nil)
	h.holds(h.kinds(hour))
}

func addTwice(h *harness) {
	h.apply(h.kinds(hour), nil)
	h.apply(h.kinds(hour), nil)
	h.holds(h.kinds(hour))
}

func changeTime(h *harness) {
	for _, left := range []time.Duration{hour, 48 * hour, 10 * time.Minute, 400 * 24 * hour} {
		h.apply(h.kinds(left), nil)
		h.holds(h.kinds(left))
	}
}

func noTimeLeft(h *harness) {
	h.apply(append(h.kinds(0)[:2], h.kinds(-time.Second)[2:]...), nil)
	h.holds(nil)
}

func remove(h *harness) {
	h.apply(h.kinds(hour), nil)
	h.apply(nil, targets(h.kinds(0))[1:])
	h.holds(h.kinds(hour)[:1])
}

func removeAbsent(h *harness) {
	h.apply(h.kinds(hour)[:1], nil)
	h.apply(nil, targets(h.kinds(0)))
	h.apply(nil, targets(h.kinds(0)))
	h.holds(nil)
}

func removeAndAdd(h *harness) {
	h.apply(h.kinds(hour)[:1], nil)
	h.apply(h.kinds(hour)[1:], targets(h.kinds(0))[:1])
	h.holds(h.kinds(hour)[1:])
}

// until polls a condition.
func (h *harness) until(what string, ok func() bool) {
	h.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			h.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func expire(h *harness) {
	long := []actions.Entry{{Target: netip.MustParsePrefix("198.51.100.1/32"), Left: hour}}
	h.apply(append(h.kinds(time.Second), long...), nil)
	h.until("the short bans end", func() bool { return len(h.list()) == 1 })
	h.holds(long)
}

func removeExpired(h *harness) {
	h.apply(h.kinds(time.Microsecond), nil) // less than a clock may tell, and not "for good"
	h.until("the bans end", func() bool { return len(h.list()) == 0 })
	h.apply(nil, targets(h.kinds(0)))
	h.apply(h.kinds(hour), nil)
	h.holds(h.kinds(hour))
}

// mixed returns n different targets of all kinds.
func mixed(n int, left time.Duration) []actions.Entry {
	entries := make([]actions.Entry, n)
	for i := range entries {
		var text string
		switch i % 3 {
		case 0:
			text = fmt.Sprintf("10.%d.%d.%d/32", i>>16&255, i>>8&255, i&255)
		case 1:
			text = fmt.Sprintf("2001:db8:1:%x::/64", i)
		case 2:
			text = fmt.Sprintf("2001:db8:2::%x/128", i)
		}
		entries[i] = actions.Entry{Target: netip.MustParsePrefix(text), Left: left}
	}
	return entries
}

func largeBatch(h *harness) {
	all, half := mixed(h.large, hour), h.large/2
	h.apply(all, nil)
	h.holds(all)
	for i := range all {
		all[i].Left = 3 * hour
	}
	// One that is absent among those to be removed must not keep the others.
	gone := append(targets(all[:half]), netip.MustParsePrefix("203.0.113.9/32"))
	h.apply(all[half:], gone)
	h.holds(all[half:])
}

func prepareTwice(h *harness) {
	h.apply(h.kinds(hour), nil)
	h.prepare()
	h.prepare()
	h.holds(h.kinds(hour))
}

func reopen(h *harness) {
	h.apply(h.kinds(hour), nil)
	for range 2 {
		if err := h.action.Close(); err != nil {
			h.Fatal("Close: ", err)
		}
	}
	h.prepare()
	h.holds(h.kinds(hour))
	h.apply(nil, targets(h.kinds(0)))
	h.holds(nil)
}

func cancelled(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if err := h.action.Prepare(ctx); err == nil {
		h.Error("Prepare with a cancelled context returned nil")
	}
	if err := h.action.Apply(ctx, h.kinds(hour), nil); err == nil {
		h.Error("Apply with a cancelled context returned nil")
	}
	h.prepare()
	h.apply(h.kinds(hour), nil)
	h.holds(h.kinds(hour))
}
