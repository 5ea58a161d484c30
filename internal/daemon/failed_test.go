package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// A ban that an action can't take is shown as pending, tried again until it
// stands, and never taken for done: nor does what its client goes on to do make
// a second one of it.
func TestBanThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	wait(t, "the first full pass", func() bool { return l.d.enforcer("firewall").reconciler.Stats().Passes > 0 })
	l.firewall.set(func(f *fakeFirewall) { f.err = errors.New("no answer from 192.0.2.80") })
	s.requests("203.0.113.61", 3)
	wait(t, "it to be said", func() bool { a := l.status().Actions[0]; return a.Failing && a.Pending == 1 && a.Desired == 1 })
	later := line("203.0.113.61", time.Now().Add(10*time.Second))
	s.write(later, later, later, later)
	l.counted(7)
	x := l.explain("203.0.113.61")
	if at := x.Bans[0].Actions[0]; at.Held == nil || *at.Held {
		t.Errorf("shown as in force: %+v", at)
	}
	if x.Bans[0].Seen != 4 || len(x.Bans[0].Owners) != 1 || x.Bans[0].Owners[0].Offence != 1 {
		t.Errorf("its requests since made of it %+v", x.Bans[0])
	}
	l.firewall.set(func(f *fakeFirewall) { f.err = nil })
	wait(t, "the ban to stand", func() bool { return l.firewall.holds("203.0.113.61/32") })
	wait(t, "it to be said", func() bool { a := l.status().Actions[0]; return !a.Failing && a.Pending == 0 })
	l.stop()
	l.journal.want(t, 1, "banned")
}

// The longest bans that there are stand in the kernel with all of their time.
func TestLongestBansInTheKernel(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	const longest = 365 * 24 * time.Hour
	c := l.daemon(l.config(`
[jails.web]
limit = 0
window = "60s"
ban = "365d"
[actions.firewall]
type = "nftables"
`))
	l.requests("192.0.2.51", 1)
	l.requests("2001:db8::1", 1)
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx("203.0.113.0/24"), For: longest.Seconds()})
	check(t, err)
	var entries []actions.Entry
	wait(t, "the bans", func() bool {
		entries, err = l.firewall.List(context.Background())
		return err == nil && len(entries) == 3
	})
	for _, e := range entries {
		if e.Left > longest+clockSlack || e.Left < longest-time.Minute {
			t.Errorf("%s is banned for %v, want %v", e.Target, e.Left, longest)
		}
	}
	c.stop()
}
