//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailban/tailban/actions"
)

// stepwise is an action that changes one set after the other, addresses before
// networks, removals before additions, as nftables does, with a look in between;
// and that may fail there.
type stepwise struct {
	mu   sync.Mutex
	held map[netip.Prefix]heldAs
	look func()      // called while the lock is held
	fail func() bool // whether to fail now
}

type heldAs struct {
	until time.Time
	least int
}

func (s *stepwise) Prepare(context.Context) error { return nil }
func (s *stepwise) Close() error                  { return nil }

func (s *stepwise) Apply(_ context.Context, add []actions.Entry, remove []netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, networks := range []bool{false, true} {
		for _, t := range remove {
			if isNetwork(t) == networks {
				delete(s.held, t)
			}
		}
		if !networks { // networks are changed at once
			s.look()
			if s.fail() {
				return errors.New("broken")
			}
		}
		for _, e := range add {
			if isNetwork(e.Target) == networks {
				s.held[e.Target] = heldAs{time.Now().Add(e.Left), e.Merged}
			}
		}
		s.look()
		if s.fail() {
			return errors.New("broken")
		}
	}
	return nil
}

func (s *stepwise) List(context.Context) (entries []actions.Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, h := range s.held {
		if left := time.Until(h.until); left > 0 {
			entries = append(entries, actions.Entry{Target: t, Left: left, Merged: h.least})
		}
	}
	return entries, nil
}

func isNetwork(p netip.Prefix) bool { return !p.IsSingleIP() && p.Bits() != 64 }

// mergeModel is what should be, worked out anew each time.
type mergeModel struct {
	least  int
	bans   map[netip.Prefix]time.Time // members and networks
	spared map[netip.Prefix]bool      // lifted: must not be hit while anybody beside them is banned

	// failed is whether an Apply has: what is found then may be off by as much
	// as the reconciler bears with.
	failed bool
}

// slack is by how much an end may be off: it was borne with when it was looked at last,
// with as much more left.
func (m *mergeModel) slack(left time.Duration) time.Duration {
	if !m.failed {
		return 0
	}
	return max(2*time.Second, (left+actions.DefaultInterval)/100)
}

// isMember reports whether a target is one of those that networks are made of.
func isMember(p netip.Prefix) bool {
	return p.Addr().Is4() && p.Bits() == 32 || p.Addr().Is6() && p.Bits() == 64
}

func around(p netip.Prefix) netip.Prefix {
	if p.Addr().Is6() {
		return netip.PrefixFrom(p.Addr(), 48).Masked()
	}
	return netip.PrefixFrom(p.Addr(), 24).Masked()
}

// banned reports whether what is held bans a target at a time from now on if
// nobody changes it.
func banned(held map[netip.Prefix]heldAs, target netip.Prefix, at time.Time) bool {
	for p, h := range held {
		if p.Overlaps(target) && h.until.After(at) {
			return true
		}
	}
	return false
}

// members counts those of a network that are banned at a time.
func (m *mergeModel) members(network netip.Prefix, at time.Time) (n int) {
	for p, until := range m.bans {
		if isMember(p) && network.Overlaps(p) && until.After(at) {
			n++
		}
	}
	return n
}

// wrong says what is not as it should be in what is held, now and at any time
// from now on with nobody there to change it.
func (m *mergeModel) wrong(held map[netip.Prefix]heldAs) string {
	now := time.Now()
	for p, until := range m.bans {
		if until.After(now) && !banned(held, p, until.Add(-time.Nanosecond-m.slack(until.Sub(now)))) {
			return fmt.Sprintf("%s is not banned to its end", p)
		}
	}
	for p, h := range held {
		switch until, wanted := m.bans[p]; {
		case !h.until.After(now):
		case h.least == 0 && !wanted && h.until.Sub(now) > m.slack(0):
			return fmt.Sprintf("%s is banned for %v", p, h.until.Sub(now))
		case h.least == 0 && wanted && until.Sub(h.until).Abs() > m.slack(until.Sub(now)):
			return fmt.Sprintf("%s is banned for %v, wanted: %v", p, h.until.Sub(now), until.Sub(now))
		case h.least != 0 && (h.least != m.least || m.members(p, h.until.Add(-time.Nanosecond-m.slack(h.until.Sub(now)))) < m.least):
			return fmt.Sprintf("%s is banned as one for too few", p)
		case h.least != 0:
			for other, until := range m.bans {
				if isNetwork(other) && other.Overlaps(p) && until.After(now) {
					return fmt.Sprintf("%s is banned as one beside %s", p, other)
				}
			}
			for s := range m.spared {
				if p.Overlaps(s) {
					return fmt.Sprintf("%s is banned as one although %s was let go", p, s)
				}
			}
		}
	}
	return ""
}

