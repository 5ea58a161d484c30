package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

const strict = site + `
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[jails.other]
limit = 1000
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
`

// newSiteWithRegulars is an engine that knows n clients, each of a network of its
// own, as regulars who came within the hour, the first half of them for longer,
// and nobody else.
func newSiteWithRegulars(t *testing.T, config string, n int) *rig {
	r := newRig(t, start{config: config, actions: []string{"firewall"}})
	for day := 6; day > 0; day-- {
		for i := range n {
			if day <= 4 || i < n/2 {
				r.breaker.regulars.note(regularTarget(i), false, r.now.Add(-time.Duration(day)*aDay))
			}
		}
	}
	for i := range n {
		r.breaker.regulars.note(regularTarget(i), false, r.now.Add(-5*time.Minute))
	}
	return r
}

func regularTarget(i int) netip.Prefix { return pfx(fmt.Sprintf("203.%d.113.7/32", i)) }

// exceed has regulars exceed the limit of the jail.
func (r *rig) exceed(from, to int) {
	for i := from; i < to; i++ {
		c := regularTarget(i).Addr().String()
		r.requests(c, c, c)
	}
	r.now = r.now.Add(time.Second)
	r.lookAtAllHits(r.now)
}

// strangers has clients of a network do so.
func (r *rig) strangers(network string, from, to int) {
	for i := from; i < to; i++ {
		c := fmt.Sprintf("%s.%d", network, i)
		r.requests(c, c, c)
	}
	r.now = r.now.Add(time.Second)
	r.lookAtAllHits(r.now)
}

func (r *rig) modeOf(jail string) string { return r.mode(jail) }

// A jail whose bans hit many regulars, of all and of the older ones, lets them
// go, and bans no regular for the cool-down; strangers it goes on to ban.
func TestBreakerTrips(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 40)
	r.exceed(0, 8) // 20 %: not more than the share
	if r.modeOf("web") != control.ModeEnforce {
		t.Fatal("tripped at the share, not beyond it")
	}
	r.exceed(30, 33) // 11 of 40, 8 of the older 20
	if r.modeOf("web") != control.ModeSparing || r.modeOf("other") != control.ModeEnforce {
		t.Fatalf("web is %s, other is %s", r.modeOf("web"), r.modeOf("other"))
	}
	if len(r.bans.bans) != 0 || len(r.action["firewall"].until) != 0 {
		t.Errorf("%d regulars are still banned", len(r.bans.bans))
	}
	h := r.engine.held["web"]
	if h.By != control.ByBreaker || !strings.Contains(h.Reason, "it banned 11 regular clients") || h.Until.Sub(r.now) > time.Hour+time.Second {
		t.Errorf("held as %+v", h)
	}
	r.journal.want(t, 1, "the jail spares regular clients for now: its bans have hit too many of them (is its limit right? tailban resume ends this)", "lifted", 11)

	r.exceed(12, 14) // regulars
	if n := len(r.action["firewall"].until); n != 0 {
		t.Errorf("%d regulars banned while the jail spares them", n)
	}
	r.strangers("198.51.100", 0, 200)
	if n := len(r.action["firewall"].until); n != 200 {
		t.Errorf("%d strangers banned while the jail spares regulars, want 200", n)
	}

	// After a restart it still does.
	again := newRig(t, start{config: strict, actions: []string{"firewall"}, loaded: state.Loaded{Holds: []state.Hold{h}}})
	if again.modeOf("web") != control.ModeSparing || !again.breaker.spares("web") {
		t.Errorf("after a restart web is %s", again.modeOf("web"))
	}

	r.now = r.now.Add(time.Hour + time.Second)
	r.upkeep(r.now)
	if r.modeOf("web") != control.ModeEnforce {
		t.Error("held after the cool-down")
	}
	r.exceed(12, 14)
	if n := len(r.action["firewall"].until); n != 202 {
		t.Errorf("%d bans after the cool-down, want 202", n)
	}
}

// Who resumes the jail by hand ends that, and who holds it has it observe.
func TestBreakerIsSteered(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 20)
	r.exceed(0, 20)
	if r.modeOf("web") != control.ModeSparing {
		t.Fatal("not tripped")
	}
	got, err := r.hold(state.Hold{Jail: "web", Since: r.now, By: "uid 0"}, r.now)
	check(t, err)
	if got.Was != control.ModeSparing || got.Mode != control.ModeHeld {
		t.Errorf("held: %+v", got)
	}
	r.strangers("198.51.100", 0, 3)
	if n := len(r.action["firewall"].until); n != 0 {
		t.Errorf("%d bans of a jail that is held", n)
	}
	_, err = r.resume("web", "", "uid 0", r.now)
	check(t, err)
	r.exceed(0, 2)
	if n := len(r.action["firewall"].until); n != 2 {
		t.Errorf("%d bans after it was resumed, want 2", n)
	}
}

