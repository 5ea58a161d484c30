package daemon

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// An action that has not heard of an unban, as it failed or hung until the end,
// does not bring the ban back: whoever was let go by whom, all of the ban or what
// one jail wanted of it.
func TestUnbanThatAnActionHasNotHeard(t *testing.T) {
	const x = "192.0.2.1/32"
	for _, c := range []struct {
		name   string
		owners []string // jails, each with an action of its name
		unban  release
		want   string // the action that goes on
	}{
		{"all of it", []string{"web"}, release{target: pfx(x)}, ""},
		{"of the jail", []string{"web"}, release{target: pfx(x), jail: "web"}, ""},
		{"of the jail, whomever", []string{"web"}, release{jail: "web"}, ""},
		{"of the jail, by the breaker", []string{"web"}, release{target: pfx(x), jail: "web", by: control.ByBreaker}, ""},
		{"of one jail of two", []string{"web", "other"}, release{target: pfx(x), jail: "web"}, "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := held(x, time.Now(), 10*time.Hour, "web", "web")
			s := start{config: byName, actions: []string{"web", "other"}, holds: map[string][]actions.Entry{}}
			for _, name := range c.owners {
				o := b.Owners[0]
				o.Jail, o.Actions = name, []string{name}
				b.Owners = append(b.Owners, o)
				s.holds[name] = []actions.Entry{{Target: b.Target, Left: 9 * time.Hour}}
			}
			b.Owners = b.Owners[1:]
			s.loaded.Bans = []state.Ban{b}
			r := newRig(t, s)
			if len(r.action["web"].until) != 1 {
				t.Fatal("it is not banned")
			}
			_, err := r.unban(c.unban, r.now)
			check(t, err)
			r.upkeep(r.now.Add(8 * time.Hour)) // the action fails for longer than any line could be late
			d := newDisk()
			d.commit(state.Update{Bans: []state.Ban{b}})
			r.handOver()
			for _, u := range r.took() {
				d.commit(u)
			}

			s.loaded = d.loaded()
			next := newRig(t, s)
			for name, a := range next.action {
				if _, held := a.until[b.Target]; held != (name == c.want) {
					t.Errorf("by action %s it is banned: %v", name, held)
				}
			}
			next.journal.want(t, 0, "took over bans that are in force and not in the state")
		})
	}
}

// byName has each jail enforce by an action of its name.
const byName = site + `
[jails.web]
limit = 2
window = "60s"
ban = "10h"
actions = ["web"]
[jails.other]
limit = 1000
window = "60s"
ban = "10h"
actions = ["other"]
[actions.web]
type = "nftables"
table = "web"
[actions.other]
type = "nftables"
table = "other"
`

// A pardon for what an action may not have heard is kept for as long as the ban
// would have run, but no longer than a day.
func TestPardonIsKeptForWhatItLifted(t *testing.T) {
	for _, c := range []struct{ length, keep time.Duration }{
		{time.Minute, time.Minute + pardonRest}, {5 * time.Hour, 5 * time.Hour}, {10 * 24 * time.Hour, maxUnheard},
	} {
		r := newRig(t, start{config: strict, actions: []string{"firewall"}})
		_, err := r.ban(order{target: pfx("192.0.2.1/32"), length: c.length}, r.now)
		check(t, err)
		r.took()
		_, err = r.unban(release{target: pfx("192.0.2.1/32")}, r.now)
		check(t, err)
		if got := r.one().Pardons[0].Keep.Sub(r.now); got != c.keep {
			t.Errorf("a pardon of a ban of %v is kept for %v, want %v", c.length, got, c.keep)
		}
	}
}

// apply has the kernel hold and not hold what somebody else wants, while no daemon
// runs.
func (l *kernelLab) apply(add []actions.Entry, remove ...netip.Prefix) {
	l.Helper()
	check(l, l.firewall.Prepare(l.Context()))
	if len(remove) > 0 { // first, as networks must not overlap
		check(l, l.firewall.Apply(l.Context(), nil, remove))
	}
	check(l, l.firewall.Apply(l.Context(), add, nil))
}

// The same in the kernel, which holds what an unban has lifted.
func TestUnbanThatTheKernelHasNotHeard(t *testing.T) {
	t.Parallel()
	for _, jail := range []string{"", "web"} {
		t.Run("jail="+jail, func(t *testing.T) {
			l := newKernelLab(t)
			c := l.daemon(l.config(firewalled))
			l.requests("192.0.2.1", 1)
			l.waitHeld("192.0.2.1")
			got, err := l.client().Unban(t.Context(), control.UnbanRequest{Target: pfx("192.0.2.1/32"), Jail: jail})
			check(t, err)
			if got.Lifted != 1 {
				t.Fatalf("%+v", got)
			}
			c.stop()
			l.apply([]actions.Entry{{Target: pfx("192.0.2.1/32"), Left: 50 * time.Minute}})
			c = l.daemon(l.config(firewalled))
			c.journal.want(t, 1, "bans compared with what the action held", "held", 1, "removed", 1)
			if left := l.left("192.0.2.1"); left > 0 {
				t.Errorf("who was unbanned is banned for %v", left)
			}
			c.stop()
		})
	}
}
