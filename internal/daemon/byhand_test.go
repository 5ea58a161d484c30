package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

func (l *live) allow(target string, length time.Duration) (*control.AllowResult, error) {
	return l.d.Allow(context.Background(), control.Caller{UID: 7}, control.AllowRequest{Target: pfx(target), For: length.Seconds(), Reason: "load test"})
}

func (l *live) endAllow(target string) error {
	_, err := l.d.Allow(context.Background(), control.Caller{}, control.AllowRequest{Target: pfx(target), End: true})
	return err
}

// Whoever is allowed by hand is let go and not counted, after a restart too,
// until his time is up.
func TestAllowByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	s.requests("203.0.113.1", 3)
	wait(t, "the ban", func() bool { return l.firewall.holds("203.0.113.1/32") })
	got, err := l.allow("203.0.113.0/28", time.Hour)
	check(t, err)
	if got.Lifted != 1 || got.Target != pfx("203.0.113.0/28") || time.Until(got.Until) < 59*time.Minute || len(got.Notes) != 0 {
		t.Errorf("got %+v", got)
	}
	wait(t, "the end of the ban", func() bool { return !l.firewall.holds("203.0.113.1/32") })
	s.requests("203.0.113.2", 9)
	s.requests("203.0.113.20", 3)
	l.waitBanned("203.0.113.20")
	if steps := l.status().Logs[0].Steps; steps[detector.StepAllowed.String()] != 9 {
		t.Errorf("steps %v, want nine lines of who is allowed", steps)
	}
	l.stop()
	if a := s.stored().Allowances; len(a) != 1 || a[0].Target != pfx("203.0.113.0/28") || a[0].Reason != "load test" || a[0].By != "uid 7" {
		t.Errorf("stored %+v", a)
	}

	l = newLive(t, s, s.config(enforced), nil)
	if x := l.explain("203.0.113.3"); x.Conclusion != control.Allowed {
		t.Errorf("after a restart he is %s", x.Conclusion)
	}
	l.d.endAllowances(got.Until.Add(-time.Second))
	l.journal.want(t, 0, "no longer allowed: the time is up")
	l.d.endAllowances(got.Until)
	l.journal.want(t, 1, "no longer allowed: the time is up", "target", "203.0.113.0/28")
	wait(t, "who is no longer allowed to be banned", func() bool { // the engine hears of that in its own time
		s.requests("203.0.113.2", 1)
		return len(l.journal.said("banned", "client", "203.0.113.2")) == 1
	})
	l.stop()
	if a := s.stored().Allowances; len(a) != 0 {
		t.Errorf("stored after its end: %+v", a)
	}
}

func TestAllowIsEndedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	_, err := l.allow("203.0.113.1/32", time.Hour)
	check(t, err)
	refusedAs(t, l.endAllow("203.0.113.2/32"), control.CodeNotFound, "203.0.113.2 is not allowed by hand")
	refusedAs(t, l.endAllow("203.0.113.0/24"), control.CodeNotFound, "203.0.113.0/24 is not allowed by hand")
	check(t, l.endAllow("203.0.113.1/32"))
	s.requests("203.0.113.1", 3)
	l.waitBanned("203.0.113.1")
	l.stop()
	if a := s.stored().Allowances; len(a) != 0 {
		t.Errorf("stored after its end: %+v", a)
	}
}

func TestWhatMustNotBeAllowedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	for _, c := range []struct {
		target        string
		length        time.Duration
		code, message string
	}{
		{"203.0.113.1/32", 0, control.CodeBadRequest, "say for how long"},
		{"203.0.113.1/32", maxAllowance + time.Second, control.CodeBadRequest, "an allowance can't last"},
		{"203.0.113.1/32", -time.Second, control.CodeBadRequest, "an allowance can't last"},
		{"202.0.0.0/7", time.Hour, control.CodeRefused, "is much of the Internet"},
		{"::ffff:0.0.0.0/95", time.Hour, control.CodeBadRequest, "is wider than all of IPv4"},
	} {
		_, err := l.allow(c.target, c.length)
		refusedAs(t, err, c.code, c.message)
	}
	got, err := l.allow("::ffff:203.0.113.1/128", time.Hour)
	check(t, err)
	if got.Target != pfx("203.0.113.1/32") {
		t.Errorf("allowed is %s", got.Target)
	}
	l.stop()
}

