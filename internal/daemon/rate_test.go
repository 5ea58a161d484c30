package daemon

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// slow has two bans a minute enforced.
const slow = "max_bans_per_minute = 2\n" + site + `
[jails.web]
limit = 0
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
`

// enforced are the targets that the firewall was told of, in order.
func (r *rig) enforced() []string {
	var out []string
	for target := range r.action["firewall"].until {
		out = append(out, target.String())
	}
	slices.Sort(out)
	return out
}

func (r *rig) wantEnforced(want ...string) {
	r.Helper()
	if got := r.enforced(); !slices.Equal(got, want) {
		r.Errorf("enforced are %v, want %v", got, want)
	}
}

// More bans than there may be in a minute are decided and stored at once, and
// enforced at that rate, the worst first.
func TestStormGoesOnAtItsRate(t *testing.T) {
	r := newRig(t, start{config: slow, actions: []string{"firewall"}})
	for i := range 6 {
		r.requests(fmt.Sprintf("192.0.2.%d", i+1))
	}
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32")
	u := r.took()
	stored := map[string]bool{}
	for i := range u {
		for _, b := range u[i].Bans {
			stored[b.Target.String()] = b.Waiting
		}
	}
	if len(stored) != 6 || stored["192.0.2.2/32"] || !stored["192.0.2.3/32"] {
		t.Errorf("stored as waiting: %v", stored)
	}
	r.journal.want(t, 1, "more bans than max_bans_per_minute: the worst come first, the others wait")

	// 192.0.2.5 goes on: it is the next. Its requests are younger than its ban.
	later := line("192.0.2.5", r.now.Add(2*time.Second))
	r.batch(r.lines(later, later, later), r.now)
	r.now = r.now.Add(20 * time.Second)
	r.release(r.now)
	r.took()
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32")
	if next := r.storm.next(r.now).Sub(r.now); next < 9*time.Second || next > 11*time.Second {
		t.Errorf("the next comes in %v, want 10s", next)
	}
	r.now = r.now.Add(11 * time.Second)
	r.release(r.now)
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.5/32")
	r.handOver()
	if b := r.one().Bans; len(b) != 1 || b[0].Waiting || b[0].Target != pfx("192.0.2.5/32") {
		t.Errorf("stored after its turn: %+v", b)
	}
	r.now = r.now.Add(10 * time.Minute) // no more than one minute's are saved up
	r.release(r.now)
	if got := len(r.enforced()); got != 5 {
		t.Errorf("%d enforced, want 5", got)
	}
	r.now = r.now.Add(time.Minute)
	r.release(r.now)
	if got := len(r.enforced()); got != 6 {
		t.Errorf("%d enforced, want 6", got)
	}
	r.journal.want(t, 1, "no ban waits any longer", "waited", 4)
}

// What waits can be unbanned, ends at its time, is enforced by hand at once, and
// makes room like any other.
func TestWaitingBansAreBans(t *testing.T) {
	r := newRig(t, start{config: "max_bans = 5\n" + slow, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")
	_, err := r.unban(release{target: pfx("192.0.2.3/32")}, r.now)
	check(t, err)
	_, err = r.ban(order{target: pfx("192.0.2.4/32")}, r.now)
	check(t, err)
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.4/32")
	if r.bans.waiting.len() != 1 {
		t.Errorf("%d wait, want 1", r.bans.waiting.len())
	}
	if r.storm.take(r.now) {
		t.Error("there is a token left")
	}
	r.now = r.now.Add(2 * time.Hour)
	r.expire(r.now)
	if len(r.bans.bans) != 0 || r.bans.waiting.len() != 0 {
		t.Errorf("%d bans, %d waiting behind their end", len(r.bans.bans), r.bans.waiting.len())
	}
}

// A restart leaves those that wait waiting, and the others in force.
func TestWaitingSurvivesRestart(t *testing.T) {
	now := time.Now()
	bans := []state.Ban{held("192.0.2.1/32", now, time.Hour, "web", "firewall"), held("192.0.2.2/32", now, time.Hour, "web", "firewall"), held("192.0.2.3/32", now, time.Hour, "web", "firewall"), held("192.0.2.4/32", now, time.Hour, "web", "firewall")}
	bans[3].Waiting = true
	r := newRig(t, start{config: slow, actions: []string{"firewall"}, loaded: state.Loaded{Bans: bans}})
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32")
	r.release(r.now)
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32")
}

// A ban in force is extended by another jail whatever waits.
func TestExtensionDoesNotWait(t *testing.T) {
	r := newRig(t, start{config: slow + `
[jails.post]
limit = 0
window = "60s"
ban = "7d"
where = { path = "/long" }
`, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.2", "192.0.2.3")
	b := r.bans.bans[pfx("192.0.2.1/32")]
	r.bans.put(b.Target, "here", state.Owner{Jail: "post", Since: r.now, Until: r.now.Add(7 * 24 * time.Hour), Actions: []string{"firewall"}})
	r.enforceInTurn(&b.Ban, r.now)
	if until := r.action["firewall"].until[b.Target]; until.Sub(r.now) < 6*24*time.Hour {
		t.Errorf("not extended: until %v", until)
	}
	if b.Waiting || r.bans.waiting.len() != 1 {
		t.Error("the extension waits")
	}
}