// idle says which network is not merged although it could be.
func (m *mergeModel) idle(held map[netip.Prefix]heldAs) string {
	now := time.Now()
	for p, until := range m.bans {
		// What is held may end as much sooner as wrong lets it.
		if !isMember(p) || !until.After(now) || m.members(around(p), now.Add(m.slack(0))) < m.least {
			continue
		}
		n, free := around(p), true
		for s := range m.spared {
			free = free && !n.Overlaps(s)
		}
		for other, until := range m.bans {
			free = free && !(isNetwork(other) && other.Overlaps(n) && until.After(now))
		}
		if h := held[n]; free && !(h.least > 0 && h.until.After(now)) {
			return fmt.Sprintf("%s is not banned as one", n)
		}
	}
	return ""
}

// forget drops what is over, and who is no longer spared since all beside him
// are free.
func (m *mergeModel) forget() {
	now := time.Now()
	for p, until := range m.bans {
		if !until.After(now) {
			delete(m.bans, p)
		}
	}
	for s := range m.spared {
		if m.members(around(s), now) == 0 {
			delete(m.spared, s)
		}
	}
}

// step is one of the random changes.
type mergeStep struct {
	target netip.Prefix
	left   time.Duration // 0: lifted
	pause  time.Duration
	quick  bool // the next comes at once
	fail   int  // after so many parts of an Apply it fails; 0: it doesn't
}

func drawMergeSteps(t *rapid.T) (steps []mergeStep) {
	targets := []netip.Prefix{pfx("10.0.0.16/28"), pfx("10.0.0.0/23"), pfx("2001:db8::/47"), pfx("10.0.1.0/24"), pfx("2001:db8:1:1::7/128")}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		s := mergeStep{
			pause: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7, 20, 60}).Draw(t, "pause")) * time.Minute,
			quick: rapid.Bool().Draw(t, "quick"),
		}
		switch n := rapid.IntRange(0, 29).Draw(t, "target"); {
		case n == 0:
			s.target = rapid.SampledFrom(targets).Draw(t, "network")
		case n < 10:
			s.target = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, byte(n)}), 64)
		default:
			s.target = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n % 2), byte(n)}), 32)
		}
		if rapid.IntRange(0, 9).Draw(t, "lift") > 0 {
			s.left = time.Duration(rapid.IntRange(1, 12).Draw(t, "left"))*10*time.Minute + time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds"))*time.Second
		}
		if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			s.fail = rapid.IntRange(1, 3).Draw(t, "after")
		}
		steps = append(steps, s)
	}
	return steps
}

// Whatever comes and goes, and wherever it stops for good: everybody is banned who
// should be, to the end of their ban and not for a moment longer, nobody is hit
// but members and those beside them, and no network is banned as one for fewer
// members than that takes.
func TestMergeAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		least := rapid.IntRange(2, 5).Draw(rt, "least")
		steps := drawMergeSteps(rt)
		var wrong []string // told to rapid, which looks for the least that is
		synctest.Test(t, func(*testing.T) { wrong = mergeAtAnyMoment(least, steps) })
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "\n"))
		}
	})
}

func mergeAtAnyMoment(least int, steps []mergeStep) (wrong []string) {
	model := &mergeModel{least: least, bans: map[netip.Prefix]time.Time{}, spared: map[netip.Prefix]bool{}}
	settled := map[netip.Prefix]time.Time{} // who has been banned for a while
	fail := 0
	a := &stepwise{held: map[netip.Prefix]heldAs{}}
	a.fail = func() bool { fail--; return fail == 0 }
	a.look = func() {
		for p, until := range settled {
			left := time.Until(until)
			if left -= model.slack(left) + 1; left > 0 && !banned(a.held, p, time.Now().Add(left)) {
				wrong = append(wrong, fmt.Sprintf("%s would not be banned to its end if all stopped here", p))
			}
		}
	}
	r := actions.NewReconciler(actions.Options{Name: "test", Action: a})
	m := actions.NewMerger(actions.MergeOptions{Least: least, Enforcer: r})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	for i, s := range steps {
		model.forget()
		a.mu.Lock()
		fail = s.fail
		model.failed = model.failed || s.fail > 0
		delete(settled, s.target)
		a.mu.Unlock()
		if s.left == 0 {
			if _, ok := model.bans[s.target]; ok && isMember(s.target) {
				model.spared[s.target] = true
			}
			delete(model.bans, s.target)
			m.Delete(s.target)
		} else {
			model.bans[s.target] = time.Now().Add(s.left)
			m.Set(s.target, model.bans[s.target])
		}
		if s.quick {
			continue
		}
		synctest.Wait()
		time.Sleep(s.pause)
		synctest.Wait()
		a.mu.Lock()
		fail = 0
		a.mu.Unlock()
		if r.Stats().Failing {
			time.Sleep(3 * time.Minute)
		}
		m.Recheck()
		synctest.Wait()
		model.forget()
		a.mu.Lock()
		if what := model.wrong(a.held) + model.idle(a.held); what != "" {
			wrong = append(wrong, fmt.Sprintf("after step %d of %d: %s\n%v\n%v", i, len(steps), what, a.held, model))
		}
		clear(settled)
		for p, until := range model.bans {
			settled[p] = until
		}
		failed := len(wrong) > 0
		a.mu.Unlock()
		if failed {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}
