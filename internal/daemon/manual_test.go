package daemon

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

func refusedAs(t *testing.T, err error, code, message string) {
	t.Helper()
	var e *control.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("error %v, want %s: …%s…", err, code, message)
	}
}

// A ban by hand is enforced by every action that keeps clients away, is
// stored, and has the client not counted.
func TestBanByHand(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	got, err := r.ban(order{target: pfx("192.0.2.1/32"), length: 2 * time.Hour, reason: "scraper", by: "uid 0"}, r.now)
	check(t, err)
	if !slices.Equal(got.Actions, []string{"firewall"}) || !got.Until.Equal(r.now.Add(2*time.Hour)) {
		t.Errorf("got %+v", got)
	}
	u := r.one()
	if len(u.Bans) != 1 || u.Bans[0].Owners[0].Jail != control.ByHand || u.Bans[0].Owners[0].Reason != "scraper" || u.Bans[0].Owners[0].By != "uid 0" {
		t.Errorf("stored %+v", u)
	}
	if r.action["firewall"].until[pfx("192.0.2.1/32")].IsZero() {
		t.Error("it is not enforced")
	}
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 0 {
		t.Errorf("a banned client is banned again: %+v", u)
	}
	r.now = r.now.Add(3 * time.Hour)
	r.expire(r.now)
	r.took()
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); targets(u) != "192.0.2.1/32" || u.Bans[0].Owners[0].Offence != 1 {
		t.Errorf("after its end: %+v, want a first offence", u)
	}
}

func TestBanByHandForAJail(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	got, err := r.ban(order{target: pfx("192.0.2.1/32"), jail: "web"}, r.now)
	check(t, err)
	if want := r.config.Jails[0].Ban[0]; !got.Until.Equal(r.now.Add(want)) {
		t.Errorf("until %v, want the jail's %v", got.Until, want)
	}
	_, err = r.ban(order{target: pfx("192.0.2.1/32"), jail: "nosuch"}, r.now)
	refusedAs(t, err, control.CodeNotFound, `there is no jail "nosuch"`)
}

func TestWhatMustNotBeBannedByHand(t *testing.T) {
	r := newRig(t, start{config: `allow = ["192.0.2.9"]` + "\n" + web, actions: []string{"firewall"}})
	for _, c := range []struct {
		target  string
		force   bool
		message string
	}{
		{"127.0.0.1/32", false, "loopback"},
		{"192.0.2.9/32", true, "allowed"},
		{"192.0.2.0/24", true, "allowed"},
		{"0.0.0.0/0", true, "is never banned"},
		{"::/0", true, "is never banned"},
		{"203.0.0.0/15", false, "is wider than /16"},
		{"2001:db8::/31", false, "is wider than /32"},
	} {
		_, err := r.ban(order{target: pfx(c.target).Masked(), length: time.Hour, force: c.force}, r.now)
		refusedAs(t, err, control.CodeRefused, c.message)
	}
	if _, err := r.ban(order{target: pfx("203.0.0.0/15").Masked(), length: time.Hour, force: true}, r.now); err != nil {
		t.Errorf("with force: %v", err)
	}
}

func TestNothingToBanWith(t *testing.T) {
	r := newRig(t, start{config: web})
	_, err := r.ban(order{target: pfx("192.0.2.1/32")}, r.now)
	refusedAs(t, err, control.CodeRefused, "no action is in use")
}

// Networks that overlap end up as one ban, or not at all.
func TestBannedNetworksDoNotOverlap(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	ban := func(target string, length time.Duration) (*control.BanResult, error) {
		return r.ban(order{target: pfx(target), length: length}, r.now)
	}
	for _, target := range []string{"198.51.100.0/28", "198.51.100.16/28", "198.51.100.77/32"} {
		_, err := ban(target, time.Hour)
		check(t, err)
	}
	_, err := ban("198.51.100.0/24", time.Minute)
	refusedAs(t, err, control.CodeRefused, "is banned for longer")
	got, err := ban("198.51.100.0/24", 2*time.Hour)
	check(t, err)
	slices.SortFunc(got.Absorbed, netip.Prefix.Compare)
	if !slices.Equal(got.Absorbed, []netip.Prefix{pfx("198.51.100.0/28"), pfx("198.51.100.16/28")}) {
		t.Errorf("absorbed %v, want the two networks and not the address", got.Absorbed)
	}
	_, err = ban("198.51.100.32/28", time.Hour)
	refusedAs(t, err, control.CodeRefused, "is part of 198.51.100.0/24")
	r.took()
	r.requests("198.51.100.5", "198.51.100.5", "198.51.100.5")
	if u := r.one(); len(u.Bans) != 0 {
		t.Errorf("a client of a banned network is banned: %+v", u)
	}
}

// An unban ends the ban everywhere, and the events before it never count
// again: not now, not when they are read again, not after a restart.
func TestUnban(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2")
	r.took()
	got, err := r.unban(release{target: pfx("192.0.2.1/32"), reason: "our monitor", by: "uid 0"}, r.now)
	check(t, err)
	if got.Lifted != 1 || got.Kept != 0 || !slices.Equal(got.Targets, []netip.Prefix{pfx("192.0.2.1/32")}) {
		t.Errorf("got %+v", got)
	}
	u := r.one()
	if len(u.Unbans) != 1 || len(u.Pardons) != 1 || len(u.ForgetOffences) != 1 {
		t.Errorf("stored %+v, want an unban, a pardon and a forgotten offence", u)
	}
	if len(r.action["firewall"].until) != 0 {
		t.Error("the action still bans")
	}
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1") // read again
	if u := r.one(); len(u.Bans) != 0 {
		t.Errorf("events before the unban ban again: %+v", u.Bans)
	}

	again := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{Pardons: u.Pardons}})
	again.now = r.now
	again.took()
	again.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	if u := again.one(); targets(u) != "192.0.2.2/32" {
		t.Errorf("after a restart banned: %s, want only the other one", targets(u))
	}
	again.now = r.now.Add(2 * time.Second)
	again.requests("192.0.2.1", "192.0.2.1")
	if u := again.one(); targets(u) != "192.0.2.1/32" || u.Bans[0].Owners[0].Offence != 1 {
		t.Errorf("after the pardon: %+v, want a first offence", u)
	}
}

