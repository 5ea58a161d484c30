package detector

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
	"pgregory.net/rapid"
)

// bruteJail is a jail that keeps everything and counts again at each event.
type bruteJail struct {
	Jail
	condition int
	windows   map[netip.Prefix]*bruteWindow
	matches   func(path string, status int) bool
}

// brute is the engine without any of its cleverness: no memory limit, no
// forgetting, bans in a list.
type brute struct {
	jails    []bruteJail
	bans     []bruteBan
	shared   bool
	remember time.Duration // of what is shared
	offences map[string]bruteOffence
}

type bruteOffence struct {
	count int
	until int64
}

// offend counts an offence of a jail. One that observes goes on from what it
// enforced before, but not the other way round.
func (b *brute) historyOf(j *Jail) string {
	if b.shared {
		return fmt.Sprintf("everybody's, observed: %v", j.Observe)
	}
	return j.Name
}

func (b *brute) offend(j *Jail, target netip.Prefix, at int64) int {
	name, remember := b.historyOf(j), j.Remember
	if b.shared {
		remember = b.remember
	}
	count := func(key string) int {
		if o := b.offences[key]; at < o.until {
			return o.count
		}
		return 0
	}
	key := fmt.Sprint(name, target)
	n := count(key)
	if j.Observe && !b.shared {
		key += "tried"
		n = max(n, count(key))
	}
	b.offences[key] = bruteOffence{n + 1, at + int64(remember)}
	return n + 1
}

// use puts other jails in the place of those there are: those whose name,
// conditions and window are as they were keep what they have.
func (b *brute) use(jails []bruteJail) {
	jails = slices.Clone(jails)
	for i := range jails {
		j := &jails[i]
		j.windows = map[netip.Prefix]*bruteWindow{}
		for k := range b.jails {
			if old := &b.jails[k]; old.Name == j.Name && old.condition == j.condition && old.Window == j.Window {
				j.windows = old.windows
				old.windows = nil
			}
		}
	}
	for _, old := range b.jails {
		if old.windows != nil {
			b.bans = slices.DeleteFunc(b.bans, func(x bruteBan) bool { return x.jail == old.Name })
		}
	}
	b.jails = jails
}

// limit looks at every override: of those that hold the client the longest.
func (j *bruteJail) limit(client netip.Addr) int {
	limit, longest := j.Limit, -1
	for _, o := range j.Overrides {
		if o.From.Contains(client) && o.From.Bits() > longest {
			limit, longest = o.Limit, o.From.Bits()
		}
	}
	return limit
}

type bruteBan struct {
	target netip.Prefix
	jail   string // "" if enforced
	until  int64
}

func (b *brute) banned(target netip.Prefix, jail string, at int64) bool {
	for _, x := range b.bans {
		if x.target == target && x.jail == jail && at < x.until {
			return true
		}
	}
	return false
}

func (b *brute) event(client netip.Addr, path string, status int, at int64) (decided []string) {
	bits := 32
	if client.Is6() {
		bits = 64
	}
	target := netip.PrefixFrom(client, bits).Masked()
	if b.banned(target, "", at) {
		return nil
	}
	before := map[string]int{} // offences of this line, by history
	for i := range b.jails {
		j := &b.jails[i]
		if !j.matches(path, status) || j.Observe && b.banned(target, j.Name, at) {
			continue
		}
		w := j.windows[target]
		if w == nil {
			w = &bruteWindow{}
			j.windows[target] = w
		}
		limit := j.limit(client)
		if w.add(at, int64(j.Window), limit) != crossing {
			continue
		}
		delete(j.windows, target)
		offence, again := before[b.historyOf(&j.Jail)]
		if !again {
			offence = b.offend(&j.Jail, target, at)
			before[b.historyOf(&j.Jail)] = offence
		}
		length := j.Ban[len(j.Ban)-1]
		if offence <= len(j.Ban) {
			length = j.Ban[offence-1]
		}
		ban := bruteBan{target: target, until: at + int64(length)}
		if j.Observe {
			ban.jail = j.Name
		}
		b.bans = append(b.bans, ban)
		decided = append(decided, fmt.Sprintf("%s %s, more than %d, offence %d, %v", j.Name, target, limit, offence, length))
	}
	return decided
}

