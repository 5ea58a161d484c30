package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/state"
)

// withAndWithoutKill runs a test in which nobody is killed, and one in which
// somebody is: both must come to the same.
func withAndWithoutKill(t *testing.T, config string, test func(t *testing.T, r *recalled, kill func(config string))) {
	for _, kills := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", kills), func(t *testing.T) {
			r := newRecalled(t, config)
			test(t, r, func(config string) {
				if kills {
					r.now = r.now.Round(0) // a process of its own
					r.kill(config)
				}
			})
		})
	}
}

// A decision that the guard refused has used up its events.
func TestRefusedDecisionIsRecalled(t *testing.T) {
	config := jailed("3", `"1h"`)
	withAndWithoutKill(t, config, func(t *testing.T, r *recalled, kill func(string)) {
		r.guard.UpdateSessions([]guard.Entry{{Prefix: pfx(one + "/32"), Reason: "logged in"}})
		r.send(0, r.line(one, 1), r.line(one, 1), r.line(one, 1), r.line(one, 1))
		r.journal.want(t, 1, "not banned: protected")
		r.guard.UpdateSessions(nil)
		kill(config)
		r.send(0, r.line(one, 6), r.line(one, 6), r.line(one, 6))
		r.journal.want(t, 0, "banned")
		r.send(0, r.line(one, 6))
		r.journal.want(t, 1, "banned", "client", one)
	})
}

// A jail that a reload had begin at zero has not counted what came before.
func TestReloadIsRecalled(t *testing.T) {
	was := jailed("3", `"1h"`)
	becomes := strings.Replace(was, "[jails.web]\n", "[jails.web]\nwhere = { method = \"GET\" }\n", 1)
	withAndWithoutKill(t, was, func(t *testing.T, r *recalled, kill func(string)) {
		r.send(0, r.line(one, 1), r.line(one, 1), r.line(one, 1))
		n, err := r.daemon.plan(t.Context(), r.daemon.config, parse(t, becomes))
		check(t, err)
		r.use(n, nil, r.now)
		for _, l := range r.daemon.locks {
			check(t, l.Close())
		}
		r.enforcing["firewall"], r.reconciler["firewall"] = true, r.action["firewall"]
		if !r.snapshots.next.Equal(r.snapshots.soonest) {
			t.Error("no snapshot is due")
		}
		kill(becomes)
		r.send(0, r.line(one, 6), r.line(one, 6), r.line(one, 6))
		r.journal.want(t, 0, "banned")
		r.send(0, r.line(one, 6))
		r.journal.want(t, 1, "banned", "client", one)
	})
}

// Bans that the clock has moved are known where they are.
func TestSetClockIsRecalled(t *testing.T) {
	config := jailed("3", `"20s"`)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		withAndWithoutKill(t, config, func(t *testing.T, r *recalled, kill func(string)) {
			begun := time.Now()
			r.start, r.now = begun.Truncate(time.Second), begun
			r.lookAtClock(begun)
			r.send(0, r.line(one, 0), r.line(one, 0), r.line(one, 0), r.line(one, 0))
			off := int(by / time.Second)
			at := func(n int) time.Time { return clockSetTo(t, begun.Add(time.Duration(n)*time.Second), by) }
			r.now = at(1)
			r.lookAtClock(r.now)
			r.now = at(5)
			r.send(0, r.line(one, off+5), r.line(one, off+5)) // it is banned still
			r.now = at(21)
			r.expire(r.now)
			r.send(0, r.line(one, off+22), r.line(one, off+22))
			kill(config)
			r.now = r.now.Add(3 * time.Second)
			before := len(r.journal.said("banned"))
			r.send(0, r.line(one, off+24))
			r.journal.want(t, before, "banned")
			r.send(0, r.line(one, off+24))
			r.journal.want(t, before+1, "banned")
		})
	}
}

