package daemon

import (
	"testing"
	"time"
)

// Lines from two hours ago are caught up with: the offence counts for the
// next ban, but a ban of an hour would be over.
func TestPastDecisionIsAnOffenceOnly(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	old := line("192.0.2.1", r.now.Add(-2*time.Hour))
	r.batch(r.lines(old, old), r.now)
	u := r.one()
	if len(u.Offences) != 1 || len(u.Bans) != 0 || len(u.Unbans) != 0 {
		t.Fatalf("got %+v, want an offence and no ban", u)
	}
	if r.action["firewall"].sets != 0 {
		t.Error("the action was asked to ban")
	}
	r.journal.want(t, 1, "offence found while catching up; its ban would be over", "offence", 1)

	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Offence != 2 {
		t.Errorf("got %+v, want the second offence banned", u)
	}
}