// Several jails with conditions, limits from 0, other limits for some
// networks, ladders, offences that are forgotten, equal times, late and
// out-of-order events, both families, bans and their ends in between, and
// reloads that change nothing, or a jail, or which jails there are: the engine
// decides what the brute force decides, at the same lines.
func TestEngineEqualsBruteForce(t *testing.T) {
	conditions := []struct {
		where   Where
		matches func(path string, status int) bool
	}{
		{Where{}, func(string, int) bool { return true }},
		{Where{Match: Conditions{Status: []StatusRange{{400, 499}}}}, func(_ string, s int) bool { return s/100 == 4 }},
		{Where{Not: Conditions{Status: []StatusRange{{200, 200}}}}, func(_ string, s int) bool { return s != 200 }},
		{Where{Match: Conditions{Paths: paths(t, "/a")}}, func(p string, _ int) bool { return p == "/a" }},
		{Where{Match: Conditions{Paths: paths(t, "/b/*")}, Not: Conditions{Paths: paths(t, "~x$")}},
			func(p string, _ int) bool { return p == "/b/y" }},
	}
	clients := []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}
	networks := pfx("203.0.113.0/24", "203.0.113.2/32", "203.0.113.0/31", "2001:db8::/32", "2001:db8::/64", "2001:db8:0:1::/64")
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int{1, 1, 60, 7 * 86400 / 30}).Draw(t, "unit") // windows of up to 30 s, 30 min or 7 d
		seconds := time.Duration(unit) * time.Second
		b := &brute{
			offences: map[string]bruteOffence{}, shared: rapid.Bool().Draw(t, "shared"),
			remember: time.Duration(rapid.IntRange(1, 200).Draw(t, "remember")) * seconds,
		}
		shortest := rapid.IntRange(1, 30).Draw(t, "shortest window")
		// draw changes what does not make a jail another.
		draw := func(j *bruteJail) {
			j.Limit = rapid.IntRange(0, 8).Draw(t, "limit")
			j.Ban = ladder(t)
			for i := range j.Ban {
				j.Ban[i] *= time.Duration(unit)
			}
			j.Observe = rapid.IntRange(0, 3).Draw(t, "observe") == 0
			if j.Remember = b.remember; !b.shared {
				j.Remember = time.Duration(rapid.IntRange(1, 200).Draw(t, "jail's remember")) * seconds
			}
			j.Overrides = nil
			for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(networks), 0, 3, rapid.ID).Draw(t, "from") {
				j.Overrides = append(j.Overrides, Override{n, rapid.IntRange(0, 12).Draw(t, "other limit")})
			}
		}
		// drawEvents changes what does.
		drawEvents := func(j *bruteJail) {
			j.Window = time.Duration(rapid.IntRange(shortest, 30).Draw(t, "window")) * seconds
			j.condition = rapid.IntRange(0, len(conditions)-1).Draw(t, "where")
			j.Where, j.matches = conditions[j.condition].where, conditions[j.condition].matches
		}
		newJail := func(name string) bruteJail {
			j := bruteJail{Jail: Jail{Name: name, Logs: []string{"l"}}}
			drawEvents(&j)
			draw(&j)
			return j
		}
		options := func() Options {
			o := Options{Remember: b.remember, SharedHistory: b.shared}
			for i := range b.jails {
				o.Jails = append(o.Jails, b.jails[i].Jail)
			}
			return o
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "jails") {
			b.use(append(b.jails, newJail(fmt.Sprintf("j%d", i))))
		}
		e := NewEngine(options())
		reload := func() {
			jails := slices.Clone(b.jails)
			switch i := rapid.IntRange(0, len(jails)-1).Draw(t, "which"); rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				draw(&jails[i])
			case 1:
				drawEvents(&jails[i])
			case 2:
				jails = rapid.Permutation(jails).Draw(t, "order")
			case 3:
				if len(jails) > 1 {
					jails = slices.Delete(jails, i, i+1)
				}
			case 4:
				name := fmt.Sprintf("j%d", rapid.IntRange(0, 4).Draw(t, "name"))
				if !slices.ContainsFunc(jails, func(j bruteJail) bool { return j.Name == name }) {
					jails = append(jails, newJail(name))
				}
			}
			b.use(jails)
			e.Use(Compile(options()))
			e.windows.check(t)
			if len(e.windows.rules) > 5 {
				t.Fatalf("%d rules of at most five jails", len(e.windows.rules))
			}
		}
		f, err := parser.NewFormat("nginx")
		if err != nil {
			t.Fatal(err)
		}
		l := e.Log("l", f)
		// Beyond the shortest window, which old times are still known depends
		// on the room they had; see TestWindowSlowEvents.
		lateness := rapid.IntRange(0, shortest*unit-1).Draw(t, "lateness")
		sec := 1000
		for n := range rapid.IntRange(1, 300).Draw(t, "events") {
			sec += unit * rapid.SampledFrom([]int{0, 0, 0, 1, 1, 3, 10, 70}).Draw(t, "step")
			if unit > 1 { // so that what is just inside of a window, and just not, is met
				sec += rapid.IntRange(0, 1).Draw(t, "and a second")
			}
			if rapid.IntRange(0, 15).Draw(t, "reload?") == 0 {
				reload()
			}
			at := sec
			if rapid.IntRange(0, 4).Draw(t, "late?") == 0 {
				at -= rapid.IntRange(0, lateness).Draw(t, "by")
			}
			client := rapid.SampledFrom(clients).Draw(t, "client")
			path := rapid.SampledFrom([]string{"/", "/a", "/b/x", "/b/y"}).Draw(t, "path")
			status := rapid.SampledFrom([]int{200, 404, 500}).Draw(t, "status")
			text := line(client, at, "GET "+path+" HTTP/1.1", status, "x", "-")

			var got []string
			for _, d := range e.Line(l, []byte(text), false, Line{Number: int64(n)}, 0).Decisions {
				got = append(got, fmt.Sprintf("%s %s, more than %d, offence %d, %v", d.Jail, d.Target, d.Limit, d.Offence, d.Ban))
				if d.Line.Number != int64(n) || d.Time != second(at) || d.Since != d.Time || d.Until != d.Time+int64(d.Ban) {
					t.Fatalf("decision %+v at line %d", d, n)
				}
			}
			want := b.event(netip.MustParseAddr(client), path, status, second(at))
			sort.Strings(got)
			sort.Strings(want)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("line %d, %s: decided %v, want %v", n, text, got, want)
			}
			if rapid.IntRange(0, 20).Draw(t, "forget?") == 0 {
				e.Forget(second(sec - lateness))
			}
		}
	})
}