func TestForgive(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	_, err := r.unban(release{target: pfx("198.51.100.0/24"), forgive: time.Hour}, r.now)
	check(t, err)
	r.took()
	r.now = r.now.Add(59 * time.Minute)
	r.requests("198.51.100.1", "198.51.100.1", "198.51.100.1")
	if u := r.one(); len(u.Bans) != 0 {
		t.Errorf("banned: %s", targets(u))
	}
	r.now = r.now.Add(2 * time.Minute)
	r.requests("198.51.100.1", "198.51.100.1")
	if u := r.one(); targets(u) != "198.51.100.1/32" {
		t.Errorf("banned: %q, want the client whose pardon has ended", targets(u))
	}
}

// Two jails want a ban; without one of them it is the other's.
func TestUnbanOfAJail(t *testing.T) {
	r := newRig(t, start{config: twoJails, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans[0].Owners) != 2 {
		t.Fatalf("owners: %+v, want both jails", u.Bans[0].Owners)
	}
	got, err := r.unban(release{jail: "long"}, r.now)
	check(t, err)
	if got.Lifted != 0 || got.Kept != 1 {
		t.Errorf("got %+v", got)
	}
	if end := r.action["firewall"].until[pfx("192.0.2.1/32")]; !end.Equal(r.now.Add(time.Hour)) {
		t.Errorf("enforced until %v, want the other jail's end", end)
	}
	got, err = r.unban(release{jail: "short"}, r.now)
	check(t, err)
	if got.Lifted != 1 || len(r.action["firewall"].until) != 0 || len(r.bans.bans) != 0 {
		t.Errorf("got %+v, enforced %v", got, r.action["firewall"].until)
	}
	_, err = r.unban(release{jail: "nosuch"}, r.now)
	refusedAs(t, err, control.CodeNotFound, "there is no jail")
}

func TestUnbanAll(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::1", "192.0.2.2")
	got, err := r.unban(release{}, r.now)
	check(t, err)
	if got.Lifted != 2 || len(r.action["firewall"].until) != 0 {
		t.Errorf("got %+v, enforced %v", got, r.action["firewall"].until)
	}
	r.took()
	r.requests("192.0.2.2", "2001:db8::1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 0 {
		t.Errorf("counters were not cleared: %s", targets(u))
	}
}

// A jail that is held only observes; what it held back is not made good later.
func TestHold(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	got, err := r.hold(state.Hold{Jail: "web", Since: r.now, Until: r.now.Add(time.Hour), Reason: "deploy"}, r.now)
	check(t, err)
	if got.Was != control.ModeEnforce || got.Mode != control.ModeHeld {
		t.Errorf("got %+v", got)
	}
	if u := r.one(); len(u.Holds) != 1 {
		t.Errorf("stored %+v", u)
	}
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Actions != nil || len(r.action["firewall"].until) != 0 {
		t.Errorf("held, it stored %+v and enforced %v", u, r.action["firewall"].until)
	}
	r.now = r.now.Add(2 * time.Hour)
	r.upkeep(r.now)
	if u := r.took(); len(u) != 1 || len(u[0].ForgetHolds) != 1 {
		t.Errorf("at its end: %+v", u)
	}
	r.requests("192.0.2.2", "192.0.2.2")
	if u := r.one(); targets(u) != "192.0.2.2/32" || len(r.action["firewall"].until) != 1 {
		t.Errorf("resumed, it stored %+v", u)
	}
	_, err = r.hold(state.Hold{Jail: "nosuch"}, r.now)
	refusedAs(t, err, control.CodeNotFound, "there is no jail")
}

func TestHoldSurvivesRestart(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{Holds: []state.Hold{{Jail: "web", Since: time.Now()}}}})
	r.took()
	r.requests("192.0.2.1", "192.0.2.1")
	if len(r.action["firewall"].until) != 0 {
		t.Error("a held jail enforces after a restart")
	}
	got, err := r.resume("web", "", "uid 0", r.now)
	check(t, err)
	if got.Was != control.ModeHeld || got.Mode != control.ModeEnforce {
		t.Errorf("got %+v", got)
	}
}

// What a banned client still sends is counted, if it was sent after the ban.
func TestRequestsSinceTheBanAreCounted(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1") // two in flight
	if n := r.bans.bans[pfx("192.0.2.1/32")].requests; n != 0 {
		t.Errorf("%d requests are counted that came before the ban", n)
	}
	r.now = r.now.Add(5 * time.Second)
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2")
	h := r.bans.bans[pfx("192.0.2.1/32")]
	if h.requests != 2 || h.lastRequest == 0 {
		t.Errorf("%d requests are counted, want 2", h.requests)
	}
}

const twoJails = site + `
[jails.short]
limit = 1
window = "60s"
ban = "1h"
[jails.long]
limit = 1
window = "120s"
ban = "6h"
[actions.firewall]
type = "nftables"
`
