package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/state"
)

// Bans that had their turn as the last daemon was killed don't wait again, and
// nobody else is said to want them: the kernel holds them. Stored is so, too.
func TestBanThatHadItsTurn(t *testing.T) {
	now := time.Now()
	var bans []state.Ban
	for _, target := range []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32"} {
		b := held(target, now, time.Hour, "web", "firewall")
		b.Waiting = true
		bans = append(bans, b)
	}
	entries := []actions.Entry{
		{Target: pfx("192.0.2.1/32"), Left: 59 * time.Minute}, {Target: pfx("192.0.2.2/32"), Left: 59 * time.Minute}, {Target: pfx("192.0.2.3/32"), Left: 59 * time.Minute},
		{Target: pfx("192.0.2.4/32"), Left: time.Second}, // of a ban before
	}
	r := newRig(t, start{config: slow, actions: []string{"firewall"}, loaded: state.Loaded{Bans: bans}, holds: map[string][]actions.Entry{"firewall": entries}})
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32")
	u := r.one()
	if targets(u) == "" || len(u.Bans) != 3 {
		t.Errorf("stored are %s", targets(u))
	}
	for i := range u.Bans {
		if b := &u.Bans[i]; b.Waiting || len(b.Owners) != 1 || b.Owners[0].Jail != "web" {
			t.Errorf("stored is %+v", b)
		}
	}
	r.journal.want(t, 0, "took over bans that are in force and not in the state")
	r.release(r.now)
	r.wantEnforced("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32")
}

// The same in the kernel.
func TestBanThatHadItsTurnInTheKernel(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	config := "max_bans_per_minute = 1\n" + l.config(firewalled)
	c := l.daemon(config)
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	var admitted []actions.Entry
	for _, addr := range []string{"192.0.2.2", "192.0.2.3"} {
		l.requests(addr, 1)
		c.waitSaid("banned", "target", addr+"/32", "waits", true)
		admitted = append(admitted, actions.Entry{Target: pfx(addr + "/32"), Left: 59 * time.Minute})
	}
	c.stop()
	l.apply(admitted)
	c = l.daemon(config)
	c.journal.want(t, 1, "bans compared with what the action held", "held", 3, "removed", 0)
	for _, addr := range []string{"192.0.2.2", "192.0.2.3"} {
		if l.left(addr) == 0 {
			t.Errorf("%s waits again", addr)
		}
		if owners := banOf(l, addr+"/32").Owners; len(owners) != 1 {
			t.Errorf("%s has the owners %+v", addr, owners)
		}
	}
	c.stop()
}
