package detector

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// proven are wanted machines of each kind, and jails for who only claims to be
// one.
func proven(t fataler) Options {
	return Options{
		Trusted: pfx("192.0.2.1/32"),
		Allow:   pfx("198.51.100.1/32"),
		Wanted: []Wanted{
			{Name: "search", Agents: []string{"Googlebot"}, From: []Source{{"googlebot", pfx("66.249.64.0/20", "2001:4860:4801::/48")}}},
			{Name: "ads", Agents: []string{"AdsBot", "Googlebot-Ads"}, From: []Source{{"google-special", pfx("66.249.87.0/24")}}},
			{Name: "monitor", Agents: []string{"Uptime"}, From: []Source{{"", pfx("203.0.113.20/32")}, {"/etc/more.txt", pfx("203.0.113.0/24")}}, Limit: 2, Window: time.Minute},
			{Name: "feed", Agents: []string{"FeedReader"}, Limit: 1, Window: time.Minute},
		},
		Deny: &Deny{Agents: []string{"sqlmap"}, From: pfx("66.249.79.0/24"), Ban: bans(time.Hour)},
		Jails: []Jail{
			{Name: "false", Logs: []string{"l"}, Ban: bans(time.Hour), Window: time.Second, Where: Where{Match: Conditions{FalseCrawler: true}}},
			{Name: "trap", Logs: []string{"l"}, Ban: bans(time.Hour), Window: time.Second, Where: Where{
				Match: Conditions{Paths: paths(t, "/trap")}, Not: Conditions{FalseCrawler: true}}},
		},
	}
}

// Step 4 is passed by who proves it; who only claims it is an ordinary client,
// and known as one that lied.
func TestWantedMachinesProveIt(t *testing.T) {
	e := NewEngine(proven(t))
	l := nginxLog(t, e)
	for _, s := range []struct{ why, peer, agent, forward, want string }{
		{"agent and address", "66.249.66.1", "Mozilla (Googlebot/2.1)", "-", "wanted agent: search, by the ranges of googlebot"},
		{"in any case of letters, IPv6", "2001:4860:4801:10::1", "GOOGLEBOT", "-", "wanted agent: search, by the ranges of googlebot"},
		{"… without a limit", "66.249.66.1", "Googlebot", "-", "wanted agent: search, by the ranges of googlebot"},
		{"the address alone is no proof: anybody may be behind it", "66.249.66.1", "curl", "-", "counted trap"},
		{"the agent alone neither", "203.0.113.5", "Googlebot", "-", "counted false"},
		{"the client counts, and not its proxy", "192.0.2.1", "Googlebot", "66.249.66.2", "wanted agent: search, by the ranges of googlebot"},
		{"a stranger's header proves nothing", "203.0.113.6", "Googlebot", "66.249.66.2", "counted false"},
		{"who is allowed does not have to prove anything", "198.51.100.1", "Googlebot", "-", "allowed"},
		{"4 before 5: proven, and at a denied address", "66.249.79.1", "Googlebot", "-", "wanted agent: search, by the ranges of googlebot"},
		{"5: false, and with a denied agent", "203.0.113.7", "Googlebot sqlmap", "-", "denied deny"},
		{"claims two, and is one of them", "66.249.87.1", "Googlebot AdsBot", "-", "wanted agent: ads, by the ranges of google-special"},
		{"claims the other one", "66.249.87.1", "AdsBot", "-", "wanted agent: ads, by the ranges of google-special"},
		{"claims one, at the address of the other", "66.249.66.3", "AdsBot", "-", "counted false"},
		{"addresses of its own", "203.0.113.20", "Uptime/1", "-", "wanted agent: monitor, by its addresses"},
		{"a file's, up to the limit", "203.0.113.21", "Uptime/1", "-", "wanted agent: monitor, by the ranges of /etc/more.txt"},
		{"", "203.0.113.21", "Uptime/1", "-", "wanted agent: monitor, by the ranges of /etc/more.txt"},
		{"… beyond it is an ordinary client, but none that lies", "203.0.113.21", "Uptime/1", "-", "counted trap"},
		{"by its agent alone", "203.0.113.30", "FeedReader", "-", "wanted agent: feed, by its agent alone"},
		{"… it can't lie, as it has nothing to prove", "203.0.113.30", "FeedReader", "-", "counted trap"},
		{"… and what it passes by does not prove another claim", "203.0.113.31", "FeedReader Googlebot", "-", "wanted agent: feed, by its agent alone"},
		{"", "203.0.113.31", "FeedReader Googlebot", "-", "counted false"},
		{"6: a proxy that claims it for itself", "192.0.2.1", "Googlebot", "-", "infrastructure"},
	} {
		text := []byte(line(s.peer, 0, "GET /trap HTTP/1.1", 200, s.agent, s.forward))
		tr := e.Trace(l, text, false, 0)
		v := e.Line(l, text, false, Line{}, 0)
		got := v.Step.String()
		if v.Proof != (Proof{}) {
			got += ": " + v.Proof.String()
		}
		for _, d := range v.Decisions {
			got += " " + d.Jail
		}
		if got != s.want {
			t.Errorf("%s: %s, %s: got %q, want %q", s.why, s.peer, s.agent, got, s.want)
		}
		if tr.Step != v.Step || tr.Proof != v.Proof {
			t.Errorf("%s: traced as %s, %v", s.why, tr.Step, tr.Proof)
		}
	}
}