// What a person has banned is not the breaker's to lift.
func TestBreakerLeavesBansByHand(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 40)
	r.exceed(0, 1)
	_, err := r.ban(order{target: regularTarget(0), jail: "web", length: 30 * aDay, reason: "known", by: "uid 0"}, r.now)
	check(t, err)
	r.exceed(1, 12)
	if r.modeOf("web") != control.ModeSparing {
		t.Fatal("not tripped")
	}
	if len(r.bans.bans) != 1 || r.bans.bans[regularTarget(0)] == nil {
		t.Errorf("%d bans are left, want the one by hand", len(r.bans.bans))
	}
}

// Strangers trip nothing, however many they are, nor do a few regulars, nor many
// of one network, nor bots that have come for days but not for as long as others.
func TestBotnetDoesNotTrip(t *testing.T) {
	aged := func(r *rig, days int, target func(i int) string, n int) {
		for day := days; day >= 0; day-- {
			for i := range n {
				r.breaker.regulars.note(detector.TargetOf(netip.MustParseAddr(target(i))), false, r.now.Add(-time.Duration(day)*aDay))
			}
		}
	}
	flood := func(r *rig, target func(i int) string, n int) {
		for i := range n {
			r.requests(target(i), target(i), target(i))
		}
		r.now = r.now.Add(time.Second)
		r.lookAtAllHits(r.now)
	}
	spread := func(i int) string { return fmt.Sprintf("198.18.%d.9", i) }
	for _, c := range []struct {
		name   string
		attack func(r *rig) (bots int)
		trips  bool
	}{
		{"strangers", func(r *rig) int {
			for net := range 8 {
				r.strangers(fmt.Sprintf("198.51.%d", net), 0, 250)
			}
			return 2000
		}, false},
		{"newcomers of today", func(r *rig) int { aged(r, 0, spread, 200); flood(r, spread, 200); return 200 }, false},
		{"four regulars", func(r *rig) int { r.exceed(0, 4); return 4 }, false},
		{"aged for four days", func(r *rig) int { aged(r, 4, spread, 200); flood(r, spread, 200); return 200 }, false},
		{"aged in two groups", func(r *rig) int {
			first := func(i int) string { return fmt.Sprintf("198.19.%d.9", i) }
			aged(r, 5, first, 15)
			aged(r, 3, spread, 60)
			flood(r, first, 15)
			flood(r, spread, 60)
			return 75
		}, false},
		{"a network of IPv4", func(r *rig) int {
			one := func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }
			aged(r, 9, one, 200)
			flood(r, one, 200)
			return 200
		}, false},
		{"a network of IPv6", func(r *rig) int {
			one := func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }
			aged(r, 9, one, 200)
			flood(r, one, 200)
			return 200
		}, false},
		{"more than all others, and older", func(r *rig) int { aged(r, 12, spread, 60); flood(r, spread, 60); return 0 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSiteWithRegulars(t, strict, 40)
			bots := c.attack(r)
			if trips := r.modeOf("web") == control.ModeSparing; trips != c.trips || len(r.bans.bans) != bots {
				t.Errorf("web is %s with %d bans, want %d", r.modeOf("web"), len(r.bans.bans), bots)
			}
			r.strangers("203.0.114", 0, 50) // whatever it is, strangers are banned
			if n := len(r.bans.bans); n != bots+50 {
				t.Errorf("%d bans, want %d", n, bots+50)
			}
		})
	}
}

// Where nobody is older than others, as in a young daemon, all are.
func TestBreakerOfAYoungDaemon(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 0)
	for day := 4; day >= 0; day-- {
		for i := range 20 {
			r.breaker.regulars.note(regularTarget(i), false, r.now.Add(-time.Duration(day)*aDay))
		}
	}
	r.exceed(0, 6)
	if r.modeOf("web") != control.ModeSparing {
		t.Error("6 of 20 regulars do not trip it")
	}
}

// Whoever is banned begins anew: he is no regular for days.
func TestBannedIsNoRegular(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 40)
	r.exceed(0, 1)
	if _, known := r.breaker.regulars.forget(regularTarget(0)); known {
		t.Error("still a regular after its ban")
	}
}

