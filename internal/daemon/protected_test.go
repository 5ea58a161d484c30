package daemon

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/state"
)

// An address that becomes our own is let go at once, and stays uncounted.
func TestBanOfWhatIsProtectedNowIsLifted(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2")
	r.one()
	r.engine.upkeep(r.now) // nothing has changed
	own := pfx("192.0.2.1/32")
	r.engine.guard.Update([]guard.Entry{{Prefix: own, Reason: "own address"}})
	r.engine.upkeep(r.now)
	u := r.one()
	if len(u.Unbans) != 1 || u.Unbans[0] != own {
		t.Fatalf("got %+v, want one unban", u)
	}
	if _, held := r.action["firewall"].until[own]; held {
		t.Error("still enforced")
	}
	if _, held := r.action["firewall"].until[pfx("192.0.2.2/32")]; !held {
		t.Error("another ban was lifted, too")
	}
	r.journal.want(t, 1, "ban lifted: its target is protected now")
}

// A state file that can be opened only later brings its bans with it.
func TestStateThatComesLate(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.2", "192.0.2.2")
	r.one()
	since := r.now.Add(-20 * time.Minute)
	r.engine.restoreLate(&state.Loaded{
		Bans: []state.Ban{
			held("192.0.2.1/32", since, time.Hour, "web", "firewall"),
			held("192.0.2.2/32", since, time.Hour, "web", "firewall"), // banned anew since
		},
		Offences: []state.Offence{{Jail: "web", Target: pfx("192.0.2.3/32"), Count: 4, Last: since}},
	}, r.now)
	for target, want := range map[string]time.Duration{"192.0.2.1/32": 40 * time.Minute, "192.0.2.2/32": time.Hour} {
		left := r.action["firewall"].until[netip.MustParsePrefix(target)].Sub(r.now)
		if left < want-time.Minute || left > want+time.Second {
			t.Errorf("%s is enforced for %v, want %v", target, left, want)
		}
	}
	r.took()
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.3", "192.0.2.3")
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Offence != 5 {
		t.Errorf("got %+v, want the fifth offence of 192.0.2.3 and nothing else", u)
	}
}
