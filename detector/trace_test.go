package detector

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawRules draws options in which each step and each reason can occur.
func drawRules(t *rapid.T) Options {
	o := everything(t)
	o.SharedHistory = rapid.Bool().Draw(t, "shared")
	for i := range o.Jails {
		j := &o.Jails[i]
		j.Observe = rapid.IntRange(0, 2).Draw(t, "observe") == 0
		j.Passive = rapid.IntRange(0, 4).Draw(t, "passive") == 0
		j.Limit = rapid.IntRange(0, 3).Draw(t, "limit")
		if rapid.IntRange(0, 3).Draw(t, "not?") == 0 {
			j.Where.Not = Conditions{
				Agents:       rapid.SampledFrom([][]string{nil, {"bot"}, {"a", "b", "c", "d", "zz"}}).Draw(t, "not agents"),
				FalseCrawler: rapid.Bool().Draw(t, "not false crawlers"),
				Status:       rapid.SampledFrom([][]StatusRange{nil, {{404, 404}}, {{200, 299}, {500, 599}}}).Draw(t, "not status"),
			}
			j.Where.Match.Methods = rapid.SampledFrom([][]string{nil, {"GET"}, {"POST", "PUT"}}).Draw(t, "methods")
		}
	}
	o.Deny.Observe = rapid.IntRange(0, 2).Draw(t, "deny observes") == 0
	if rapid.IntRange(0, 3).Draw(t, "deny?") == 0 {
		o.Deny = nil
	}
	return o
}

// traced is a property: a trace ends where the line ends, with the decisions
// that it brings, and leaves no trace itself.
func traced(t *rapid.T) {
	o := drawRules(t)
	e, twin := NewEngine(o), NewEngine(o) // nothing is traced in the twin
	l, m := nginxLog(t, e), nginxLog(t, twin)
	l.Rewritten = rapid.Bool().Draw(t, "rewritten")
	m.Rewritten = l.Rewritten
	both := func(do func(*Engine)) { do(e); do(twin) }
	networks := pfx("203.0.113.0/24", "203.0.113.5/32", "198.51.100.0/22", "2001:db8:1::/48", "2001:db8:2::/64")
	names := []string{"", "w", "a", "all", "liars", DenyName}
	sec := 0
	for n := range rapid.IntRange(1, 60).Draw(t, "lines") {
		sec += rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "step")
		target, name := rapid.SampledFrom(networks).Draw(t, "target"), rapid.SampledFrom(names).Draw(t, "name")
		switch rapid.IntRange(0, 25).Draw(t, "what") {
		case 0:
			both(func(e *Engine) { e.Forgive(target, name, second(sec+1)) })
		case 1:
			both(func(e *Engine) { e.Unforgive(target, name) })
		case 2:
			both(func(e *Engine) { e.Restore(target, name, name == "", time.Unix(0, second(sec+4))) })
		case 3:
			both(func(e *Engine) { e.Clear(target, name) })
		case 4:
			on := rapid.Bool().Draw(t, "on")
			both(func(e *Engine) { e.Hold(name, on) })
		case 5:
			o = drawRules(t)
			both(func(e *Engine) { e.Use(Compile(o)) })
		case 6:
			both(func(e *Engine) { e.Forget(second(sec - 30)) })
		}
		text := drawLine(t, sec-rapid.SampledFrom([]int{0, 0, 0, 5, 500, 5000}).Draw(t, "late by"))
		cut := false
		switch rapid.IntRange(0, 9).Draw(t, "mangle") {
		case 0:
			cut = true
			text = text[:rapid.IntRange(0, len(text)).Draw(t, "cut at")]
		case 1:
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			text = text[:at] + rapid.String().Draw(t, "noise") + text[at:]
		}
		now := rapid.SampledFrom([]int64{0, second(sec), second(sec + 1000)}).Draw(t, "now")
		last := fmt.Sprintf("%+v", *e.Event())
		tr := e.Trace(l, []byte(text), cut, now)
		if again := fmt.Sprintf("%+v", *e.Event()); again != last {
			t.Fatalf("the latest event was %s, is %s", last, again)
		}
		checkTrace(t, tr)
		v := e.Line(l, []byte(text), cut, Line{}, now)
		decisions := []Decision{}
		if tr.Denial != nil {
			decisions = append(decisions, *tr.Denial)
		}
		for _, j := range tr.Jails {
			if j.Decision != nil {
				decisions = append(decisions, *j.Decision)
			}
		}
		if tr.Step != v.Step || tr.Proof != v.Proof || tr.Client != v.Client || v.Err != nil && tr.Err != v.Err || v.Client.IsValid() && tr.Target != e.Target(v.Client) ||
			fmt.Sprintf("%+v", decisions) != fmt.Sprintf("%+v", v.Decisions) {
			t.Fatalf("line %d, %s\ntrace %+v\ndecisions %+v\nline  %s", n, text, tr, decisions, show(v))
		}
		if got, want := show(v), show(twin.Line(m, []byte(text), cut, Line{}, now)); got != want {
			t.Fatalf("line %d, %s\nafter a trace %s\nwithout       %s", n, text, got, want)
		}
	}
	if got, want := fmt.Sprint(e.Stats(), l.Steps, l.Cut), fmt.Sprint(twin.Stats(), m.Steps, m.Cut); got != want {
		t.Fatalf("after traces %s, without %s", got, want)
	}
	for i, k := range e.windows.keys() {
		a := e.windows.slot(i)
		b := twin.windows.slot(twin.windows.find(k))
		if a.touched != b.touched || a.level != b.level || fmt.Sprint(a.win) != fmt.Sprint(b.win) {
			t.Fatalf("%v: after traces %+v, without %+v", k, a, b)
		}
	}
}