// ladder draws one to three lengths that don't get shorter.
func ladder(t *rapid.T) []time.Duration {
	var out []time.Duration
	length := time.Duration(0)
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		length += time.Duration(rapid.IntRange(0, 40).Draw(t, "longer by")) * time.Second
		out = append(out, max(length, time.Second))
	}
	return out
}

func TestEngineAllocatesNothing(t *testing.T) {
	e := NewEngine(Options{
		Trusted: pfx("10.0.0.0/8"),
		Jails: []Jail{
			{Name: "a", Logs: []string{"l"}, Limit: 50, Window: time.Minute, Ban: bans(time.Hour)},
			{Name: "b", Logs: []string{"l"}, Limit: 50, Window: time.Minute, Ban: bans(time.Hour), Where: Where{Match: Conditions{Paths: paths(t, "/x/*", "~^/y")}}, Overrides: []Override{{pfx("203.0.113.0/25")[0], 500}}},
		},
		Deny: &Deny{From: pfx("192.0.2.0/24", "2001:db8::/32"), Ban: bans(time.Hour)},
	})
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	l := e.Log("l", f)
	var texts [][]byte
	for i := range 4000 {
		texts = append(texts, []byte(line("10.0.0.1", i/2, "GET //x/%79 HTTP/1.1", 200, "x", fmt.Sprintf("203.0.113.%d", i%200))))
	}
	i := 0
	next := func() {
		if v := e.Line(l, texts[i], false, Line{}, 0); v.Step != StepCounted || len(v.Decisions) > 0 {
			t.Fatalf("line %d: %+v", i, v)
		}
		i++
	}
	for range 3000 {
		next()
	}
	if n := testing.AllocsPerRun(900, next); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}

// Lines that come too late are counted by log, once also if several jails would
// have counted them, and not if it is an exception that they come too late for.
func TestLateLines(t *testing.T) {
	jail := func(name string, window time.Duration) Jail {
		return Jail{Name: name, Logs: []string{"l", "other"}, Limit: 9, Window: window, Ban: bans(time.Hour)}
	}
	e := NewEngine(Options{
		Jails:  []Jail{jail("short", time.Second), jail("short too", 2*time.Second), jail("long", time.Hour)},
		Wanted: []Wanted{{Name: "uptime", Agents: []string{"UptimeBot"}, Limit: 9, Window: time.Second}},
	})
	l, other := nginxLog(t, e), nginxLog(t, e)
	ask := func(l *Log, client string, sec int, agent string) Step {
		return e.Line(l, []byte(line(client, sec, "GET / HTTP/1.1", 200, agent, "-")), false, Line{}, 0).Step
	}
	const busy, machine = "203.0.113.5", "203.0.113.6"
	ask(l, busy, 5000, "x")
	ask(l, machine, 5000, "UptimeBot")
	ask(l, machine, 1000, "UptimeBot") // counted like everybody's then
	if l.Late != 0 {
		t.Errorf("%d lines are late, want none yet", l.Late)
	}
	if step := ask(l, busy, 3000, "x"); step != StepCounted || l.Late != 1 {
		t.Errorf("%v, and %d lines are late, want it counted by one jail and late for two", step, l.Late)
	}
	ask(other, busy, 1000, "x")
	if l.Late != 1 || other.Late != 1 {
		t.Errorf("%d and %d lines are late, want one of each log", l.Late, other.Late)
	}
}
