package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// request is a line in the combined format with everything in it.
func request(client, method, target string) string {
	return fmt.Sprintf("%s - alice [%s] \"%s %s HTTP/1.1\" 401 5 \"https://referer.example/\" \"curl/8\"\n",
		client, time.Now().Format("02/Jan/2006:15:04:05 -0700"), method, target)
}

// Every conclusion that there is, each with the reason in its sentence.
func TestConclusions(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, `allow = ["198.51.100.1", "office.example.net"]
trusted_proxies = ["198.51.100.200"]
`+s.config(`
[defaults]
limit = 2
window = "60s"
ban = "1h"
[jails.web]
where = { method = "GET" }
[jails.trial]
where = { method = "POST" }
mode = "observe"
[wanted.shop]
agent = "curl"
from = "203.0.113.240/28"
[actions.firewall]
type = "log"
`), func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("198.51.100.2")}, nil
		}
	})
	wait(t, "the host name", func() bool { _, yes := l.d.allow.allowed(netip.MustParseAddr("198.51.100.2")); return yes })
	for _, r := range []struct {
		client, method string
		n              int
	}{
		{"203.0.113.1", "GET", 3}, {"2001:db8::1", "GET", 3}, {"203.0.113.2", "POST", 3},
		{"198.51.100.1", "GET", 9}, {"198.51.100.2", "GET", 9}, {"203.0.113.4", "GET", 3}, {"127.0.0.1", "GET", 1},
		{"203.0.113.6", "GET", 1}, {"203.0.113.8", "HEAD", 1}, {"203.0.113.9", "GET", 1}, {"203.0.113.9", "POST", 2},
		{"203.0.113.241", "GET", 9},
	} {
		s.write(strings.Repeat(request(r.client, r.method, "/"), r.n))
	}
	l.counted(45)
	ctx := t.Context()
	_, err := l.d.Allow(ctx, control.Caller{}, control.AllowRequest{Target: pfx("203.0.113.4/32"), For: 3600})
	check(t, err)
	_, err = l.d.Unban(ctx, control.Caller{}, control.UnbanRequest{Target: pfx("203.0.113.5/32"), Forgive: 3600})
	check(t, err)
	_, err = l.d.Ban(ctx, control.Caller{}, control.BanRequest{Target: pfx("203.0.113.128/28")})
	check(t, err)
	for _, c := range []struct{ address, conclusion, text string }{
		{"203.0.113.1", control.Banned, "203.0.113.1 is banned until "},
		{"203.0.113.1", control.Banned, " by jail web"},
		{"2001:db8::2", control.Banned, ", as part of 2001:db8::/64"},
		{"203.0.113.130", control.Banned, " by hand, as part of 203.0.113.128/28"},
		{"203.0.113.2", control.Observed, " by jail trial, which enforces nothing"},
		{"198.51.100.1", control.Allowed, "never counted: allow in the configuration: 198.51.100.1/32"},
		{"198.51.100.2", control.Allowed, "never counted: allow in the configuration: office.example.net"},
		{"203.0.113.4", control.Allowed, "never counted: allowed by hand until 20"},
		{"127.0.0.1", control.Protected, "127.0.0.1 is never banned: "},
		{"198.51.100.200", control.Protected, "never banned: trusted proxy"},
		{"203.0.113.5", control.Forgiven, "not counted for now: it was forgiven"},
		{"203.0.113.6", control.Counted, "jail web has counted 1 in 1m, and bans at 3"},
		{"203.0.113.9", control.Counted, "jail trial has counted 2 in 1m, and bans at 3"}, // the fuller one
		{"203.0.113.8", control.Counted, "of the latest 1 of its lines in the ends of the logs, most ended at: "},
		{"203.0.113.241", control.Counted, "of the latest 9 of its lines in the ends of the logs, most ended at: wanted agent: shop, by its addresses"},
		{"203.0.113.99", control.Unseen, "there is no line of it"},
	} {
		if x := l.explain(c.address); x.Conclusion != c.conclusion || !strings.Contains(x.Text, c.text) {
			t.Errorf("%s: %s, %q, want %s, …%s…", c.address, x.Conclusion, x.Text, c.conclusion, c.text)
		}
	}
	l.stop()
}

// What the bans, the windows, the offences and the pardons say of an address
// is there in numbers, too.
func TestExplanationInNumbers(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(strings.Replace(enforced, `"1h"`, `["1h", "6h"]`, 1)), nil)
	s.requests("203.0.113.1", 3)
	s.requests("203.0.113.2", 1)
	l.counted(4)
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.1/32") })
	l.firewall.set(func(f *fakeFirewall) { f.packets = 7 })
	x := l.explain("203.0.113.1")
	if len(x.Bans) != 1 || len(x.Bans[0].Owners) != 1 || len(x.Bans[0].Actions) != 1 {
		t.Fatalf("bans %+v", x.Bans)
	}
	if o := x.Bans[0].Owners[0]; o.Count != 3 || o.Limit != 2 || o.Window != 60 || o.Plane != "direct" || o.File != s.log || o.Offset == 0 {
		t.Errorf("owner %+v", o)
	}
	if a := x.Bans[0].Actions[0]; a.Held == nil || !*a.Held || a.Packets == nil || *a.Packets != 7 || a.Ends.IsZero() {
		t.Errorf("at the action %+v", a)
	}
	if len(x.Offences) != 1 || x.Offences[0].Count != 1 || x.Offences[0].Next != (6*time.Hour).Seconds() {
		t.Errorf("offences %+v", x.Offences)
	}
	if x := l.explain("203.0.113.2"); len(x.Fill) != 1 || x.Fill[0].Count != 1 || x.Fill[0].Limit != 2 || x.Fill[0].First.IsZero() || len(x.Bans)+len(x.Offences) != 0 {
		t.Errorf("the other one: %+v", x)
	}
	_, err := l.d.Unban(t.Context(), control.Caller{UID: 7}, control.UnbanRequest{Target: pfx("203.0.113.0/30"), Reason: "mistake"})
	check(t, err)
	x = l.explain("203.0.113.1")
	if len(x.Forgiven) != 1 || x.Forgiven[0].By != "uid 7" || x.Forgiven[0].Reason != "mistake" || len(x.Bans)+len(x.Fill)+len(x.Offences) != 0 {
		t.Errorf("after an unban: %+v", x)
	}
	l.stop()
}
