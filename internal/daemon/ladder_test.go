package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// climbing bans for longer each time; a day after the latest offence it
// begins anew.
const climbing = site + `
[jails.web]
limit = 0
window = "60s"
ban = ["1h", "6h", "12h"]
remember = "1d"
[actions.firewall]
type = "nftables"
`

// Each offence bans for its step, through restarts, and the action hears of
// that length.
func TestLadderGoesOnAfterRestart(t *testing.T) {
	loaded := state.Loaded{}
	for offence, length := range []time.Duration{time.Hour, 6 * time.Hour, 12 * time.Hour, 12 * time.Hour} {
		r := newRig(t, start{config: climbing, actions: []string{"firewall"}, loaded: loaded})
		r.requests("192.0.2.1")
		u := r.one()
		if len(u.Bans) != 1 || u.Bans[0].Owners[0].Offence != offence+1 || len(u.Offences) != 1 || u.Offences[0].Count != offence+1 {
			t.Fatalf("offence %d: got %+v", offence+1, u)
		}
		if got, want := r.action["firewall"].until[pfx("192.0.2.1/32")], r.now.Add(length); !got.Equal(want) {
			t.Errorf("offence %d: banned until %v, want %v", offence+1, got, want)
		}
		loaded = state.Loaded{Offences: u.Offences} // the ban is over at the next start
	}
}

func TestJailsOwnRememberRulesTheStore(t *testing.T) {
	offence := func(jail, target string, ago time.Duration) state.Offence {
		return state.Offence{Jail: jail, Target: pfx(target), Count: 2, Last: time.Now().Add(-ago)}
	}
	r := newRig(t, start{config: climbing, actions: []string{"firewall"}, loaded: state.Loaded{Offences: []state.Offence{
		offence("web", "192.0.2.1/32", 25*time.Hour),
		offence("web", "192.0.2.2/32", 23*time.Hour),
		offence("gone", "192.0.2.3/32", 25*time.Hour), // may come back
	}}})
	if u := r.one(); len(u.ForgetOffences) != 1 || u.ForgetOffences[0].Target != pfx("192.0.2.1/32") {
		t.Errorf("at the start: %+v, want one offence forgotten", u)
	}
	r.requests("192.0.2.1", "192.0.2.2")
	for target, offence := range map[string]int{"192.0.2.1/32": 1, "192.0.2.2/32": 3} {
		r.journal.want(t, 1, "banned", "target", target, "offence", offence)
	}
}

// With one history for all, offences are stored once per target, under a name
// that no jail has, and go on after a restart.
func TestSharedHistoryIsStoredAsOne(t *testing.T) {
	config := "shared_history = true\n" + strings.Replace(climbing, `remember = "1d"`, "", 1) + `
[jails.post]
where = { path = "/other" }
limit = 0
window = "60s"
ban = ["1m", "2h"]
`
	r := newRig(t, start{config: config, actions: []string{"firewall"}})
	r.requests("192.0.2.1")
	u := r.one()
	if len(u.Offences) != 1 || u.Offences[0].Jail != "(shared)" {
		t.Fatalf("stored: %+v, want one offence of all jails", u.Offences)
	}
	again := newRig(t, start{config: config, actions: []string{"firewall"}, loaded: state.Loaded{Offences: u.Offences}})
	again.batch(again.lines(strings.Replace(line("192.0.2.1", again.now), "GET / ", "GET /other ", 1)), again.now)
	again.journal.want(t, 1, "banned", "jail", "post", "offence", 2)
	again.journal.want(t, 1, "banned", "jail", "web", "offence", 2) // both decided at this line: one offence
}

// What is shared counts as long as the top level says.
func TestSharedHistoryIsForgotten(t *testing.T) {
	config := "shared_history = true\nremember = \"12h\"\n" + strings.Replace(climbing, `remember = "1d"`, "", 1)
	offence := func(target string, ago time.Duration) state.Offence {
		return state.Offence{Jail: "(shared)", Target: pfx(target), Count: 2, Last: time.Now().Add(-ago)}
	}
	r := newRig(t, start{config: config, actions: []string{"firewall"}, loaded: state.Loaded{Offences: []state.Offence{
		offence("192.0.2.1/32", 13*time.Hour), offence("192.0.2.2/32", 11*time.Hour),
	}}})
	if u := r.one(); len(u.ForgetOffences) != 1 || u.ForgetOffences[0].Target != pfx("192.0.2.1/32") {
		t.Errorf("at the start: %+v, want one offence forgotten", u)
	}
	r.requests("192.0.2.1", "192.0.2.2")
	for target, offence := range map[string]int{"192.0.2.1/32": 1, "192.0.2.2/32": 3} {
		r.journal.want(t, 1, "banned", "target", target, "offence", offence)
	}
}
