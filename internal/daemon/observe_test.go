package daemon

import "testing"

func TestObserveEnforcesNothing(t *testing.T) {
	r := newRig(t, start{actions: []string{"firewall"}, config: `mode = "observe"` + "\n" + web})
	r.requests("192.0.2.1", "192.0.2.1")
	u := r.one()
	if len(u.Bans) != 1 || len(u.Offences) != 0 {
		t.Fatalf("got %+v, want a ban, and no offence: the first that is enforced is the first", u)
	}
	if got := u.Bans[0].Owners[0].Actions; len(got) != 0 {
		t.Errorf("stored as enforced by %v", got)
	}
	if r.action["firewall"].sets != 0 {
		t.Error("the action was asked to ban")
	}
	r.journal.want(t, 1, "would be banned (observe)", "target", "192.0.2.1/32")
	r.journal.want(t, 0, "banned")

	r.requests("192.0.2.1", "192.0.2.1")
	r.journal.want(t, 1, "would be banned (observe)")
}

// One jail observes, the other enforces, at the same line.
func TestObserveBesideEnforce(t *testing.T) {
	r := newRig(t, start{actions: []string{"firewall"}, config: web + `
[jails.trial]
limit = 1
window = "60s"
ban = "1d"
mode = "observe"
`})
	r.requests("192.0.2.1", "192.0.2.1")
	u := r.one()
	if len(u.Bans) != 1 || len(u.Bans[0].Owners) != 2 {
		t.Fatalf("got %+v, want one ban of two owners", u)
	}
	target := u.Bans[0].Target
	for _, o := range u.Bans[0].Owners {
		if (o.Jail == "trial") != (len(o.Actions) == 0) {
			t.Errorf("%s is enforced by %v", o.Jail, o.Actions)
		}
		if o.Jail == "web" && !r.action["firewall"].until[target].Equal(o.Until) {
			t.Errorf("enforced until %v, want %v", r.action["firewall"].until[target], o.Until)
		}
	}
}

// Observed bans must not push enforced ones out of the detector, which would
// then count events of banned clients.
func TestObservedBansTakeNoRoom(t *testing.T) {
	r := newRig(t, start{actions: []string{"firewall"}, config: "max_bans = 2\n" + web + `
[jails.trial]
limit = 1
window = "60s"
ban = "1d"
mode = "observe"
`})
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	if u := r.one(); len(u.Bans) != 2 || len(u.Offences) != 2 {
		t.Fatalf("got %+v, want two bans of two owners, and the offences of the enforced", u)
	}
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	if u := r.one(); len(u.Bans)+len(u.Offences) != 0 {
		t.Errorf("events of banned clients count: %+v", u)
	}
}
