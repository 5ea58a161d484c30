package detector

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
	"pgregory.net/rapid"
)

// everything has a rule for each step of the order of exceptions.
func everything(t fataler) Options {
	watch := trap(t, "w", time.Minute, time.Hour)
	watch.Observe = true
	return Options{
		Trusted: pfx("192.0.2.1/32"),
		Allow:   pfx("203.0.113.1/32"),
		Wanted: []Wanted{{Name: "uptime", Agents: []string{"UptimeBot"}, Limit: 2, Window: 20 * time.Second}, {Name: "feed", Agents: []string{"bot"}, Limit: 1, Window: 9 * time.Second},
			{Name: "search", Agents: []string{"Crawl", "Spider"}, From: []Source{{"crawlers", pfx("198.51.100.0/24", "2001:db8:2::/48")}}},
			{Name: "own", Agents: []string{"spider"}, From: []Source{{"", pfx("203.0.113.5/32")}}, Limit: 1, Window: 9 * time.Second}},
		Deny:  &Deny{Agents: []string{"sqlmap"}, From: pfx("203.0.113.2/32"), Ban: bans(5*time.Second, 30*time.Second)},
		Guard: fakeGuard{"203.0.113.3/32": "own address", "2001:db8:1::/64": "shared"},
		Jails: []Jail{
			watch, trap(t, "a", 7*time.Second, 40*time.Second),
			{Name: "all", Logs: []string{"l", "other"}, Limit: 5, Window: 20 * time.Second, Ban: bans(5*time.Second, 50*time.Second),
				Overrides: []Override{{pfx("203.0.113.6/32")[0], 2}, {pfx("2001:db8::/32")[0], 3}}},
			{Name: "liars", Logs: []string{"l"}, Limit: 1, Window: 9 * time.Second, Ban: bans(5 * time.Second), Where: Where{Match: Conditions{FalseCrawler: true}}},
		},
	}
}

// drawLine draws a line that may end anywhere in the order of exceptions.
func drawLine(t *rapid.T, sec int) string {
	client := func(name string) string {
		return rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.5", "203.0.113.6", "198.51.100.7",
			"2001:db8:1::1", "2001:db8:1::2", "2001:db8:2::1", "2001:db8:2::2", "192.0.2.1"}).Draw(t, name)
	}
	forward := rapid.SampledFrom([]string{"-", "unknown", "10.0.0.1", client("forwarded"), "x, " + client("forwarded"), client("left") + ", 192.0.2.1"}).Draw(t, "header")
	path := rapid.SampledFrom([]string{"/", "/a", "/w", "//%61"}).Draw(t, "path")
	agent := rapid.SampledFrom([]string{"x", "x", "x", "UptimeBot", "another bot", "sqlmap", "bot sqlmap", "crawler", "Spider", "spider bot"}).Draw(t, "agent")
	text := line(client("peer"), sec, "GET "+path+" HTTP/1.1", 200, agent, forward)
	return rapid.SampledFrom([]string{text, text, text, text, text, text, text, "", "what?"}).Draw(t, "line")
}

// show writes all of a verdict.
func show(v *Verdict) string { return fmt.Sprintf("%+v", *v) }

