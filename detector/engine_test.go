package detector

import (
	"fmt"
	"net/netip"
	"sort"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
	"pgregory.net/rapid"
)

// bruteJail is a jail that keeps everything and counts again at each event.
type bruteJail struct {
	*Jail
	windows map[netip.Prefix]*bruteWindow
	matches func(path string, status int) bool
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
	count  int
	latest int64
}

// offend counts an offence of a jail.
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
	key := fmt.Sprint(name, target)
	o := b.offences[key]
	if at-o.latest >= int64(remember) {
		o.count = 0
	}
	b.offences[key] = bruteOffence{o.count + 1, at}
	return o.count + 1
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
		offence, again := before[b.historyOf(j.Jail)]
		if !again {
			offence = b.offend(j.Jail, target, at)
			before[b.historyOf(j.Jail)] = offence
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
// out-of-order events, both families, bans and their ends in between: the
// engine decides what the brute force decides, at the same lines.
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
		var jails []Jail
		b := &brute{
			offences: map[string]bruteOffence{}, shared: rapid.Bool().Draw(t, "shared"),
			remember: time.Duration(rapid.IntRange(1, 200).Draw(t, "remember")) * time.Second,
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "jails") {
			jails = append(jails, Jail{
				Name: fmt.Sprintf("j%d", i), Logs: []string{"l"},
				Limit:   rapid.IntRange(0, 8).Draw(t, "limit"),
				Window:  time.Duration(rapid.IntRange(1, 30).Draw(t, "window")) * time.Second,
				Ban:     ladder(t),
				Observe: rapid.IntRange(0, 3).Draw(t, "observe") == 0,
			})
			j := &jails[i]
			if j.Remember = b.remember; !b.shared {
				j.Remember = time.Duration(rapid.IntRange(1, 200).Draw(t, "jail's remember")) * time.Second
			}
			for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(networks), 0, 3, rapid.ID).Draw(t, "from") {
				j.Overrides = append(j.Overrides, Override{n, rapid.IntRange(0, 12).Draw(t, "other limit")})
			}
		}
		for i := range jails {
			c := rapid.SampledFrom(conditions).Draw(t, "where")
			jails[i].Where = c.where
			b.jails = append(b.jails, bruteJail{&jails[i], map[netip.Prefix]*bruteWindow{}, c.matches})
		}
		e := NewEngine(Options{Jails: jails, Remember: b.remember, SharedHistory: b.shared})
		f, err := parser.NewFormat("nginx")
		if err != nil {
			t.Fatal(err)
		}
		l := e.Log("l", f)
		// Beyond the shortest window, which old times are still known depends
		// on the room they had; see TestWindowSlowEvents.
		shortest := jails[0].Window
		for i := range jails {
			shortest = min(shortest, jails[i].Window)
		}
		lateness := rapid.IntRange(0, int(shortest/time.Second)-1).Draw(t, "lateness")
		sec := 1000
		for n := range rapid.IntRange(1, 300).Draw(t, "events") {
			sec += rapid.SampledFrom([]int{0, 0, 0, 1, 1, 3, 10, 70}).Draw(t, "step")
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
