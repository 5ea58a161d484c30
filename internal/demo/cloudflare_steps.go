package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
	"github.com/tailban/tailban/internal/sleep"
)

// step is a part of the play. do fails if what should be seen is not.
type step struct {
	title string
	do    func(context.Context) error
}

func (s *edgeStage) steps() []step {
	return []step{
		{"nginx, an edge before it, clients, and a double of Cloudflare's API, in network namespaces", s.showStage},
		{"tailban is started", s.showStart},
		{"All ask for a page, through the edge", s.showPages},
		{"The edge's clock is moved on, so that more than half of the lease is over", s.showHalfLife},
		{"The daemon looks at its rule again, and renews it", s.showRenewal},
		{"The monitor asks more often than the limit allows", s.showMonitor},
		{"The offender asks until it gets no page", s.showOffender},
		{"Two more join in, one of them by IPv6", s.showHelpers},
		{"Somebody asks nginx itself, and claims to be the visitor", s.showForger},
		{"The daemon is killed (kill -9)", s.showKill},
		{"The edge's clock is moved on, to shortly before the deadline", s.showLapse},
		{"tailban cloudflare sweep", s.showSweep},
	}
}

// ask has clients ask once, and fails if one of them gets something else than it
// should.
func (s *edgeStage) ask(ctx context.Context, want int, all ...*client) error {
	for _, c := range all {
		if got := c.ask(ctx); got != want {
			return fmt.Errorf("%s gets %s, and should get %s", c.addr, answer(got), answer(want))
		}
	}
	return nil
}