// A reload that changes nothing changes nothing: neither in any verdict nor in
// any counter.
func TestReloadOfTheSame(t *testing.T) {
	o := everything(t)
	rapid.Check(t, func(t *rapid.T) {
		o.SharedHistory = rapid.Bool().Draw(t, "shared")
		plain, reloaded := NewEngine(o), NewEngine(o)
		l, m := nginxLog(t, plain), nginxLog(t, reloaded)
		sec := 0
		for n := range rapid.IntRange(1, 300).Draw(t, "lines") {
			sec += rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3}).Draw(t, "step")
			if rapid.IntRange(0, 9).Draw(t, "reload?") == 0 {
				if kept := reloaded.Use(Compile(o)); !slices.Equal(kept, []string{"w", "a", "all", "liars"}) {
					t.Fatalf("kept %v", kept)
				}
			}
			text := []byte(drawLine(t, sec))
			got := show(reloaded.Line(m, text, false, Line{Number: int64(n)}, 0))
			if want := show(plain.Line(l, text, false, Line{Number: int64(n)}, 0)); got != want {
				t.Fatalf("line %d %s\ngot  %s\nwant %s", n, text, got, want)
			}
		}
		if got, want := fmt.Sprint(reloaded.Stats(), reloaded.Fits("a"), reloaded.Fits("all"), m.Steps), fmt.Sprint(plain.Stats(), plain.Fits("a"), plain.Fits("all"), l.Steps); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestWhatAReloadKeeps(t *testing.T) {
	base := func() Options {
		return Options{
			Jails: []Jail{{Name: "j", Logs: []string{"l", "m"}, Limit: 9, Window: time.Minute, Ban: bans(time.Hour),
				Where: Where{Match: Conditions{Paths: paths(t, "/a", "~^/b"), Status: []StatusRange{{200, 299}}}}}},
			Wanted: []Wanted{{Name: "w", Agents: []string{"bot"}, Limit: 5, Window: time.Minute}},
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"nothing", func(*Options) {}, "[j] 1 1 1"},
		{"the limit", func(o *Options) { o.Jails[0].Limit = 3 }, "[j] 1 1 1"},
		{"the limit, to none", func(o *Options) { o.Jails[0].Limit = 0 }, "[j] 1 1 1"},
		{"limits for some", func(o *Options) { o.Jails[0].Overrides = []Override{{pfx("203.0.113.0/24")[0], 7000}} }, "[j] 1 1 1"},
		{"its mode and what follows", func(o *Options) {
			j := &o.Jails[0]
			j.Observe, j.Ban, j.Actions, j.Remember, j.Passive = true, bans(1), []string{"x"}, 5, true
		}, "[j] 1 1 1"},
		{"the order of logs", func(o *Options) { o.Jails[0].Logs = []string{"m", "l"} }, "[j] 1 1 1"},
		{"the window", func(o *Options) { o.Jails[0].Window++ }, "[] 0 0 1"},
		{"the name", func(o *Options) { o.Jails[0].Name = "k" }, "[] 0 0 1"},
		{"logs", func(o *Options) { o.Jails[0].Logs = []string{"l"} }, "[j] 1 1 1"},
		{"paths", func(o *Options) { o.Jails[0].Where.Match.Paths = paths(t, "/a", "~^/c") }, "[] 0 0 1"},
		{"status", func(o *Options) { o.Jails[0].Where.Match.Status[0].To++ }, "[] 0 0 1"},
		{"the other way round", func(o *Options) { o.Jails[0].Where = Where{Not: o.Jails[0].Where.Match} }, "[] 0 0 1"},
		{"methods", func(o *Options) { o.Jails[0].Where.Match.Methods = []string{"GET"} }, "[] 0 0 1"},
		{"agents", func(o *Options) { o.Jails[0].Where.Not.Agents = []string{"x"} }, "[] 0 0 1"},
		{"no jail", func(o *Options) { o.Jails = nil }, "[] 0 0 1"},
		{"false crawlers", func(o *Options) { o.Jails[0].Where.Match.FalseCrawler = true }, "[] 0 0 1"},
		{"none of them", func(o *Options) { o.Jails[0].Where.Not.FalseCrawler = true }, "[] 0 0 1"},
		{"a wanted agent's ranges", func(o *Options) { o.Wanted[0].From = []Source{{"x", pfx("203.0.113.0/24")}} }, "[j] 1 1 1"},
		{"a wanted agent's limit", func(o *Options) { o.Wanted[0].Limit = 700 }, "[j] 1 1 1"},
		{"a wanted agent's texts", func(o *Options) { o.Wanted[0].Agents = []string{"b", "ot"} }, "[j] 1 1 0"},
		{"a wanted agent's window", func(o *Options) { o.Wanted[0].Window++ }, "[j] 1 1 0"},
		{"a wanted agent's name", func(o *Options) { o.Wanted[0].Name = "v" }, "[j] 1 1 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEngine(base())
			l := nginxLog(t, e)
			visit(e, l, "203.0.113.5", 0, "/a")
			e.Line(l, []byte(line("203.0.113.5", 0, "GET /a HTTP/1.1", 200, "bot", "-")), false, Line{}, 0)
			o := base()
			tt.change(&o)
			kept := e.Use(Compile(o))
			inJail, inWanted := 0, 0
			for _, k := range e.windows.keys() {
				if k.rule == e.wanted[0].rule {
					inWanted++
				} else {
					inJail++
				}
			}
			if got := fmt.Sprint(kept, e.Fits("j"), inJail, inWanted); got != tt.want {
				t.Errorf("kept, fits, windows: got %s, want %s", got, tt.want)
			}
			e.windows.check(t)
			e.Line(l, []byte(line("203.0.113.5", 0, "GET /a HTTP/1.1", 200, "bot", "-")), false, Line{}, 0)
			e.windows.check(t)
		})
	}
}

