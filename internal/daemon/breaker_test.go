package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
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

// newSiteWithRegulars is an engine that knows clients 203.0.113.0 to n-1 as
// regulars who came within the hour, the first half of them for longer, and
// nobody else.
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

func regularTarget(i int) netip.Prefix { return pfx(fmt.Sprintf("203.0.113.%d/32", i)) }

// exceed has clients of a network exceed the limit of the jail.
func (r *rig) exceed(network string, from, to int) {
	for i := from; i < to; i++ {
		c := fmt.Sprintf("%s.%d", network, i)
		r.requests(c, c, c)
	}
	r.now = r.now.Add(time.Second)
	r.lookAtAllHits(r.now)
}

func (r *rig) modeOf(jail string) string { return r.mode(jail) }

// A jail whose bans hit many regulars, of all and of the older half, only
// observes for the cool-down, and lets them go.
func TestBreakerTrips(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 40)
	r.exceed("203.0.113", 0, 8) // 20 %: not more than the share
	if r.modeOf("web") != control.ModeEnforce {
		t.Fatal("tripped at the share, not beyond it")
	}
	r.exceed("203.0.113", 30, 33) // 11 of 40, 8 of the older 20
	if r.modeOf("web") != control.ModeHeld || r.modeOf("other") != control.ModeEnforce {
		t.Fatalf("web is %s, other is %s", r.modeOf("web"), r.modeOf("other"))
	}
	if len(r.bans.bans) != 0 || len(r.action["firewall"].until) != 0 {
		t.Errorf("%d regulars are still banned", len(r.bans.bans))
	}
	h := r.engine.held["web"]
	if h.By != control.ByBreaker || !strings.Contains(h.Reason, "it banned 11 regular clients") || h.Until.Sub(r.now) > time.Hour+time.Second {
		t.Errorf("held as %+v", h)
	}
	r.journal.want(t, 1, "the jail only observes for now: its bans hit regular clients (is its limit right? tailban resume ends this)", "lifted", 11)

	// Its decisions are observed, for regulars and strangers, until the time is up.
	r.exceed("203.0.113", 12, 14)
	r.exceed("198.51.100", 0, 2)
	if n := len(r.action["firewall"].until); n != 0 {
		t.Errorf("%d bans while the jail is held", n)
	}
	r.now = r.now.Add(time.Hour + time.Second)
	r.upkeep(r.now)
	if r.modeOf("web") != control.ModeEnforce {
		t.Error("held after the cool-down")
	}
	r.exceed("198.51.100", 10, 12)
	if n := len(r.action["firewall"].until); n != 2 {
		t.Errorf("%d bans after the cool-down, want 2", n)
	}
}

// Strangers trip nothing, however many they are, nor do a few regulars, nor bots
// that have come for days but are all younger than the site's visitors.
func TestBotnetDoesNotTrip(t *testing.T) {
	t.Run("strangers", func(t *testing.T) {
		r := newSiteWithRegulars(t, strict, 10)
		for net := range 8 {
			r.exceed(fmt.Sprintf("198.51.%d", net), 0, 250)
		}
		if r.modeOf("web") != control.ModeEnforce || len(r.bans.bans) != 2000 {
			t.Errorf("web is %s with %d bans", r.modeOf("web"), len(r.bans.bans))
		}
	})
	t.Run("strangers who came today", func(t *testing.T) {
		r := newSiteWithRegulars(t, strict, 10)
		for i := range 200 {
			r.breaker.regulars.note(pfx(fmt.Sprintf("198.51.100.%d/32", i)), false, r.now)
		}
		r.exceed("198.51.100", 0, 200)
		if r.modeOf("web") != control.ModeEnforce {
			t.Error("tripped by newcomers")
		}
	})
	t.Run("four of six regulars", func(t *testing.T) {
		r := newSiteWithRegulars(t, strict, 6)
		r.exceed("203.0.113", 0, 4)
		if r.modeOf("web") != control.ModeEnforce {
			t.Error("tripped by four")
		}
	})
	t.Run("bots that aged for four days", func(t *testing.T) {
		r := newSiteWithRegulars(t, strict, 60)
		for day := 4; day > 0; day-- {
			for i := range 55 {
				r.breaker.regulars.note(pfx(fmt.Sprintf("198.51.100.%d/32", i)), false, r.now.Add(-time.Duration(day)*aDay))
			}
		}
		for i := range 55 {
			r.breaker.regulars.note(pfx(fmt.Sprintf("198.51.100.%d/32", i)), false, r.now)
		}
		// They are nearly half of all regulars, and none of those who came before
		// most others.
		r.exceed("198.51.100", 0, 55)
		if r.modeOf("web") != control.ModeEnforce || len(r.bans.bans) != 55 {
			t.Errorf("web is %s with %d bans", r.modeOf("web"), len(r.bans.bans))
		}
	})
	t.Run("nobody is older than others", func(t *testing.T) { // a young daemon
		r := newSiteWithRegulars(t, strict, 0)
		for day := 4; day >= 0; day-- {
			for i := range 20 {
				r.breaker.regulars.note(regularTarget(i), false, r.now.Add(-time.Duration(day)*aDay))
			}
		}
		r.exceed("203.0.113", 0, 6)
		if r.modeOf("web") != control.ModeHeld {
			t.Error("6 of 20 regulars do not trip it")
		}
	})
}

// Whoever is banned begins anew: he is no regular for days.
func TestBannedIsNoRegular(t *testing.T) {
	r := newSiteWithRegulars(t, strict, 40)
	r.exceed("203.0.113", 0, 1)
	if _, known := r.breaker.regulars.forget(regularTarget(0)); known {
		t.Error("still a regular after its ban")
	}
}

// With max_share = 1 nothing trips.
func TestBreakerSwitchedOff(t *testing.T) {
	r := newSiteWithRegulars(t, "breaker.max_share = 1\n"+strict, 10)
	r.exceed("203.0.113", 0, 10)
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
		{"too few lines", "10.0.0.5", func(r *rig) { r.traffic(90, "10.0.0.5") }, false},
		{"a flood", "203.0.113.9", func(r *rig) { r.traffic(1000, "203.0.113.9") }, false},
		{"an edge of Cloudflare", "172.64.1.1", func(r *rig) { r.traffic(40, "172.64.1.2", "172.64.1.3", "104.16.0.9"); r.traffic(1, others(30)...) }, true},
		{"a public address for days", "198.51.100.7", func(r *rig) {
			for range 3 {
				r.traffic(200, "198.51.100.7")
				r.traffic(1, others(20)...)
				r.now = r.now.Add(aDay)
			}
			r.traffic(200, "198.51.100.7")
		}, true},
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
			r.requests(c.client, c.client, c.client)
			if spared := len(r.bans.bans) == 0; spared != c.spared {
				t.Errorf("spared is %v, want %v", spared, c.spared)
			}
			said := 0
			if c.spared {
				said = 1
			}
			r.journal.want(t, said, "no ban: the log's clients are likely not its clients")
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