func answer(status int) string {
	switch status {
	case 0:
		return "no answer"
	case http.StatusOK:
		return "its page"
	}
	return fmt.Sprint(status)
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") }

func (s *edgeStage) showStage(ctx context.Context) error {
	if err := s.build(ctx); err != nil {
		return err
	}
	s.say("through the edge: visitor %s, monitor %s, offender %s; past it: forger %s", visitorIP, monitorIP, offenderIP, forgerIP)
	s.say("the zone has a rule already, by a person")
	return nil
}

func (s *edgeStage) showStart(ctx context.Context) error {
	// A daemon that knows that its rule is there looks at it again after a quarter of
	// the lease. One that doesn't looks earlier, which saves this demonstration a minute.
	s.api.FailNext(http.MethodPost, "/rulesets/", fake.GatewayTimeout)
	if err := s.run(ctx); err != nil {
		return err
	}
	var r fake.Rule
	err := waitFor(ctx, 10*time.Second, func() (ok bool) {
		r, s.deadline, ok = s.rule()
		return ok
	})
	if err != nil {
		return fmt.Errorf("there is no rule of tailban's behind that of a person; the rules are %+v", s.api.Rules(fake.ZoneID))
	}
	s.say("it has made the list %s, and behind the person's rule one that ends at %s:", listName, clockTime(s.deadline))
	s.say("  %s %s", r.Action, r.Expression)
	s.say("the answer was lost on purpose (504), so it looks again within 15 s, instead of 75 s")
	return nil
}

func (s *edgeStage) showPages(ctx context.Context) error {
	if err := s.ask(ctx, http.StatusOK, append(s.offenders(), s.visitor, s.monitor)...); err != nil {
		return err
	}
	var n int
	var last string
	err := waitFor(ctx, 2*time.Second, func() bool {
		n, last = s.lines(fmt.Sprintf("%q", visitorIP))
		return n > 0
	})
	if err != nil || !strings.HasPrefix(last, edgeIP.String()+" ") {
		return fmt.Errorf("nginx does not log the visitor behind %s: %s", edgeIP, last)
	}
	s.say("all get it; nginx sees the edge, and by its header the client:")
	s.say("  %s", last)
	return nil
}

func (s *edgeStage) showHalfLife(context.Context) error {
	const by = lease/2 + 10*time.Second
	s.clock.moveOn(by)
	s.say("by %s; the rule has %s left", by, s.deadline.Sub(s.clock.now()).Round(time.Second))
	return nil
}

func (s *edgeStage) showMonitor(ctx context.Context) error {
	const times = limit + 10
	for range times {
		if err := s.ask(ctx, http.StatusOK, s.monitor); err != nil {
			return err
		}
	}
	s.say("it gets %d pages: it is a wanted machine, by its agent and its address", times)
	return nil
}

// flood has a client ask until the edge keeps it away. It returns how many pages it
// got.
func (s *edgeStage) flood(ctx context.Context, c *client) (pages int, err error) {
	const pause, most = 20 * time.Millisecond, 20 * time.Second
	for begin := time.Now(); time.Since(begin) < most; {
		switch status := c.ask(ctx); status {
		case http.StatusOK:
			pages++
		case http.StatusForbidden:
			return pages, nil
		default:
			return pages, fmt.Errorf("%s gets %s", c.addr, answer(status))
		}
		if !sleep.For(ctx, pause) {
			return pages, ctx.Err()
		}
	}
	return pages, fmt.Errorf("%s is not kept away at the edge within %s, and gets %d pages", c.addr, most, pages)
}

func (s *edgeStage) showOffender(ctx context.Context) error {
	pages, err := s.flood(ctx, s.offender)
	if err != nil {
		return err
	}
	b, ok := s.daemon.banned()
	if !ok || !strings.HasPrefix(b.Target, offenderIP.String()) {
		return fmt.Errorf("tailban's first ban is %+v, not that of %s", b, offenderIP)
	}
	it, _, ok := s.listed(offenderIP)
	if !ok {
		return fmt.Errorf("the offender gets 403, but is not in the list: %+v", s.api.Items(listName))
	}
	s.say("tailban banned it at its request %d (the limit is %d in 60 s)", b.Count, limit)
	s.say("after %d pages it gets 403 from the edge; the list has", pages)
	s.say("  %s  %s", it.IP, it.Comment)
	return s.ask(ctx, http.StatusOK, s.visitor, s.monitor)
}

func (s *edgeStage) showHelpers(ctx context.Context) error {
	errs := make([]error, len(s.helpers))
	var wg sync.WaitGroup
	for i, c := range s.helpers {
		wg.Go(func() { _, errs[i] = s.flood(ctx, c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("both get 403; the list has")
	for _, c := range s.helpers {
		it, _, ok := s.listed(c.addr)
		if !ok {
			return fmt.Errorf("%s is not in the list", c.addr)
		}
		s.say("  %s  %s", it.IP, it.Comment)
	}
	return s.ask(ctx, http.StatusOK, s.visitor, s.monitor)
}

func (s *edgeStage) showForger(ctx context.Context) error {
	pages := 0
	for held := false; !held; {
		for s.forger.get(ctx) {
			if pages++; pages > 10*limit {
				return fmt.Errorf("the forger gets %d pages, and the limit is %d", pages, limit)
			}
		}
		var err error // an answer may be late without a ban
		if held, err = s.inKernel(ctx, forgerIP); err != nil {
			return err
		}
	}
	if _, _, listed := s.listed(visitorIP); listed {
		return errors.New("the visitor is in the list: the forger was believed")
	}
	if err := s.ask(ctx, http.StatusOK, s.visitor, s.monitor); err != nil {
		return err
	}
	s.say("after %d pages the kernel drops it: its header is not believed, as it is no proxy's", pages)
	s.say("the visitor gets its page, and is not in the list")
	return nil
}

// inKernel says whether the kernel keeps somebody away.
func (s *edgeStage) inKernel(ctx context.Context, a netip.Addr) (bool, error) {
	entries, err := s.firewall.List(ctx)
	for _, e := range entries {
		if e.Target.Contains(a) {
			return true, nil
		}
	}
	return false, err
}

// misjudged is by how much the daemon may misjudge the edge's clock, of which it is
// told no parts of a second.
const misjudged = 2 * time.Second

func (s *edgeStage) showRenewal(ctx context.Context) error {
	was := s.deadline
	err := waitFor(ctx, 30*time.Second, func() bool {
		_, at, ok := s.rule()
		if ok {
			s.deadline = at
		}
		return ok && at.After(was)
	})
	if err != nil {
		return fmt.Errorf("the rule still ends at %s", clockTime(was))
	}
	if left := s.deadline.Sub(s.clock.now()); left > lease+misjudged {
		return fmt.Errorf("the rule works for %s, which is more than the lease", left)
	}
	s.say("it ended at %s, and ends at %s now, by the edge's clock", clockTime(was), clockTime(s.deadline))
	s.say("the person's rule is as it was, and first")
	return nil
}

func (s *edgeStage) offenders() []*client {
	return append(s.helpers[:len(s.helpers):len(s.helpers)], s.offender)
}

func (s *edgeStage) showKill(ctx context.Context) error {
	s.daemon.stop(syscall.SIGKILL)
	if err := s.ask(ctx, http.StatusForbidden, s.offenders()...); err != nil {
		return err
	}
	if err := s.ask(ctx, http.StatusOK, s.visitor, s.monitor); err != nil {
		return err
	}
	s.say("the three are kept away as before; visitor and monitor get their pages")
	return nil
}

func (s *edgeStage) showLapse(ctx context.Context) error {
	const before = 3 * time.Second
	s.clock.moveOn(s.deadline.Sub(s.clock.now()) - before)
	if err := s.ask(ctx, http.StatusForbidden, s.offender); err != nil {
		return err
	}
	s.say("%s before it the offender still gets 403", before)
	if err := waitFor(ctx, 2*before, func() bool { return s.offender.get(ctx) }); err != nil {
		return errors.New("the rule does not lapse: the offender gets no page after the deadline")
	}
	if now := s.clock.now(); now.Before(s.deadline) {
		return fmt.Errorf("the offender gets its page before the deadline, at %s", clockTime(now))
	}
	if err := s.ask(ctx, http.StatusOK, s.offenders()...); err != nil {
		return err
	}
	it, until, ok := s.listed(offenderIP)
	if !ok || !until.After(s.clock.now()) {
		return fmt.Errorf("its item should still be in the list, and its ban not be over: %+v", it)
	}
	s.say("at the deadline it gets its page again, although it is still in the list:")
	s.say("  %s  %s", it.IP, it.Comment)
	return nil
}

func (s *edgeStage) showSweep(ctx context.Context) error {
	if err := s.api.AddForeignItems(listName, fake.Item{IP: "198.51.100.77", Comment: foreignRule}); err != nil {
		return err
	}
	if err := s.sweep(ctx, "0 bans "); err != nil {
		return err
	}
	var last time.Time
	for _, c := range s.offenders() {
		if _, until, _ := s.listed(c.addr); until.After(last) {
			last = until
		}
	}
	s.clock.moveOn(last.Sub(s.clock.now()) + misjudged)
	s.say("nothing is over yet; the clock is moved on to behind %s, when the bans are", clockTime(last))
	if err := s.sweep(ctx, "3 bans "); err != nil {
		return err
	}
	items := s.api.Items(listName)
	if len(items) != 1 || items[0].Comment != foreignRule {
		return fmt.Errorf("the list should hold what a person has put in, and nothing else: %+v", items)
	}
	s.say("the list has only what a person has put in meanwhile")
	return nil
}
