package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// Requests that arrive although they should not are counted with the ban that
// covers them, whatever it is of, and with each action that it names.
func TestSeenWhateverIsBanned(t *testing.T) {
	both := strings.Replace(web, "[actions.firewall]", `[deny]
agents = ["evil"]
ban = "1h"
[actions.edge]
type = "nftables"
table = "edge"
[actions.firewall]`, 1)
	for _, c := range []struct{ name, banned, client, agent string }{
		{"an address", "192.0.2.1/32", "192.0.2.1", "x"},
		{"a network", "192.0.2.0/24", "192.0.2.77", "x"},
		{"a wide network", "2001:db8::/32", "2001:db8:7::1", "x"},
		{"a /64", "2001:db8::/64", "2001:db8::1", "x"},
		{"an address of a /64", "2001:db8::1/128", "2001:db8::1", "x"},
		{"the denied", "192.0.2.1/32", "192.0.2.1", "evil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: both, actions: []string{"firewall", "edge"}})
			r.bans.insert(held(c.banned, r.now, time.Hour, "web", "firewall"))
			ban := r.bans.bans[pfx(c.banned)]
			r.tellDetector(&ban.Ban)
			r.now = r.now.Add(10 * time.Second)
			one := strings.Replace(line(c.client, r.now), `"x"`, `"`+c.agent+`"`, 1)
			r.batch(r.lines(one, one, line("198.51.100.1", r.now)), r.now)
			if ban.requests != 2 || r.through["firewall"].requests != 2 || r.through["edge"].requests != 0 {
				t.Errorf("%d requests with the ban, %+v with the actions, want 2", ban.requests, r.through)
			}
			r.bans.drop(ban)
			if r.bans.covering(pfx("192.0.2.77/32"), pfx("192.0.2.77/32").Addr()) != nil || r.bans.networks.Size() != 0 {
				t.Error("a ban that is over still covers")
			}
		})
	}
}

// What a client asked for while a jail only observed is nothing that has come through
// the ban that was enforced later.
func TestSeenBeforeItWasEnforced(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	o := held("192.0.2.1/32", r.now, time.Hour, "web").Owners[0]
	r.bans.put(pfx("192.0.2.1/32"), "host", o)
	h := r.bans.bans[pfx("192.0.2.1/32")]
	h.requests, h.forwarded, h.lastRequest = 9, 1, 7
	r.bans.put(h.Target, "host", o)
	if h.requests != 9 {
		t.Errorf("%d requests of a ban that is still observed, want 9", h.requests)
	}
	o.Actions = []string{"firewall"}
	for range 2 {
		r.bans.put(h.Target, "host", o)
		if h.requests != 0 && h.requests != 3 || h.forwarded != 0 || h.lastRequest != 0 {
			t.Errorf("%d requests, %d forwarded, the last at %d", h.requests, h.forwarded, h.lastRequest)
		}
		h.requests = 3
	}
	r.bans.put(h.Target, "host", o)
	if h.requests != 3 {
		t.Errorf("%d requests of a ban that was enforced before, want 3", h.requests)
	}
}

// Of two bans that cover a client the one that is enforced is meant.
func TestSeenOfWhatIsEnforced(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	for target, actions := range map[string][]string{"192.0.2.1/32": nil, "192.0.2.0/24": {"firewall"}} {
		r.bans.insert(state.Ban{Target: pfx(target), Owners: []state.Owner{{Jail: "web", Since: r.now, Until: r.now.Add(time.Hour), Actions: actions}}})
	}
	if h := r.bans.covering(pfx("192.0.2.1/32"), pfx("192.0.2.1/32").Addr()); h == nil || h.Target != pfx("192.0.2.0/24") {
		t.Errorf("covered by %+v", h)
	}
	r.bans.drop(r.bans.bans[pfx("192.0.2.0/24")])
	if h := r.bans.covering(pfx("192.0.2.1/32"), pfx("192.0.2.1/32").Addr()); h == nil || h.Target != pfx("192.0.2.1/32") {
		t.Errorf("covered by %+v", h)
	}
}

// A jail whose bans are all about clients behind a proxy is told of, once, some
// minutes later; one of them that comes directly is enough not to.
func TestAllForwardedIsSaid(t *testing.T) {
	const msg = "all bans of the jail are about clients behind a proxy: the kernel sees only the proxy, and stops none of them there"
	config := `trusted_proxies = ["198.51.100.1"]` + "\n" + web
	behind := func(client string, at time.Time) string {
		return strings.TrimSuffix(line("198.51.100.1", at), "\n") + ` "` + client + "\"\n"
	}
	for _, c := range []struct {
		name              string
		forwarded, direct int
		observe           bool
		want              int
	}{
		{"all", 3, 0, false, 1},
		{"too few to tell", 2, 0, false, 0},
		{"one comes directly", 5, 1, false, 0},
		{"all directly", 0, 5, false, 0},
		{"nothing is enforced", 5, 0, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(config, "/var/log/site.log\"\n", "/var/log/site.log\"\nformat = \"nginx\"\n", 1)
			if c.observe {
				text = "mode = \"observe\"\n" + text
			}
			r := newRig(t, start{config: text, actions: []string{"firewall"}})
			events, err := r.hub.follow(t.Context(), r.now)
			check(t, err)
			for i := range c.forwarded {
				one := behind(fmt.Sprintf("203.0.113.%d", i), r.now)
				r.batch(r.lines(one, one), r.now)
			}
			for i := range c.direct {
				one := strings.TrimSuffix(line(fmt.Sprintf("192.0.2.%d", i), r.now), "\n") + " \"-\"\n"
				r.batch(r.lines(one, one), r.now)
			}
			if n := len(r.bans.bans); n != c.forwarded+c.direct {
				t.Fatalf("%d bans", n)
			}
			r.upkeep(r.now.Add(forwardedAfter - time.Second))
			r.journal.want(t, 0, msg)
			r.upkeep(r.now.Add(forwardedAfter))
			r.upkeep(r.now.Add(24 * time.Hour))
			r.journal.want(t, c.want, msg)
			alarms := 0
			for len(events) > 0 {
				if ev := <-events; ev.Kind == "alarm" && strings.Contains(ev.Reason, "behind a proxy") {
					alarms++
				}
			}
			if alarms != c.want {
				t.Errorf("%d alarms, want %d", alarms, c.want)
			}
		})
	}
}
