package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// next is the next daemon on what this one has had stored.
func (r *rig) next(config string) *rig {
	r.Helper()
	d := newDisk()
	for _, u := range r.took() {
		d.commit(u)
	}
	return newRig(r.T, start{config: config, actions: []string{"firewall"}, loaded: d.loaded()})
}

// Whoever is banned by hand after being forgiven stays banned over a restart,
// whoever else was forgiven with him.
func TestHandBanAfterForgivenessStays(t *testing.T) {
	for _, c := range []struct{ name, forgiven, banned, jail string }{
		{"the same", "192.0.2.1/32", "192.0.2.1/32", ""},
		{"by the name of a jail", "192.0.2.1/32", "192.0.2.1/32", "web"},
		{"one of a network", "192.0.2.0/24", "192.0.2.1/32", ""},
		{"the network around", "192.0.2.1/32", "192.0.2.0/24", ""},
		{"all", "0.0.0.0/0", "192.0.2.1/32", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: strict, actions: []string{"firewall"}})
			_, err := r.unban(release{target: pfx(c.forgiven), forgive: 24 * time.Hour, by: "uid 0"}, r.now)
			check(t, err)
			r.now = r.now.Add(time.Minute)
			_, err = r.ban(order{target: pfx(c.banned), length: 7 * 24 * time.Hour, jail: c.jail, by: "uid 0"}, r.now)
			check(t, err)
			again := r.next(strict)
			if _, enforced := again.action["firewall"].until[pfx(c.banned)]; !enforced {
				t.Error("the ban is gone after a restart")
			}
		})
	}
}

// A ban by hand ends the forgiveness of its target and of all in it, also for the
// next daemon. Wider networks stay forgiven: that is about others as well.
func TestHandBanEndsForgiveness(t *testing.T) {
	for _, c := range []struct {
		name, forgiven, banned string
		counts                 bool
	}{
		{"the same", "192.0.2.1/32", "192.0.2.1/32", true},
		{"in it", "192.0.2.1/32", "192.0.2.0/24", true},
		{"around it", "192.0.2.0/24", "192.0.2.1/32", false},
		{"beside it", "192.0.2.1/32", "192.0.2.9/32", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: strict, actions: []string{"firewall"}})
			_, err := r.unban(release{target: pfx(c.forgiven), forgive: 24 * time.Hour}, r.now)
			check(t, err)
			_, err = r.ban(order{target: pfx(c.banned), length: time.Minute}, r.now)
			check(t, err)
			for _, r := range []*rig{r.next(strict), r} { // the next one first: this one goes on
				r.now = r.now.Add(2 * time.Minute)
				r.expire(r.now)
				r.requests("192.0.2.1", "192.0.2.1", "192.0.2.1")
				if banned := r.bans.bans[pfx("192.0.2.1/32")] != nil; banned != c.counts {
					t.Errorf("banned is %v when the ban by hand is over, want %v", banned, c.counts)
				}
			}
		})
	}
}

// What was forgiven of the past stays so: it may be read again.
func TestHandBanLeavesThePastForgiven(t *testing.T) {
	r := newRig(t, start{config: strict, actions: []string{"firewall"}})
	past := r.now.Add(-time.Second)
	_, err := r.unban(release{target: pfx("192.0.2.1/32")}, r.now)
	check(t, err)
	_, err = r.ban(order{target: pfx("192.0.2.1/32"), length: time.Minute}, r.now)
	check(t, err)
	r.now = r.now.Add(2 * time.Minute)
	r.expire(r.now)
	r.batch(r.lines(line("192.0.2.1", past), line("192.0.2.1", past), line("192.0.2.1", past)), r.now)
	r.journal.want(t, 0, "banned")
}

// A state file that comes late holds bans from before an unban: they are lifted,
// those by hand as well, and also if the file says that they had been forgiven
// for longer. Those from behind it are not.
func TestUnbanHoldsAgainstALateFile(t *testing.T) {
	now := time.Now()
	hand := held("192.0.2.1/32", now.Add(-time.Hour), 9*time.Hour, control.ByHand, "firewall")
	hand.Owners[0].By = "uid 0"
	long := state.Pardon{Target: hand.Target, Since: now.Add(-2 * time.Hour), Before: now.Add(48 * time.Hour), Keep: now.Add(50 * time.Hour)}
	for _, c := range []struct {
		name   string
		loaded state.Loaded
		jail   string
		banned bool
	}{
		{"by hand", state.Loaded{Bans: []state.Ban{hand}}, "", false},
		{"by hand, forgiven before", state.Loaded{Bans: []state.Ban{hand}, Pardons: []state.Pardon{long}}, "", false},
		{"by a jail", state.Loaded{Bans: []state.Ban{held("192.0.2.1/32", now.Add(-time.Hour), 9*time.Hour, "web", "firewall")}}, "web", false},
		{"by another jail", state.Loaded{Bans: []state.Ban{held("192.0.2.1/32", now.Add(-time.Hour), 9*time.Hour, "other", "firewall")}}, "web", true},
		{"later", state.Loaded{Bans: []state.Ban{held("192.0.2.1/32", now.Add(time.Hour), 9*time.Hour, "web", "firewall")}}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: strict, actions: []string{"firewall"}})
			_, err := r.unban(release{target: pfx("192.0.2.1/32"), jail: c.jail}, r.now)
			check(t, err)
			r.restoreLate(&c.loaded, r.now)
			if banned := len(r.action["firewall"].until) > 0; banned != c.banned {
				t.Errorf("banned is %v, want %v", banned, c.banned)
			}
		})
	}
}