// checkTrace checks what has to fit together in any trace.
func checkTrace(t *rapid.T, tr *Trace) {
	number := 0
	for i, s := range tr.Steps {
		if s.Number < number || s.Number > 8 || s.Name == "" || s.Result == "" || s.Stops && i < len(tr.Steps)-1 {
			t.Fatalf("step %d: %+v", i, tr.Steps)
		}
		number = s.Number
	}
	for _, j := range tr.Jails {
		all := true
		for _, c := range j.Conditions {
			all = all && c.Holds
			if c.Field == "" || c.Want == "" {
				t.Fatalf("condition %+v", c)
			}
		}
		if all != j.Matches || j.Decision != nil && !j.Matches {
			t.Fatalf("jail %+v", j)
		}
	}
}

func TestTraceEndsWhereTheLineEnds(t *testing.T) { rapid.Check(t, traced) }

func FuzzTrace(f *testing.F) { f.Fuzz(rapid.MakeFuzz(traced)) }

// A list of conditions that is added has to be told as well.
func TestTraceKnowsAllConditions(t *testing.T) {
	var c Conditions
	if n := reflect.TypeFor[Conditions]().NumField(); n != len(parts(&c)) {
		t.Errorf("%d lists of conditions, %d of them are traced", n, len(parts(&c)))
	}
}

// What a trace decides stands in no file, wherever the line before it stood.
func TestTraceStandsNowhere(t *testing.T) {
	e := NewEngine(Options{
		Deny:  &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour)},
		Jails: []Jail{{Name: "all", Logs: []string{"l"}, Window: time.Minute, Ban: bans(time.Hour)}},
	})
	l := nginxLog(t, e)
	e.Line(l, []byte("x"), false, Line{Path: "p", Number: 7}, 0)
	for _, agent := range []string{"sqlmap", "curl"} {
		tr := e.Trace(l, []byte(line("203.0.113.5", 0, "GET / HTTP/1.1", 200, agent, "-")), false, 0)
		d := tr.Denial
		if d == nil {
			d = tr.Jails[0].Decision
		}
		if d == nil || d.Line != (Line{}) {
			t.Errorf("%s: %+v", agent, d)
		}
	}
}