// A start drops a ban whose target is protected by then: what follows counts,
// also when it is read again.
func TestBanDroppedAtTheStartIsRecalled(t *testing.T) {
	c := jailed("3", `"1h"`)
	allowing := "allow = [\"192.0.2.200\"]\n" + c
	for _, kills := range []int{1, 2} {
		r := newRecalled(t, c)
		_, err := r.ban(order{target: pfx("192.0.2.0/24"), length: time.Hour}, r.now)
		check(t, err)
		r.windows = r.count(r.now).windows()
		for i := range r.sent {
			r.sent[i] = nil
		}
		r.kill(allowing)
		r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
		for range kills - 1 {
			r.kill(allowing)
		}
		r.send(0, r.line(one, 6))
		r.journal.want(t, 1, "banned", "client", one)
	}
}

// Somebody is allowed while lines are read again: the ban of his network ends,
// and yet what it had kept from counting does not count.
func TestAllowedWhileReadingAgain(t *testing.T) {
	c := jailed("3", `"1h"`)
	r := newRecalled(t, c)
	_, err := r.ban(order{target: pfx("192.0.2.0/24"), length: time.Hour}, r.now)
	check(t, err)
	r.windows = r.count(r.now).windows()
	r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
	for _, u := range r.took() {
		r.disk.commit(u)
	}
	next := newRig(t, start{config: c, actions: []string{"firewall"}, loaded: r.disk.loaded(), windows: r.windows})
	next.now, r.rig = r.now, next
	next.take(r.cut(0, r.at[0], nil), r.now)
	list := next.daemon.setAllowed(func(l *allowList) { l.config = append(l.config, pfx("192.0.2.200/32")) })
	next.guard.UpdateConfigured([]guard.Entry{{Prefix: pfx("192.0.2.200/32"), Reason: "allowed"}})
	next.setAllow(list, r.now)
	next.take(r.cut(0, r.at[0], r.sent[0]), r.now)
	if len(next.bans.bans) != 0 {
		t.Error("the ban is there still")
	}
	r.send(0, r.line(one, 6))
	r.journal.want(t, 0, "banned", "client", one)
}

// A proxy that was not banned is not banned after a start, at its first line.
func TestMisreadProxyGoesOn(t *testing.T) {
	const proxy = "10.0.0.5"
	config := jailed("60", `"1h"`)
	for _, since := range []bool{false, true} {
		t.Run(fmt.Sprintf("lines since the snapshot %v", since), func(t *testing.T) {
			r := newRecalled(t, config)
			r.send(0, slices.Repeat([]string{r.line(proxy, 0)}, 55)...)
			if !since {
				r.windows = r.count(r.now).windows()
				r.at[0] += int64(len(strings.Join(r.sent[0], "")))
				r.sent[0] = nil
			}
			r.kill(config)
			r.send(0, slices.Repeat([]string{r.line(proxy, 0)}, 20)...)
			r.journal.want(t, 0, "banned")
			r.journal.want(t, 1, "not banned: protected", "client", proxy)
		})
	}
}

// What is kept of it comes back.
func TestTrafficComesBack(t *testing.T) {
	r := newRig(t, start{config: getOnly, actions: []string{"firewall"}})
	r.traffic(30, "10.0.0.5", "172.64.1.1", "203.0.113.9")
	r.now = r.now.Add(majoritySpan)
	r.traffic(7, "203.0.113.9", "2001:db8::1")
	r.logs["site"].majority.grace[netip.MustParseAddr("203.0.113.9")] = r.now.Round(0).UTC()
	want := r.engine.traffic()
	next := newRig(t, start{config: getOnly, actions: []string{"firewall"}})
	next.restoreTraffic(want, r.now)
	got := next.engine.traffic()
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("came back as\n%s, want\n%s", a, b)
	}
	if n := want[0].Now.Lines; n != 14 {
		t.Errorf("%d lines of now, want 14", n)
	}
	later := newRig(t, start{config: getOnly, actions: []string{"firewall"}})
	later.restoreTraffic([]state.LogTraffic{{Log: "gone"}, {Log: "site", Began: r.now.Add(time.Hour), Now: state.Tally{Lines: 5}}}, r.now)
	if n := later.engine.traffic()[0].Now.Lines; n != 0 {
		t.Errorf("takes up %d lines that are yet to come", n)
	}
}