// A limit that was lowered bans at the next event, one that was raised later.
func TestReloadOfALimit(t *testing.T) {
	with := func(limit int, from ...Override) *Rules {
		return Compile(Options{Jails: []Jail{{Name: "j", Logs: []string{"l"}, Limit: limit, Window: time.Minute, Ban: bans(time.Hour), Overrides: from}}})
	}
	e := NewEngine(Options{})
	e.Use(with(50))
	l := nginxLog(t, e)
	hit := func(client string, n int) (at int) {
		for i := range n {
			if visit(e, l, client, 0, "/") != "" {
				return i + 1
			}
		}
		return 0
	}
	hit("203.0.113.5", 10)
	hit("203.0.113.6", 10)
	e.Use(with(3, Override{pfx("203.0.113.6/32")[0], 12}))
	for _, tt := range []struct {
		client string
		want   int
	}{{"203.0.113.5", 1}, {"203.0.113.6", 3}, {"203.0.113.7", 4}} {
		if got := hit(tt.client, 20); got != tt.want {
			t.Errorf("%s was banned at request %d, want %d", tt.client, got, tt.want)
		}
	}
}

// What a limit of 0 bans for is not counted again when it is raised; and a
// higher limit has the levels for it.
func TestReloadOfALimitThereAndBack(t *testing.T) {
	with := func(limit int) *Rules {
		return Compile(Options{
			Jails:  []Jail{{Name: "j", Logs: []string{"l"}, Limit: limit, Window: time.Minute, Ban: bans(time.Second)}},
			Wanted: []Wanted{{Name: "w", Agents: []string{"bot"}, Limit: limit, Window: time.Minute}},
		})
	}
	e := NewEngine(Options{})
	e.Use(with(3))
	l := nginxLog(t, e)
	visit(e, l, "203.0.113.5", 0, "/")
	visit(e, l, "203.0.113.5", 0, "/")
	e.Use(with(0))
	if visit(e, l, "203.0.113.5", 0, "/") == "" {
		t.Fatal("a limit of 0 did not ban")
	}
	e.Use(with(3))
	if got := e.Fill(pfx("203.0.113.5/32")[0], second(1))[0].Count; got != 0 {
		t.Errorf("%d events still count", got)
	}
	e.Use(with(9000))
	for n, r := range e.windows.rules {
		if len(r.levels) < 14 {
			t.Errorf("rule %d has %d levels", n, len(r.levels))
		}
	}
}