// What a trace says, word by word.
func TestTraceText(t *testing.T) {
	e := NewEngine(Options{
		Trusted: pfx("192.0.2.1/32"), Allow: pfx("198.51.100.1/32"),
		Wanted: []Wanted{{Name: "uptime", Agents: []string{"Uptime"}, Limit: 1, Window: time.Minute}},
		Deny:   &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour)},
		Guard:  fakeGuard{"203.0.113.9/32": "own address"},
		Jails: []Jail{
			{Name: "login", Logs: []string{"l"}, Limit: 1, Window: time.Minute, Ban: bans(time.Hour), Where: Where{
				Match: Conditions{Methods: []string{"POST"}, Paths: paths(t, "/login", "~^/sign")},
				Not:   Conditions{Status: []StatusRange{{200, 299}, {304, 304}}, Agents: []string{"bot"}}}},
			{Name: "all", Logs: []string{"l"}, Limit: 100, Window: time.Minute, Ban: bans(time.Hour), Observe: true,
				Overrides: []Override{{pfx("203.0.113.0/24")[0], 200}}},
		},
	})
	l := nginxLog(t, e)
	post := func(peer, forward string) string {
		return line(peer, 0, "POST //login?x HTTP/1.1", 403, "curl", forward)
	}
	visit(e, l, "203.0.113.5", 0, "/")
	e.Line(l, []byte(post("203.0.113.5", "-")), false, Line{}, 0)
	e.Line(l, []byte(post("203.0.113.9", "-")), false, Line{}, 0)
	e.Forgive(pfx("203.0.113.7/32")[0], "", second(0))
	e.Restore(pfx("198.51.100.0/24")[0], "", true, time.Unix(0, second(9)))
	for _, tt := range []struct{ name, line, want string }{
		{"not a line", "x", `1 parse: malformed address, stops
= unparsed`},
		{"nobody", post("192.0.2.1", "unknown"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: the forwarding header names no client, stops
= no client`},
		{"allowed", post("198.51.100.1", "-"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 198.51.100.1 (direct), counted as 198.51.100.1/32
3 allowed: 198.51.100.1 is allowed, stops
login 0 of 1: its conditions hold, but the line does not come this far
all 0 of 100: its conditions hold, but the line does not come this far
= allowed`},
		{"decides", post("192.0.2.1", "203.0.113.5"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 203.0.113.5 (forwarded), counted as 203.0.113.5/32
3 allowed: 203.0.113.5 is not allowed by any address
4 wanted: its agent is that of no wanted machine
5 denied: neither its address nor its agent is denied
6 infrastructure: the client is no trusted proxy
7 banned: 203.0.113.5/32 is not banned
7 jails: counted by 2 of the log's 2 jails
8 guard: login may ban 203.0.113.5/32
login 1 of 1: counts it, which crosses the limit: 203.0.113.5/32 would be banned for 1h0m0s
  method "POST" of POST true
  path "/login" of /login, ~^/sign true
  not status "403" of 200-299, 304 true
  not agent "curl" of bot true
all 2 of 200: counts it
= counted`},
		{"refused", post("203.0.113.9", "-"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 203.0.113.9 (direct), counted as 203.0.113.9/32
3 allowed: 203.0.113.9 is not allowed by any address
4 wanted: its agent is that of no wanted machine
5 denied: neither its address nor its agent is denied
6 infrastructure: the client is no trusted proxy
7 banned: 203.0.113.9/32 is not banned
7 jails: counted by 2 of the log's 2 jails
8 guard: login may not ban 203.0.113.9/32: own address, stops
login 1 of 1: counts it, which crosses the limit: it would be banned, but is protected: own address
all 1 of 200: counts it
= counted`},
		{"forgiven", post("203.0.113.7", "-"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 203.0.113.7 (direct), counted as 203.0.113.7/32
3 allowed: 203.0.113.7 is not allowed by any address
4 wanted: its agent is that of no wanted machine
5 denied: neither its address nor its agent is denied
6 infrastructure: the client is no trusted proxy
7 banned: 203.0.113.7/32 is not banned
7 jails: it is forgiven, stops
login 0 of 1: does not count it: it is forgiven
all 0 of 200: does not count it: it is forgiven
= forgiven`},
		{"banned", post("198.51.100.7", "-"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 198.51.100.7 (direct), counted as 198.51.100.7/32
3 allowed: 198.51.100.7 is not allowed by any address
4 wanted: its agent is that of no wanted machine
5 denied: neither its address nor its agent is denied
6 infrastructure: the client is no trusted proxy
7 banned: 198.51.100.7/32, or a network that holds it, is banned already, stops
login 0 of 1: its conditions hold, but the line does not come this far
all 0 of 100: its conditions hold, but the line does not come this far
= already banned`},
		{"denied", line("203.0.113.6", 0, "GET / HTTP/1.1", 200, "sqlmap", "-"), `1 parse: parsed, of 2026-03-05T10:00:00Z
2 client: 203.0.113.6 (direct), counted as 203.0.113.6/32
3 allowed: 203.0.113.6 is not allowed by any address
4 wanted: its agent is that of no wanted machine
5 denied: it is denied: 203.0.113.6/32 would be banned for 1h0m0s, stops
login 0 of 1: its conditions do not all hold
all 0 of 200: its conditions hold, but the line does not come this far
= denied`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := e.Trace(l, []byte(tt.line), false, 0)
			var got strings.Builder
			for _, s := range tr.Steps {
				stops := map[bool]string{true: ", stops"}[s.Stops]
				fmt.Fprintf(&got, "%d %s: %s%s\n", s.Number, s.Name, s.Result, stops)
			}
			for _, j := range tr.Jails {
				fmt.Fprintf(&got, "%s %d of %d: %s\n", j.Jail, j.Count, j.Limit, j.Result)
				for _, c := range j.Conditions {
					if tt.name == "decides" {
						fmt.Fprintf(&got, "  %s%s %q of %s %v\n", map[bool]string{true: "not "}[c.Not], c.Field, c.Got, c.Want, c.Holds)
					}
				}
			}
			fmt.Fprintf(&got, "= %s", tr.Step)
			if got.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", &got, tt.want)
			}
		})
	}
	if tr := e.Trace(l, []byte(post("192.0.2.1", "x, 203.0.113.5")), false, 0); len(tr.Hops) != 3 || tr.Hops[1].Addr != netip.MustParseAddr("203.0.113.5") {
		t.Errorf("hops %+v", tr.Hops)
	}
}
