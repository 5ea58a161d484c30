package daemon

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

func TestRestoredBanGoesOn(t *testing.T) {
	since := time.Now().Add(-20 * time.Minute)
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{
		Bans:     []state.Ban{held("192.0.2.1/32", since, time.Hour, "web", "firewall")},
		Offences: []state.Offence{{Jail: "web", Target: pfx("192.0.2.1/32"), Count: 1, Last: since}},
	}})
	if puts := r.took(); puts != nil {
		t.Errorf("what is stored is stored again: %+v", puts)
	}
	left := time.Until(r.action["firewall"].until[pfx("192.0.2.1/32")])
	if left < 39*time.Minute || left > 40*time.Minute {
		t.Errorf("enforced for %v more, want 40 min", left)
	}

	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans)+len(u.Offences) != 0 {
		t.Errorf("events of a banned target count: %+v", u)
	}
	r.now = r.now.Add(41 * time.Minute)
	r.expire(r.now)
	if u := r.one(); len(u.Unbans) != 1 {
		t.Errorf("at its end: %+v, want an unban", u)
	}
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Offence != 2 {
		t.Errorf("after its end: %+v, want a second offence", u)
	}
}

// Invariant 4: the daemon dies after a commit that it doesn't know of, and
// the same lines are read again, by the next one.
func TestReadingAgainAddsNothing(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	lines := []string{line("192.0.2.1", r.now), line("192.0.2.1", r.now), line("192.0.2.1", r.now)}
	r.batch(r.lines(lines...), r.now)
	u := r.one()

	again := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{Bans: u.Bans, Offences: u.Offences}})
	again.batch(again.lines(lines...), again.now)
	if u := again.one(); len(u.Positions) != 1 || u.Len() != 1 {
		t.Errorf("got %+v, want a position only", u)
	}
	again.journal.want(t, 0, "banned")
}

// A jail that only observed does not hide its clients from one that enforces
// now.
func TestObservedBanDoesNotStandInTheWay(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{
		Bans: []state.Ban{held("192.0.2.1/32", time.Now(), time.Hour, "web")},
	}})
	if r.action["firewall"].sets != 0 {
		t.Error("an observed ban is enforced")
	}
	r.requests("192.0.2.1", "192.0.2.1")
	r.journal.want(t, 1, "banned")
	if r.action["firewall"].sets != 1 {
		t.Error("the ban is not enforced")
	}
}

// The jail enforces by another action than before: what was banned must be
// banned there, as nobody counts it.
func TestRestoredBanFollowsItsJail(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{
		Bans: []state.Ban{held("192.0.2.1/32", time.Now(), time.Hour, "web", "log")},
	}})
	if r.action["firewall"].sets != 1 {
		t.Error("the ban is not enforced by the jail's action")
	}
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Actions[0] != "firewall" {
		t.Errorf("got %+v, want the ban stored with its action", u)
	}
}

// Jail and action are gone: nobody enforces the ban, so its target counts.
func TestRestoredBanThatNobodyEnforces(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: state.Loaded{
		Bans: []state.Ban{held("192.0.2.1/32", time.Now(), time.Hour, "gone", "gone")},
	}})
	r.requests("192.0.2.1", "192.0.2.1")
	r.journal.want(t, 1, "banned", "target", "192.0.2.1/32")
}

// The proxy was banned before anybody told us that it is one.
func TestRestoredBanOfProtectedIsLifted(t *testing.T) {
	r := newRig(t, start{
		config: `trusted_proxies = ["10.0.0.0/8"]` + "\n" + web, actions: []string{"firewall"},
		loaded: state.Loaded{Bans: []state.Ban{
			held("10.0.0.1/32", time.Now(), time.Hour, "web", "firewall"),
			held("192.0.2.1/32", time.Now(), time.Hour, "web", "firewall"),
		}},
	})
	if n := len(r.action["firewall"].until); n != 1 {
		t.Errorf("%d bans are enforced, want 1", n)
	}
	if u := r.one(); len(u.Unbans) != 1 || u.Unbans[0] != pfx("10.0.0.1/32") || u.Len() != 1 {
		t.Errorf("got %+v, want an unban", u)
	}
	r.journal.want(t, 1, "ban lifted: its target is protected now", "target", "10.0.0.1/32", "reason", "trusted proxy")
}

// max_bans was lowered.
func TestRestoredBansBeyondTheCap(t *testing.T) {
	var bans []state.Ban
	for i, target := range []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32"} {
		bans = append(bans, held(target, time.Now(), time.Duration(i%2+1)*time.Hour, "web", "firewall"))
	}
	r := newRig(t, start{config: two, actions: []string{"firewall"}, loaded: state.Loaded{Bans: bans}})
	for _, longer := range []string{"192.0.2.2/32", "192.0.2.4/32"} {
		if _, ok := r.action["firewall"].until[pfx(longer)]; !ok {
			t.Errorf("%s is not enforced", longer)
		}
	}
	if n := len(r.action["firewall"].until); n != 2 {
		t.Errorf("%d bans are enforced, want 2", n)
	}
	if u := r.one(); len(u.Unbans) != 2 || u.Len() != 2 {
		t.Errorf("got %+v, want two unbans", u)
	}
	r.journal.want(t, 1, "max_bans is reached: the bans that end soonest make room", "dropped", 2)
}

// Bans that were taken over from an action reach the store at once: at the
// next start nothing is taken over any more.
func TestAdoptedBanIsStored(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}, adopted: []netip.Prefix{pfx("192.0.2.1/32")},
		loaded: state.Loaded{Bans: []state.Ban{
			held("192.0.2.1/32", time.Now(), time.Hour, adoptedJail, "firewall"),
			held("192.0.2.2/32", time.Now(), time.Hour, "web", "firewall"),
		}}})
	if targets(r.one()) != "192.0.2.1/32" {
		t.Error("the ban that was taken over is not stored")
	}
	r.requests("192.0.2.1", "192.0.2.1")
	r.journal.want(t, 0, "banned")
}

func TestOffencesThatNoLongerCountLeaveTheStore(t *testing.T) {
	offence := func(target string, ago time.Duration) state.Offence {
		return state.Offence{Jail: "web", Target: pfx(target), Count: 3, Last: time.Now().Add(-ago)}
	}
	r := newRig(t, start{config: web, loaded: state.Loaded{Offences: []state.Offence{
		offence("192.0.2.1/32", detector.DefaultRemember+time.Hour),
		offence("192.0.2.2/32", detector.DefaultRemember-time.Hour),
	}}})
	if u := r.one(); len(u.ForgetOffences) != 1 || u.ForgetOffences[0].Target != pfx("192.0.2.1/32") {
		t.Errorf("at the start: %+v, want one offence forgotten", u)
	}
	r.upkeep(r.now.Add(2 * time.Hour))
	r.handOver()
	if u := r.one(); len(u.ForgetOffences) != 1 || u.ForgetOffences[0].Target != pfx("192.0.2.2/32") {
		t.Errorf("two hours later: %+v, want the other one forgotten", u)
	}
}