// Jails that come and go use neither numbers up nor memory.
func TestManyReloads(t *testing.T) {
	e := NewEngine(Options{})
	l := nginxLog(t, e)
	watch := func(n int) Jail {
		return Jail{Name: fmt.Sprintf("j%d", n), Logs: []string{"l"}, Window: time.Minute, Ban: bans(time.Hour), Limit: 1, Observe: true}
	}
	for n := range 100_000 {
		e.Use(Compile(Options{Jails: []Jail{watch(n + 1), watch(n)}}))
		if n%1000 == 0 {
			if got, want := visit(e, l, "203.0.113.5", n, "/")+visit(e, l, "203.0.113.5", n, "/"), fmt.Sprintf("j%d#1 1h0m0s in j%d j%d#1 1h0m0s in j%d ", n+1, n+1, n, n); got != want {
				t.Fatalf("after %d reloads: got %q, want %q", n, got, want)
			}
			visit(e, l, "203.0.113.6", n, "/")
		}
	}
	if s := e.Stats(); len(e.windows.rules) > 3 || s.Windows > 0 || s.Memory > 0 || s.Bans > 0 {
		t.Errorf("%d rules, %+v", len(e.windows.rules), s)
	}
}

// A log that was left aside for a while meets the jails of now.
func TestLogsFollowReloads(t *testing.T) {
	a, b := trap(t, "a", time.Hour), trap(t, "b", time.Hour)
	first, second := Compile(Options{Jails: []Jail{a}}), Compile(Options{Jails: []Jail{b}})
	e := NewEngine(Options{})
	l, busy := nginxLog(t, e), nginxLog(t, e)
	e.Use(first)
	visit(e, l, "203.0.113.5", 0, "/")
	e.Use(second)
	visit(e, busy, "203.0.113.5", 0, "/")
	e.Use(first)
	if got := visit(e, l, "203.0.113.6", 0, "/a"); got != "a#1 1h0m0s in a " || e.Fits("a") != 1 {
		t.Errorf("got %q, fits %d", got, e.Fits("a"))
	}
	e.Use(second)
	f, err := parser.NewFormat("common")
	if err != nil {
		t.Fatal(err)
	}
	e.Rebind(l, f)
	v := e.Line(l, []byte(`203.0.113.7 - - [05/Mar/2026:10:00:00 +0000] "GET /b HTTP/1.1" 200 5`), false, Line{}, 0)
	if len(v.Decisions) != 1 || l.Steps[StepCounted] != 2 || l.Steps[StepUnmatched] != 1 {
		t.Errorf("%+v, steps %v", v, l.Steps)
	}
}

// Caps that are lowered take effect at once; enforced bans that fit stay.
func TestReloadOfCaps(t *testing.T) {
	o := Options{Jails: []Jail{{Name: "j", Logs: []string{"l"}, Limit: 1, Window: time.Minute, Ban: bans(time.Hour)}}}
	e := NewEngine(o)
	l := nginxLog(t, e)
	for i := range 100 {
		visit(e, l, fmt.Sprintf("203.0.113.%d", i), i, "/")
		visit(e, l, fmt.Sprintf("198.51.100.%d", i), i, "/")
		visit(e, l, fmt.Sprintf("198.51.100.%d", i), i, "/")
	}
	o.MaxBans, o.MaxMemory = 10, 5000
	e.Use(Compile(o))
	e.windows.check(t)
	if s := e.Stats(); s.Bans != 10 || s.Memory > 5000 || s.Memory < 4000 {
		t.Errorf("%+v", s)
	}
	if v := e.Line(l, []byte(line("198.51.100.99", 100, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0); v.Step != StepBanned {
		t.Errorf("the latest ban is gone: %s", v.Step)
	}
	o.Deny = &Deny{From: pfx("203.0.113.200/32"), Ban: bans(time.Hour)}
	o.Jails = nil
	e.Use(Compile(o))
	if s := e.Stats(); s.Bans != 10 || s.Windows != 0 || s.Offences != 100 {
		t.Errorf("without the jail: %+v", s)
	}
}
