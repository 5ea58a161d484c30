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
	for _, c := range []struct {
		name     string
		config   string
		firewall func(*fakeFirewall)
		log      string // of the log's configuration
		line     func(client string, at time.Time) string
		after    time.Duration // of the requests since the ban; 0: long
		quiet    bool          // no request since the ban
		want     string
	}{
		{name: "observed only", config: `mode = "observe"`, want: "nothing is enforced"},
		{name: "forwarded", config: `trusted_proxies = ["198.51.100.1"]`, log: `format = "nginx"`,
			line: func(client string, at time.Time) string {
				return strings.TrimSuffix(line("198.51.100.1", at), "\n") + ` "` + client + "\"\n"
			},
			want: "its requests come through a proxy, and the kernel only sees the proxy's address"},
		{name: "rewritten peer", log: `peer = "rewritten"`,
			want: "its requests come through a proxy, and the kernel only sees the proxy's address"},
		{name: "failing action", firewall: func(f *fakeFirewall) { f.err = errors.New("no such table") },
			want: "action firewall is failing: "},
		{name: "not held", firewall: func(f *fakeFirewall) { f.loses = true }, want: "action firewall does not hold the ban"},
		{name: "no room", firewall: func(f *fakeFirewall) { f.full = true }, want: "action firewall is full: it has no room"},
		{name: "the action can't tell", firewall: func(f *fakeFirewall) { f.blind = errors.New("no answer") },
			want: "action firewall can't tell what it holds: no answer"},
		{name: "no packets", want: "no packet of it has met the rule: it comes to a port that the action does not cover, or from one container to another"},
		{name: "in flight", after: 2 * time.Second, want: "they were in flight when it was banned"},
		{name: "dropped as well", firewall: func(f *fakeFirewall) { f.packets = 3 }, want: "packets are dropped as well: these came another way"},
		{name: "nothing gets through", quiet: true, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			if c.line == nil {
				c.line = line
			}
			if c.after == 0 {
				c.after = time.Minute
			}
			l := newLive(t, s, c.config+"\n"+s.config(c.log+enforced), nil)
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
					if !a.Failing && a.LeftOut == 0 && !l.firewall.holds("203.0.113.1/32") {
						return false
					}
				}
				return true
			})
			n := 3
			if !c.quiet {
				later := c.line("203.0.113.1", time.Now().Add(c.after))
				s.write(later, later)
				n += 2
			}
			l.counted(n)
			x := l.explain("203.0.113.1")
			l.wantSeen(c.name, x)
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

// wantSeen checks what the status says of the requests that an explanation
// tells of: those that the firewall should have kept away, if it should.
func (l *live) wantSeen(name string, x *control.Explanation) {
	l.siteFiles.Helper()
	var want, proxied uint64
	for _, b := range x.Bans {
		if !b.Observed {
			want, proxied = want+b.Seen, proxied+b.SeenForwarded
		}
	}
	for _, a := range l.status().Actions {
		if a.Seen != want || a.SeenForwarded != proxied {
			l.siteFiles.Errorf("the status tells of %d requests that got through at %s, %d of them by a proxy, want %d and %d", a.Seen, a.Name, a.SeenForwarded, want, proxied)
		}
	}
	if through := name == "forwarded" || name == "rewritten peer"; through != (proxied > 0) {
		l.siteFiles.Errorf("%d requests came by a proxy", proxied)
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