// What is not known of a line that was cut is no claim, and no absence of one.
func TestFalseCrawlersInCutLines(t *testing.T) {
	e := NewEngine(proven(t))
	l := nginxLog(t, e)
	text := line("203.0.113.5", 0, "GET /trap HTTP/1.1", 200, "Googlebot", "-")
	v := e.Line(l, []byte(text[:strings.Index(text, `"Googlebot`)]), true, Line{}, 0)
	if v.Step != StepUnmatched {
		t.Errorf("%s, %+v", v.Step, v.Decisions)
	}
}

// What a trace says of step 4, word by word.
func TestTraceOfWanted(t *testing.T) {
	e := NewEngine(proven(t))
	l := nginxLog(t, e)
	for _, tt := range []struct{ peer, agent, want string }{
		{"66.249.66.1", "Googlebot", "its agent is that of search, it is in the ranges of googlebot, and it has no limit"},
		{"203.0.113.5", "Googlebot", "its agent is that of search, but 203.0.113.5 is not in its ranges"},
		{"66.249.87.1", "Googlebot-Ads", "its agent is that of search, but 66.249.87.1 is not in its ranges; its agent is that of ads, it is in the ranges of google-special, and it has no limit"},
		{"203.0.113.20", "Uptime", "its agent is that of monitor, it is one of its addresses, and it is within the limit of 2 in 1m0s"},
		{"203.0.113.21", "Uptime", "its agent is that of monitor, it is in the ranges of /etc/more.txt, and it is within the limit of 2 in 1m0s"},
		{"203.0.113.5", "FeedReader", "its agent is that of feed, and it is within the limit of 1 in 1m0s"},
		{"203.0.113.5", "curl", "its agent is that of no wanted machine"},
	} {
		tr := e.Trace(l, []byte(line(tt.peer, 0, "GET / HTTP/1.1", 200, tt.agent, "-")), false, 0)
		var got []string
		for _, s := range tr.Steps {
			if s.Number == 4 {
				got = append(got, s.Result)
			}
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s, %s: got %q, want %q", tt.peer, tt.agent, text, tt.want)
		}
	}
}

// The identity of a jail that does not ask for false crawlers is what it was
// before one could: it is in snapshots. And no condition is left out of it.
func TestIdentity(t *testing.T) {
	j := Jail{Name: "j", Window: time.Minute, Where: Where{
		Match: Conditions{Methods: []string{"GET"}, Paths: paths(t, "/a", `~^/b"`), Status: []StatusRange{{200, 299}}},
		Not:   Conditions{Agents: []string{"x y"}, Protocols: []string{"HTTP/2"}},
	}}
	if got, want := identity(&j), `"j" 60000000000 {{["GET"] ["/a" "~^/b\""] ["200-299"] [] []} {[] [] [] ["x y"] ["HTTP/2"]}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	all := Conditions{Methods: []string{"GET"}, Paths: paths(t, "/a"), Status: []StatusRange{{200, 299}}, Agents: []string{"x"}, Protocols: []string{"HTTP/2"}, FalseCrawler: true}
	seen := map[string]bool{identity(&Jail{}): true}
	for i := range reflect.TypeFor[Conditions]().NumField() {
		var one Conditions
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(all).Field(i))
		for _, w := range []Where{{Match: one}, {Not: one}} {
			text := identity(&Jail{Where: w})
			if seen[text] {
				t.Errorf("%s is the identity of two jails", text)
			}
			seen[text] = true
		}
	}
}

// Agents are looked at once, and ranges only for who claims to be wanted.
func BenchmarkWanted(b *testing.B) {
	o := proven(b)
	o.Jails = []Jail{{Name: "all", Logs: []string{"l"}, Limit: 1 << 30, Window: time.Minute, Ban: bans(time.Hour)}}
	for _, tt := range []struct {
		name, peer, agent string
		wanted            []Wanted
	}{
		{"none", "203.0.113.5", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", nil},
		{"others", "203.0.113.5", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", o.Wanted},
		{"proven", "66.249.66.1", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", o.Wanted},
		{"false", "203.0.113.5", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", o.Wanted},
	} {
		b.Run(tt.name, func(b *testing.B) {
			o.Wanted = tt.wanted
			e := NewEngine(o)
			f, err := parser.NewFormat("nginx")
			if err != nil {
				b.Fatal(err)
			}
			l := e.Log("l", f)
			text := []byte(line(tt.peer, 0, "GET / HTTP/1.1", 200, tt.agent, "-"))
			var ev parser.Event
			var id Identity
			var r Record
			err = f.Parse(text, false, &ev)
			b.ReportAllocs()
			at := Line{}
			for b.Loop() {
				e.Identify(&id, &ev, err, false)
				r.Set(&id, &ev, err)
				e.Parsed(l, &r, &at, 0)
			}
		})
	}
}