// With max_share = 1 nothing trips.
func TestBreakerSwitchedOff(t *testing.T) {
	r := newSiteWithRegulars(t, "breaker.max_share = 1\n"+strict, 10)
	r.exceed(0, 10)
	if r.modeOf("web") != control.ModeEnforce || len(r.bans.bans) != 10 {
		t.Errorf("web is %s with %d bans", r.modeOf("web"), len(r.bans.bans))
	}
}

// traffic is requests of clients, each n times, which no jail exceeds by itself.
func (r *rig) traffic(n int, clients ...string) {
	for range n {
		for _, c := range clients {
			r.batch(r.lines(strings.Replace(line(c, r.now), "GET", "HEAD", 1)), r.now)
		}
	}
}

const getOnly = site + `
[jails.web]
limit = 2
window = "60s"
ban = "1h"
where = { method = "GET" }
[actions.firewall]
type = "nftables"
`

// An address that stands for most of a log's traffic is spared if it is likely a
// proxy, and banned if it may be a client that floods.
func TestMisreadProxy(t *testing.T) {
	others := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("192.0.2.%d", i))
		}
		return list
	}
	for _, c := range []struct {
		name   string
		client string
		before func(r *rig)
		spared bool
	}{
		{"a private address almost alone", "10.0.0.5", func(r *rig) { r.traffic(200, "10.0.0.5"); r.traffic(1, others(5)...) }, true},
		{"shared address space", "100.64.3.4", func(r *rig) { r.traffic(200, "100.64.3.4") }, true},
		{"a unique local address", "fd00::5", func(r *rig) { r.traffic(200, "fd00::5") }, true},
		{"a private address among many", "10.0.0.5", func(r *rig) { r.traffic(200, "10.0.0.5"); r.traffic(1, others(12)...) }, false},
		{"a private address that is not most", "10.0.0.5", func(r *rig) { r.traffic(100, "10.0.0.5"); r.traffic(60, "10.0.0.6", "10.0.0.7") }, false},
		{"too few lines", "10.0.0.5", func(r *rig) { r.traffic(15, "10.0.0.5") }, false},
		{"a flood", "203.0.113.9", func(r *rig) { r.traffic(1000, "203.0.113.9") }, false},
		{"an edge of Cloudflare, among many", "172.64.1.1", func(r *rig) {
			for i := range 10 {
				r.traffic(10, fmt.Sprintf("172.64.1.%d", i), fmt.Sprintf("104.16.%d.9", i))
			}
			r.traffic(1, others(30)...)
		}, true},
		{"one of Cloudflare's addresses", "2a06:98c0:3600::103", func(r *rig) { r.traffic(500, "2a06:98c0:3600::103"); r.traffic(1, others(30)...) }, false},
		{"a public address for days", "198.51.100.7", func(r *rig) {
			for range 3 {
				r.traffic(200, "198.51.100.7")
				r.traffic(1, others(20)...)
				r.now = r.now.Add(aDay)
			}
			r.traffic(200, "198.51.100.7")
		}, true},
		{"the same, an hour after it was first spared", "198.51.100.7", func(r *rig) {
			for range 3 {
				r.traffic(200, "198.51.100.7")
				r.now = r.now.Add(aDay)
			}
			r.traffic(200, "198.51.100.7")
			r.requests("198.51.100.7", "198.51.100.7", "198.51.100.7")
			r.said = newSayer()
			r.now = r.now.Add(time.Hour)
			r.traffic(200, "198.51.100.7")
		}, false},
		{"a public address for a day", "198.51.100.7", func(r *rig) {
			r.traffic(200, "198.51.100.7")
			r.now = r.now.Add(aDay)
			r.traffic(200, "198.51.100.7")
		}, false},
		{"an hour ago", "10.0.0.5", func(r *rig) { r.traffic(200, "10.0.0.5"); r.now = r.now.Add(61 * time.Minute) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: getOnly, actions: []string{"firewall"}})
			c.before(r)
			const refused = "no ban: the log's clients are likely not its clients"
			said := len(r.journal.said(refused))
			r.requests(c.client, c.client, c.client)
			if spared := len(r.bans.bans) == 0; spared != c.spared {
				t.Errorf("spared is %v, want %v", spared, c.spared)
			}
			if c.spared {
				said++
			}
			r.journal.want(t, said, refused)
		})
	}
}

// Who is trusted is no party: its clients are.
func TestTrustedProvider(t *testing.T) {
	r := newRig(t, start{config: `trusted_proxies = ["cloudflare"]` + "\n" + getOnly, actions: []string{"firewall"}})
	if _, provider := r.logs["site"].majority.party(pfx("172.64.1.1/32").Addr()); provider {
		t.Error("a trusted provider counts as a party")
	}
}