// There is an end to it, but who is allowed already can be for longer.
func TestAllowancesAreCapped(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	l.d.setAllowed(func(a *allowList) {
		for i := range maxAllowances - 1 {
			a.byHand = append(a.byHand, state.Allowance{Target: pfx(fmt.Sprintf("10.0.%d.%d/32", i/256, i%256)), Until: time.Now().Add(time.Hour)})
		}
	})
	_, err := l.allow("203.0.113.1/32", time.Hour)
	check(t, err)
	_, err = l.allow("203.0.113.2/32", time.Hour)
	refusedAs(t, err, control.CodeRefused, "1000 are allowed by hand already")
	_, err = l.allow("203.0.113.1/32", 2*time.Hour)
	check(t, err)
	if _, yes := l.d.allow.allowed(netip.MustParseAddr("203.0.113.2")); yes {
		t.Error("who was refused is allowed")
	}
	l.stop()
}

// Two change who is allowed, and come to the engine the other way round.
func TestOlderListOfAllowedIsPassedOver(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	allow := func(target string) allowed {
		return r.daemon.setAllowed(func(l *allowList) {
			l.byHand = append(l.byHand, state.Allowance{Target: pfx(target), Until: r.now.Add(time.Hour)})
		})
	}
	first, second := allow("192.0.2.1/32"), allow("192.0.2.2/32")
	r.setAllow(second, r.now)
	r.setAllow(first, r.now)
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	if n := r.logs["site"].Steps[detector.StepAllowed]; n != 4 {
		t.Errorf("%d lines are of who is allowed, want 4", n)
	}
	// A reload begins with nobody, and brings its own list.
	formats, err := formatsOf(r.engine.config)
	check(t, err)
	r.use(&next{config: r.engine.config, formats: formats, rules: detector.Compile(rulesOf(r.engine.config, nil, r.guard))}, nil, r.now)
	r.setAllow(first, r.now)
	r.requests("192.0.2.2")
	if n := r.logs["site"].Steps[detector.StepAllowed]; n != 5 {
		t.Errorf("after a reload %d lines are of who is allowed, want 5", n)
	}
}

// A state file that can be opened only later brings its allowances with it;
// what was said since goes before it.
func TestAllowancesThatComeLate(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	aside := s.state + ".aside"
	st, _, err := state.Open(filepath.Join(aside, stateFile), time.Now())
	check(t, err)
	now := time.Now()
	check(t, st.Commit(state.Update{Allowances: []state.Allowance{
		{Target: pfx("203.0.113.1/32"), Since: now, Until: now.Add(time.Hour)},
		{Target: pfx("203.0.113.2/32"), Since: now, Until: now.Add(time.Hour)},
	}}))
	check(t, st.Close())
	check(t, os.WriteFile(s.state, nil, 0o600)) // where the folder should be
	l := newLive(t, s, s.config(enforced), nil)
	_, err = l.allow("203.0.113.2/32", 3*time.Hour)
	check(t, err)
	check(t, os.Remove(s.state))
	check(t, os.Rename(aside, s.state))
	wait(t, "the state file", func() bool {
		_, yes := l.d.allow.allowed(netip.MustParseAddr("203.0.113.1"))
		return yes
	})
	l.d.endAllowances(now.Add(2 * time.Hour))
	if _, yes := l.d.allow.allowed(netip.MustParseAddr("203.0.113.2")); !yes {
		t.Error("the older allowance has replaced the newer")
	}
	l.stop()
}
