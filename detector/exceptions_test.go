package detector

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

func pfx(ss ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range ss {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

type fakeGuard map[string]string // target → reason, or "→" and a narrower target

func (g fakeGuard) Check(_ string, target netip.Prefix, client netip.Addr) (netip.Prefix, string) {
	r := g[target.String()]
	if r == "shared" {
		r = ""
	}
	if narrow, ok := strings.CutPrefix(r, "→"); ok {
		return netip.MustParsePrefix(narrow), ""
	}
	return target, r
}

func (g fakeGuard) Shared(network netip.Prefix) bool { return g[network.String()] == "shared" }

// line writes a line of the nginx format, sec seconds after a fixed time.
func line(peer string, sec int, request string, status int, agent, forward string) string {
	at := time.Unix(0, second(sec)).UTC().Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf(`%s - - [%s] "%s" %d 5 "-" "%s" "%s"`, peer, at, request, status, agent, forward)
}

func second(sec int) int64 {
	return time.Date(2026, 3, 5, 10, 0, sec, 0, time.UTC).UnixNano()
}

// The order of exceptions is a contract: each step, and each pair of steps
// whose order matters, has a line here.
func TestOrderOfExceptions(t *testing.T) {
	e := NewEngine(Options{
		Trusted: pfx("192.0.2.1/32", "10.0.0.0/8"),
		Allow:   pfx("198.51.100.7/32", "2001:db8:a::/48", "10.7.7.7/32"),
		Wanted:  []Wanted{{Name: "uptime", Agents: []string{"UptimeBot"}, Limit: 2, Window: time.Minute}},
		Deny:    &Deny{Agents: []string{"sqlmap"}, From: pfx("203.0.114.0/24", "2001:db8:e::/48", "198.51.100.0/24", "10.8.0.0/16"), Ban: bans(time.Hour)},
		Guard:   fakeGuard{"203.0.113.99/32": "own address", "192.0.2.1/32": "trusted proxy", "10.8.1.1/32": "trusted proxy", "2001:db8:b:1::/64": "→2001:db8:b:1::5/128", "2001:db8:d::/64": "shared"},
		Jails: []Jail{
			{Name: "zero", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Minute),
				Where: Where{Match: Conditions{Paths: paths(t, "/trap")}}},
			{Name: "three", Logs: []string{"l"}, Limit: 2, Window: 10 * time.Second, Ban: bans(time.Minute),
				Where: Where{Not: Conditions{Paths: paths(t, "/uncounted")}}},
			{Name: "elsewhere", Logs: []string{"other"}, Limit: 0, Window: time.Second, Ban: bans(time.Minute)},
		},
	})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	const proxy, stranger = "192.0.2.1", "203.0.113.5"
	steps := []struct {
		why, line string
		want      string // step, then decisions
	}{
		{"1: garbage", "what is this", "unparsed"},
		{"1: garbage with an address is counted, never banned", "203.0.113.5 GET /trap", "unparsed"},
		{"1: empty", "", "not a record"},
		{"2: a header that names no client counts for nobody, also on a trap", line(proxy, 0, "GET /trap HTTP/1.1", 200, "x", "unknown"), "no client"},
		{"2 before 3: … also if the peer is allowed", line("10.7.7.7", 0, "GET /trap HTTP/1.1", 200, "x", "unknown"), "no client"},
		{"2 before 5: … also with a denied agent", line(proxy, 0, "GET /trap HTTP/1.1", 200, "sqlmap", "127.0.0.1"), "no client"},
		{"2: a stranger's header is ignored: an allowed address in it helps nobody", line(stranger, 0, "GET /trap HTTP/1.1", 200, "x", "198.51.100.7"), "counted zero:203.0.113.5/32#1"},
		{"7: a banned target counts for efficacy only", line(stranger, 1, "GET /trap HTTP/1.1", 200, "x", "-"), "already banned"},
		{"7: … until its time is up, and then offends again", line(stranger, 60, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:203.0.113.5/32#2"},
		{"3: allowed, behind the proxy", line(proxy, 2, "GET /trap HTTP/1.1", 200, "x", "198.51.100.7"), "allowed"},
		{"3: allowed, directly, IPv6", line("2001:db8:a:1::9", 2, "GET /trap HTTP/1.1", 200, "x", "-"), "allowed"},
		{"3 before 5: allowed with a denied agent", line("198.51.100.7", 2, "GET / HTTP/1.1", 200, "sqlmap/1", "-"), "allowed"},
		{"3 before 6: a proxy that is allowed", line("10.7.7.7", 2, "GET / HTTP/1.1", 200, "x", "-"), "allowed"},
		{"4: a wanted agent passes", line("203.0.113.20", 3, "GET /trap HTTP/1.1", 200, "Mozilla (uptimebot/2)", "-"), "wanted agent"},
		{"4: … up to its limit", line("203.0.113.20", 3, "GET /trap HTTP/1.1", 200, "UptimeBot", "-"), "wanted agent"},
		{"4: … and then is an ordinary client", line("203.0.113.20", 3, "GET /trap HTTP/1.1", 200, "UptimeBot", "-"), "counted zero:203.0.113.20/32#1"},
		{"4: … while another one passes", line("203.0.113.21", 3, "GET /trap HTTP/1.1", 200, "UptimeBot", "-"), "wanted agent"},
		{"4 before 5: wanted and denied in one agent", line("203.0.113.22", 3, "GET / HTTP/1.1", 200, "UptimeBot sqlmap", "-"), "wanted agent"},
		{"5: a denied agent is banned at first sight, in any case of letters", line("203.0.113.30", 4, "GET / HTTP/1.1", 200, "SQLMap/1.8", "-"), "denied deny:203.0.113.30/32#1"},
		{"5: … and once only", line("203.0.113.30", 4, "GET / HTTP/1.1", 200, "SQLMap/1.8", "-"), "denied"},
		{"5 before 6: through the bare proxy it is counted as denied, and refused by the guard", line(proxy, 4, "GET / HTTP/1.1", 200, "sqlmap", "-"), "denied deny:192.0.2.1/32 refused: trusted proxy"},
		{"5: forwarded, the client is banned and not the proxy", line(proxy, 4, "GET / HTTP/1.1", 200, "sqlmap", "203.0.113.31"), "denied deny:203.0.113.31/32#1"},
		{"5: a denied address is banned at first sight, and only the client's own", line("203.0.114.9", 4, "GET / HTTP/1.1", 200, "x", "-"), "denied deny:203.0.114.9/32#1"},
		{"5: … once only", line("203.0.114.9", 4, "GET / HTTP/1.1", 200, "x", "-"), "denied"},
		{"5: … of IPv6 its /64, however wide the denied range is", line("2001:db8:e:7::9", 4, "GET / HTTP/1.1", 200, "x", "-"), "denied deny:2001:db8:e:7::/64#1"},
		{"5: … behind the proxy", line(proxy, 4, "GET / HTTP/1.1", 200, "x", "203.0.114.10"), "denied deny:203.0.114.10/32#1"},
		{"5: … a stranger's header accuses nobody", line("203.0.113.32", 4, "GET /uncounted HTTP/1.1", 200, "x", "203.0.114.11"), "no jail"},
		{"3 before 5: an address that is allowed and in a denied range", line("198.51.100.7", 4, "GET / HTTP/1.1", 200, "x", "-"), "allowed"},
		{"4 before 5: a wanted agent at a denied address", line("203.0.114.12", 4, "GET / HTTP/1.1", 200, "UptimeBot", "-"), "wanted agent"},
		{"5 before 6: a denied range that holds a trusted proxy", line("10.8.1.1", 4, "GET / HTTP/1.1", 200, "x", "-"), "denied deny:10.8.1.1/32 refused: trusted proxy"},
		{"6: the proxy on its own behalf", line(proxy, 5, "GET /trap HTTP/1.1", 200, "x", "-"), "infrastructure"},
		{"6: a chain of proxies only", line(proxy, 5, "GET /trap HTTP/1.1", 200, "x", "10.1.1.1, 10.2.2.2"), "infrastructure"},
		{"7: conditions that don't hold", line("203.0.113.40", 6, "GET /uncounted HTTP/1.1", 200, "x", "-"), "no jail"},
		{"7: first of three", line("203.0.113.40", 6, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"7: second", line("203.0.113.40", 7, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"7: the third within ten seconds crosses", line("203.0.113.40", 15, "GET / HTTP/1.1", 200, "x", "-"), "counted three:203.0.113.40/32#1"},
		{"7: at ten seconds' distance it does not", line("203.0.113.41", 6, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("203.0.113.41", 7, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("203.0.113.41", 16, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"7: IPv6 counts by /64", line("2001:db8:c::1", 8, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("2001:db8:c::2", 8, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("2001:db8:c::3", 8, "GET / HTTP/1.1", 200, "x", "-"), "counted three:2001:db8:c::/64#1"},
		{"", line("2001:db8:c::4", 8, "GET / HTTP/1.1", 200, "x", "-"), "already banned"},
		{"7: NAT64 clients count each for itself", line("64:ff9b::1.2.3.4", 8, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:64:ff9b::102:304/128#1"},
		{"", line("64:ff9b::1.2.3.5", 8, "GET /uncounted HTTP/1.1", 200, "x", "-"), "no jail"},
		{"8: the guard refuses", line("203.0.113.99", 9, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:203.0.113.99/32 refused: own address"},
		{"8: … each time", line("203.0.113.99", 9, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:203.0.113.99/32 refused: own address"},
		{"8: or narrows", line("2001:db8:b:1::5", 9, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:2001:db8:b:1::5/128#1"},
		{"8: … and the narrow ban counts as one", line("2001:db8:b:1::5", 9, "GET /trap HTTP/1.1", 200, "x", "-"), "already banned"},
		{"8: … for nobody else", line("2001:db8:b:1::6", 9, "GET /uncounted HTTP/1.1", 200, "x", "-"), "no jail"},
		{"8: a network shared with somebody protected counts by address", line("2001:db8:d::5", 9, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("2001:db8:d::5", 9, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("2001:db8:d::6", 9, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("2001:db8:d::5", 9, "GET / HTTP/1.1", 200, "x", "-"), "counted three:2001:db8:d::5/128#1"},
		{"", line("2001:db8:d::6", 9, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"7: two jails that cross at one line are two owners", line("203.0.113.50", 20, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("203.0.113.50", 20, "GET / HTTP/1.1", 200, "x", "-"), "counted"},
		{"", line("203.0.113.50", 20, "GET /trap HTTP/1.1", 200, "x", "-"), "counted zero:203.0.113.50/32#1 three:203.0.113.50/32#1"},
		{"7: the path is what the server serves", line("203.0.113.60", 20, "GET //x/..//%74rap?q HTTP/1.1", 200, "x", "-"), "counted zero:203.0.113.60/32#1"},
	}
	for _, s := range steps {
		v := e.Line(l, []byte(s.line), false, Line{}, 0)
		got := v.Step.String()
		for _, d := range v.Decisions {
			got += fmt.Sprintf(" %s:%s", d.Jail, d.Target)
			if d.Refused != "" {
				got += " refused: " + d.Refused
			} else {
				got += fmt.Sprintf("#%d", d.Offence)
			}
		}
		if got != s.want {
			t.Errorf("%s\n%s\ngot  %s\nwant %s", s.why, s.line, got, s.want)
		}
	}
	var lines uint64
	for _, n := range l.Steps {
		lines += n
	}
	if lines != uint64(len(steps)) {
		t.Errorf("%d lines counted, %d given", lines, len(steps))
	}
}

func bans(ladder ...time.Duration) []time.Duration { return ladder }

func paths(t fataler, ss ...string) []PathPattern {
	t.Helper()
	var out []PathPattern
	for _, s := range ss {
		p, err := ParsePathPattern(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// A jail that only observes hides nothing from one that enforces, and says
// the same thing once.
func TestObserve(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{
		{Name: "watch", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Minute), Observe: true},
		{Name: "real", Logs: []string{"l"}, Limit: 1, Window: time.Minute, Ban: bans(time.Minute)},
	}})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	var got []string
	for sec := range 4 {
		for _, d := range e.Line(l, []byte(line("203.0.113.5", sec, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0).Decisions {
			got = append(got, fmt.Sprintf("%d:%s", sec, d.Jail))
		}
	}
	if want := "0:watch 1:real"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Denied agents that are only observed, and jails whose actions only log, leave
// the others to their work.
func TestNothingEnforcedHidesNothing(t *testing.T) {
	e := NewEngine(Options{
		Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour), Observe: true},
		Jails: []Jail{
			{Name: "note", Logs: []string{"l"}, Limit: 1, Window: time.Minute, Ban: bans(time.Minute), Passive: true, Actions: []string{"log"}},
			{Name: "real", Logs: []string{"l"}, Limit: 3, Window: time.Minute, Ban: bans(time.Minute), Actions: []string{"fw"}},
		},
		MaxBans: 1, // of targets: the three rules must not push each other out
	})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	var got []string
	for sec := range 8 {
		v := e.Line(l, []byte(line("203.0.113.5", sec, "GET / HTTP/1.1", 200, "sqlmap", "-")), false, Line{}, 0)
		for _, d := range v.Decisions {
			got = append(got, fmt.Sprintf("%d:%s", sec, d.Jail))
		}
	}
	if want := "0:deny 1:note 3:real"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Where the server rewrites the peer the kernel doesn't see the client.
func TestRewrittenPeer(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{{Name: "j", Logs: []string{"l"}, Window: time.Second, Ban: []time.Duration{time.Minute}}}})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	for want, rewritten := range map[parser.Resolution]bool{parser.Direct: false, parser.Forwarded: true} {
		l.Rewritten = rewritten
		e.Unban(netip.MustParsePrefix("203.0.113.5/32"))
		v := e.Line(l, []byte(line("203.0.113.5", 0, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0)
		if len(v.Decisions) != 1 || v.Decisions[0].Plane != want {
			t.Errorf("rewritten %v: %+v, want plane %s", rewritten, v.Decisions, want)
		}
	}
}

// What was cut off a line is not known: it names no client, and meets no
// condition, negated or not.
func TestCutLines(t *testing.T) {
	e := NewEngine(Options{
		Trusted: pfx("192.0.2.1/32"),
		Jails: []Jail{
			{Name: "not-ok", Logs: []string{"l"}, Window: time.Second, Ban: bans(time.Minute), Where: Where{Not: Conditions{Status: []StatusRange{{200, 200}}}}},
			{Name: "no-browser", Logs: []string{"l"}, Window: time.Second, Ban: bans(time.Minute), Where: Where{Not: Conditions{Agents: []string{"mozilla"}}}},
			{Name: "post", Logs: []string{"l"}, Limit: 9, Window: time.Second, Ban: bans(time.Minute), Where: Where{Match: Conditions{Methods: []string{"POST"}}}},
		},
	})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	for _, tt := range []struct{ peer, cutAt, want string }{
		{"203.0.113.5", " 200 5", "counted"}, // as POST, and nothing else
		{"203.0.113.5", `"mozilla`, "counted"},
		{"192.0.2.1", `"198.51.100.9"`, "no client"},
	} {
		text := line(tt.peer, 0, "POST / HTTP/1.1", 200, "mozilla", "198.51.100.9")
		v := e.Line(l, []byte(text[:strings.Index(text, tt.cutAt)]), true, Line{}, 0)
		if v.Step.String() != tt.want || len(v.Decisions) > 0 {
			t.Errorf("%s, cut at %s: %s, %d decisions", tt.peer, tt.cutAt, v.Step, len(v.Decisions))
		}
	}
	if l.Cut != 3 {
		t.Errorf("%d cut lines counted", l.Cut)
	}
}

// Catching up with old lines: a ban that would be over is an offence and
// nothing more; one that would still run starts now.
func TestPast(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{{Name: "j", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(10 * time.Second)}}})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	now := second(60)
	decide := func(sec int) *Decision {
		v := e.Line(l, []byte(line("203.0.113.5", sec, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, now)
		if len(v.Decisions) == 0 {
			return nil
		}
		return &v.Decisions[0]
	}
	if d := decide(0); d == nil || !d.Past || d.Offence != 1 {
		t.Fatalf("a minute late: %+v", d)
	}
	if d := decide(9); d != nil {
		t.Fatalf("counted while the ban would have run: %+v", d)
	}
	if d := decide(10); d == nil || !d.Past || d.Offence != 2 {
		t.Fatalf("after it would have ended: %+v", d)
	}
	if d := decide(51); d == nil || d.Past || d.Offence != 3 || d.Since != now || d.Until != now+10e9 {
		t.Fatalf("nine seconds late: %+v", d)
	}
	if d := decide(69); d != nil {
		t.Fatalf("counted while the ban runs: %+v", d)
	}
}

func TestRestoreAndUnban(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{
		{Name: "watch", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Minute), Observe: true},
		{Name: "j", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Minute)},
	}})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	hit := func(peer string, sec int) (names string) {
		for _, d := range e.Line(l, []byte(line(peer, sec, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0).Decisions {
			names += fmt.Sprintf("%s#%d ", d.Jail, d.Offence)
		}
		return names
	}
	until := time.Unix(0, second(30))
	e.Restore(netip.MustParsePrefix("203.0.113.5/32"), "gone", true, until)
	e.Restore(netip.MustParsePrefix("203.0.113.6/32"), "watch", false, until)
	e.Restore(netip.MustParsePrefix("203.0.113.7/32"), "gone", false, until)
	e.RestoreOffence("j", netip.MustParsePrefix("203.0.113.6/32"), 4, time.Unix(0, second(0)))
	for _, tt := range []struct {
		peer string
		sec  int
		want string
	}{
		{"203.0.113.5", 10, ""},
		{"203.0.113.6", 10, "j#5 "},
		{"203.0.113.7", 10, "watch#1 j#1 "},
		{"203.0.113.5", 31, "watch#1 j#1 "},
	} {
		if got := hit(tt.peer, tt.sec); got != tt.want {
			t.Errorf("%s at %d: %q, want %q", tt.peer, tt.sec, got, tt.want)
		}
	}
	e.Unban(netip.MustParsePrefix("203.0.113.5/32"))
	if got := hit("203.0.113.5", 32); got != "watch#2 j#2 " {
		t.Errorf("after the unban: %q", got)
	}
	e.Forget(second(100_000))
	if s := e.Stats(); s.Bans != 0 || s.Windows != 0 || s.Memory != 0 || s.Offences == 0 {
		t.Errorf("not forgotten, or too much: %+v", s)
	}
	e.Forget(second(31 * 24 * 3600))
	if s := e.Stats(); s.Offences != 0 {
		t.Errorf("offences not forgotten after 31 days: %+v", s)
	}
}

// An observed denial is said once, and again after an unban.
func TestObservedDenial(t *testing.T) {
	e := NewEngine(Options{Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour), Observe: true}})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	text := []byte(line("203.0.113.5", 0, "GET / HTTP/1.1", 200, "sqlmap", "-"))
	for i, want := range []int{1, 0, 0} {
		if got := len(e.Line(l, text, false, Line{}, 0).Decisions); got != want {
			t.Errorf("line %d: %d decisions, want %d", i, got, want)
		}
	}
	e.Unban(netip.MustParsePrefix("203.0.113.5/32"))
	if got := len(e.Line(l, text, false, Line{}, 0).Decisions); got != 1 {
		t.Errorf("after the unban: %d decisions, want 1", got)
	}
}
