package daemon

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// wantBans checks which bans an action is to enforce, and for how long.
func (r *rig) wantBans(action string, want map[string]time.Duration) {
	r.Helper()
	got := r.action[action].until
	for target, left := range want {
		if until, ok := got[pfx(target)]; !ok || (until.Sub(r.now)-left).Abs() > time.Minute {
			r.Errorf("%s is banned for %v, want %v", target, until.Sub(r.now), left)
		}
	}
	if len(got) != len(want) || len(r.bans.bans) != len(want) {
		r.Errorf("banned are %v, of %d in the table; want %v", slices.Collect(maps.Keys(got)), len(r.bans.bans), want)
	}
}

// Networks that come together at a start, from the state and the kernel, or from a
// state file that comes late, end up as one ban, the wider one, which lasts as long
// as either would have. The next daemon finds that.
func TestNetworksThatComeTogether(t *testing.T) {
	const narrow, wide = "203.0.113.0/24", "203.0.112.0/20"
	now := time.Now()
	stored := func(target string, length time.Duration) []state.Ban {
		return []state.Ban{held(target, now, length, control.ByHand, "firewall")}
	}
	inKernel := func(target string, left time.Duration) map[string][]actions.Entry {
		return map[string][]actions.Entry{"firewall": {{Target: pfx(target), Left: left}}}
	}
	both := func(a, b time.Duration) []state.Ban { return append(stored(narrow, a), stored(wide, b)...) }
	for _, c := range []struct {
		name         string
		loaded, late []state.Ban
		holds        map[string][]actions.Entry
		want         time.Duration // of the wide one
	}{
		{"what was absorbed is in the kernel", stored(wide, 2*time.Hour), nil, inKernel(narrow, time.Hour), 2 * time.Hour},
		{"what absorbed is not stored", stored(narrow, time.Hour), nil, inKernel(wide, 2*time.Hour), 2 * time.Hour},
		{"not stored, and shorter", stored(narrow, 2*time.Hour), nil, inKernel(wide, time.Hour), 2 * time.Hour},
		{"both stored", both(time.Hour, 2*time.Hour), nil, nil, 2 * time.Hour},
		{"both stored, the narrow one longer", both(2*time.Hour, time.Hour), nil, nil, 2 * time.Hour},
		{"a narrow one comes late", stored(wide, 2*time.Hour), stored(narrow, time.Hour), nil, 2 * time.Hour},
		{"a narrow one comes late, and is longer", stored(wide, time.Hour), stored(narrow, 2*time.Hour), nil, 2 * time.Hour},
		{"a wide one comes late", stored(narrow, time.Hour), stored(wide, 2*time.Hour), nil, 2 * time.Hour},
		{"a wide one comes late, and is shorter", stored(narrow, 2*time.Hour), stored(wide, time.Hour), nil, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk()
			d.commit(state.Update{Bans: append(slices.Clone(c.loaded), c.late...)})
			r := newRig(t, start{config: strict, actions: []string{"firewall"}, loaded: state.Loaded{Bans: c.loaded}, holds: c.holds})
			if c.late != nil {
				r.restoreLate(&state.Loaded{Bans: c.late}, r.now)
			}
			want := map[string]time.Duration{wide: c.want}
			r.wantBans("firewall", want)
			r.requests("203.0.112.9", "203.0.112.9", "203.0.112.9", "203.0.113.9", "203.0.113.9", "203.0.113.9")
			r.journal.want(t, 0, "banned")
			for _, u := range r.took() {
				d.commit(u)
			}
			if x := d.loaded().Bans; len(x) != 1 || x[0].Target != pfx(wide) {
				t.Errorf("stored are %v", x)
			}
			next := newRig(t, start{config: strict, actions: []string{"firewall"}, loaded: d.loaded()})
			next.wantBans("firewall", want)
		})
	}
}

// Addresses are no part of a network, nor is a network beside it.
func TestNetworksThatStayApart(t *testing.T) {
	now := time.Now()
	var l state.Loaded
	want := map[string]time.Duration{}
	for _, target := range []string{"203.0.113.0/24", "203.0.114.0/24", "203.0.113.1/32", "2001:db8::/48", "2001:db8:0:1::/64", "2001:db8:1::/48"} {
		l.Bans = append(l.Bans, held(target, now, time.Hour, control.ByHand, "firewall"))
		want[target] = time.Hour
	}
	newRig(t, start{config: strict, actions: []string{"firewall"}, loaded: l}).wantBans("firewall", want)
}

// The kernel has not heard that a network was absorbed, and lets it go for the one
// that is banned now.
func TestAbsorbedNetworkDoesNotComeBack(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	c := l.daemon(l.config(firewalled))
	narrow, wide := pfx("203.0.113.0/24"), pfx("203.0.112.0/20")
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: narrow, For: 3600})
	check(t, err)
	got, err := l.client().Ban(t.Context(), control.BanRequest{Target: wide, For: 7200})
	check(t, err)
	if len(got.Absorbed) != 1 {
		t.Fatalf("%+v", got)
	}
	only := func() bool { return slices.Equal(l.targets(), []string{wide.String()}) }
	wait(t, "the wide one alone", only)
	c.stop()
	l.apply([]actions.Entry{{Target: narrow, Left: 59 * time.Minute}}, wide)

	c = l.daemon(l.config(firewalled))
	c.journal.want(t, 0, "took over bans that are in force and not in the state")
	wait(t, "the wide one alone", only)
	c.journal.want(t, 0, "ban refused by the action")
	c.stop()
}
