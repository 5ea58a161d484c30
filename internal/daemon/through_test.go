package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// Why a banned client's requests still arrive.
func TestThrough(t *testing.T) {
	const forwarding = `format = "nginx"` + "\n"
	for _, c := range []struct {
		name     string
		config   string
		firewall func(*fakeFirewall)
		line     func(client string, at time.Time) string
		quiet    bool // no request since the ban
		want     string
	}{
		{name: "observed only", config: `mode = "observe"`, want: "nothing is enforced"},
		{name: "forwarded", config: `trusted_proxies = ["198.51.100.1"]`,
			line: func(client string, at time.Time) string {
				return strings.TrimSuffix(line("198.51.100.1", at), "\n") + ` "` + client + "\"\n"
			},
			want: "its requests come through a proxy, and the kernel only sees the proxy's address"},
		{name: "failing action", firewall: func(f *fakeFirewall) { f.err = errors.New("no such table") },
			want: "action firewall is failing: "},
		{name: "not held", firewall: func(f *fakeFirewall) { f.loses = true }, want: "action firewall does not hold the ban"},
		{name: "the action can't tell", firewall: func(f *fakeFirewall) { f.blind = errors.New("no answer") },
			want: "action firewall can't tell what it holds: no answer"},
		{name: "no packets", want: "no packet of it has met the rule"},
		{name: "dropped as well", firewall: func(f *fakeFirewall) { f.packets = 3 }, want: "packets are dropped as well"},
		{name: "nothing gets through", quiet: true, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			jail := enforced
			if c.line == nil {
				c.line = line
			} else {
				jail = forwarding + jail
			}
			l := newLive(t, s, c.config+"\n"+s.config(jail), nil)
			if c.firewall != nil {
				// Its first full pass would otherwise meet what is set here, or not.
				wait(t, "the first full pass", func() bool { return l.d.enforcer("firewall").reconciler.Stats().Passes > 0 })
				l.firewall.set(c.firewall)
			}
			s.write(strings.Repeat(c.line("203.0.113.1", time.Now()), 3))
			l.counted(3)
			// The action has done what it can, or is known to fail.
			wait(t, "the action", func() bool {
				for _, a := range l.status().Actions {
					if !a.Failing && !l.firewall.holds("203.0.113.1/32") {
						return false
					}
				}
				return true
			})
			n := 3
			if !c.quiet {
				later := c.line("203.0.113.1", time.Now().Add(2*time.Second)) // a log has no parts of a second
				s.write(later, later)
				n += 2
			}
			l.counted(n)
			x := l.explain("203.0.113.1")
			if c.quiet {
				if x.Through != "" || len(x.Bans) != 1 {
					t.Errorf("nothing got through %+v, and it says: %q", x.Bans, x.Through)
				}
			} else if !strings.HasPrefix(x.Through, "2 requests since the ban, the latest at ") || !strings.Contains(x.Through, c.want) {
				t.Errorf("it says: %q, want …%s…", x.Through, c.want)
			}
			l.stop()
		})
	}
}

// Of several owners one that came through a proxy is enough.
func TestThroughOfAForwardedOwner(t *testing.T) {
	d := newDaemon(Options{Config: parse(t, web), Log: (&journal{}).logger()})
	b := &control.Ban{Owners: []control.Owner{{Plane: "direct"}, {Plane: "forwarded"}}}
	if got := d.whyThrough(b); !strings.Contains(got, "come through a proxy") {
		t.Errorf("it says: %q", got)
	}
}
