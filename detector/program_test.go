package detector

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
	"pgregory.net/rapid"
)

// Together the jails' conditions say what each says by itself, whatever they
// are and whatever was looked at before.
func TestProgramEqualsEachMatcher(t *testing.T) {
	some := func(t *rapid.T, what string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 3, rapid.ID[string]).Draw(t, what)
	}
	conditions := func(t *rapid.T) (c Conditions) {
		if rapid.Bool().Draw(t, "nothing") {
			return c
		}
		c.Methods = some(t, "methods", "GET", "POST", "PUT")
		c.Agents = some(t, "agents", "bot", "Bot/2", "ob", "curl", "x")
		if rapid.Bool().Draw(t, "more agents") {
			c.Agents = append(c.Agents, "/2", "bo", "bo", "curl/8")
		}
		c.FalseCrawler = rapid.IntRange(0, 3).Draw(t, "false crawlers") == 0
		c.Protocols = some(t, "protocols", "HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/2.0")
		for _, s := range some(t, "status", "404", "4xx", "500-599", "200") {
			r, err := ParseStatus(s)
			if err != nil {
				t.Fatal(err)
			}
			c.Status = append(c.Status, r)
		}
		for _, s := range some(t, "paths", "/", "/a", "/a/*", "/*", "/ab", `~\.php$`, "~(?i)SK", "~^/(a|bb)/", "~a|b|", "~[ab]+c?", "~é", "~(?i)k(a|b)") {
			p, err := ParsePathPattern(s)
			if err != nil {
				t.Fatal(err)
			}
			c.Paths = append(c.Paths, p)
		}
		return c
	}
	rapid.Check(t, func(t *rapid.T) {
		var jails []*jailRules
		for range rapid.SampledFrom([]int{1, 2, 5, 64, 70}).Draw(t, "jails") {
			w := Where{Match: conditions(t), Not: conditions(t)}
			jails = append(jails, &jailRules{matcher: newMatcher(&w)})
		}
		room, lists := rapid.SampledFrom([]int{0, maxStatus * 10, maxTables}).Draw(t, "room"), rapid.SampledFrom([]int{0, maxTables}).Draw(t, "room of lists")
		p := makeProgram(jails, &room, &lists)
		if room < 0 || lists < 0 {
			t.Fatalf("more was taken than there was: %d, %d left", room, lists)
		}
		s := newScratch(p)
		text := func(what string, of ...string) []byte {
			if x := rapid.SampledFrom(append(of, "")).Draw(t, what); x != "" {
				return []byte(x)
			}
			return nil
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			ev := event{Event: &parser.Event{
				Method: text("method", "GET", "POST", "get", "HEAD"),
				Target: text("target", "/", "/a", "/a/x.php", "//a", "/ab?x", "/sK", "/\u017f\u212a", "/\u212aa", "/bb/\\xc3\\xa9", "/%61/"+strings.Repeat("y", memoText), "*"),
				Proto:  text("proto", "HTTP/1.0", "HTTP/1", "HTTP/1.1", "HTTP/2.0", "HTTP/2", "HTTP/3.0"),
				Agent:  text("agent", "curl/8", "BOT/2", "a bo bot", "-", strings.Repeat("z", maxAgent)+"bot"),
				Status: rapid.SampledFrom([]int{0, 100, 200, 404, 499, 500, 599, 600, 999, -1}).Draw(t, "status"),
			}}
			ev.Partial = rapid.Bool().Draw(t, "cut")
			liar := rapid.Bool().Draw(t, "false crawler")
			ev.falseCrawler = liar
			got := p.holds(&ev, s)
			for n, j := range jails {
				ev.reset(ev.Event)
				ev.falseCrawler = liar
				if got := got[n/64]>>(n%64)&1 == 1; got != j.matcher.holds(&ev) {
					t.Fatalf("jail %d, %+v: %v\n%+v", n, j.matcher, got, ev.Event)
				}
			}
		}
	})
}

// longList makes a jail with a list of agents no two of which begin alike.
func longList(name string, agents int, logs ...string) Jail {
	j := Jail{Name: name, Logs: logs, Limit: 5, Window: time.Minute}
	for i := range agents {
		j.Where.Match.Agents = append(j.Where.Match.Agents, fmt.Sprintf("%06d%s-bot", i, name))
	}
	return j
}

// However many logs and jails there are: what their conditions take is bounded,
// and a long list of a jail is not there once more for each log.
func TestProgramsAreBounded(t *testing.T) {
	size := func(r *Rules) (tables, programs int) {
		seen := map[*program]bool{}
		for _, p := range r.programs {
			if !seen[p] {
				seen[p] = true
				tables += p.size
			}
		}
		for i := range r.jails {
			for _, a := range []*agents{&r.jails[i].matcher.match.agents, &r.jails[i].matcher.not.agents} {
				if a.many != nil {
					tables += a.many.size()
				}
			}
		}
		return tables, len(seen)
	}
	var logs []string
	for i := range 200 {
		logs = append(logs, fmt.Sprint("log", i))
	}
	var same, others Options
	for i := range 20 {
		same.Jails = append(same.Jails, longList(fmt.Sprint("jail", i), 50, logs...))
	}
	for i := range logs { // no two logs have the same jails
		others.Jails = append(others.Jails, longList(fmt.Sprint("jail", i), 50, logs[:i+1]...))
	}
	r := Compile(same)
	tables, programs := size(r)
	if one := newProgram(jailsOf(r), maxTables).size; programs != 1 || tables != one {
		t.Errorf("%d programs and %d entries for logs with the same jails, want 1 and %d", programs, tables, one)
	}
	r = Compile(others)
	if tables, _ := size(r); tables > 2*maxTables {
		t.Errorf("%d entries, more than twice %d", tables, maxTables)
	}
	for _, p := range r.programs {
		if len(p.each) > 0 {
			return
		}
	}
	t.Error("all programs fit: the test shows little")
}

func jailsOf(r *Rules) (all []*jailRules) {
	for i := range r.jails {
		all = append(all, &r.jails[i])
	}
	return all
}

// Logs with the same jails share what is remembered of agents and paths.
func TestLogsShareTheirMemo(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{longList("a", 5, "x", "y"), longList("b", 5, "z")}})
	logs := map[string]*Log{}
	for _, name := range []string{"x", "y", "z"} {
		logs[name] = e.Log(name, nil)
		e.bind(logs[name])
	}
	if logs["x"].scratch != logs["y"].scratch || logs["x"].scratch == logs["z"].scratch {
		t.Error("a memo for each log, or one for those with other jails")
	}
}

// What an expression is said to require is in whatever it matches.
func TestRequired(t *testing.T) {
	for expr, want := range map[string]string{
		`\.php$`: ".php", `^/wp-(admin|login)`: "admin login", `/\.(env|git)(/|$)`: "env git", `(?i)UNION.+Select`: "select",
		`a|b`: "", `.*`: "", `x*`: "", `x?yz`: "yz", `(abc)+`: "abc", `(abc){2,3}`: "abc", `a|`: "", `(?i)é`: "", `[0-9]+`: "",
	} {
		if got := strings.Join(required(expr), " "); got != want {
			t.Errorf("%s requires %q, want %q", expr, got, want)
		}
	}
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "sk", `\.`, "(a|b)", "(ab|ba)", "(?i:sk)", "x*", "y?", "(ab)+", "(b){1,2}", "|", ".", "^", "$", "[ab]", "(?i:é)"})
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pieces"), "")
		re, err := regexp.Compile(expr)
		if err != nil {
			t.Skip()
		}
		needs := required(expr)
		if slices.Contains(needs, "") {
			t.Fatalf("%s requires %q, an empty text among them", expr, needs)
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abABsSkKxy.")), 0, 8, -1).Draw(t, "text")
		if len(needs) == 0 || !re.MatchString(text) {
			return
		}
		for _, n := range needs {
			if strings.Contains(strings.ToLower(text), n) {
				return
			}
		}
		t.Fatalf("%s matches %q and requires %q", expr, text, needs)
	})
}

// Whatever texts there are, a search by the automaton finds those that occur.
func TestLiteralsEqualPlainSearch(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-é")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 0, 80).Draw(t, "words")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-é/")), 0, 20, -1).Draw(t, "text")
		var all []literal
		want := make([]uint64, 2)
		fold := func(s string) string { return string(appendLower(nil, []byte(s))) }
		for i, w := range words {
			own := make([]uint64, 2)
			own[i/64] |= 1 << (i % 64)
			all = append(all, literal{[]byte(w), own})
			if strings.Contains(fold(text), fold(w)) {
				or(want, own)
			}
		}
		l := newLiterals(all, 2, maxTables)
		got := make([]uint64, 2)
		l.find([]byte(text), got)
		if got[0] != want[0] || got[1] != want[1] || l.in([]byte(text)) != (want[0]|want[1] != 0) {
			t.Fatalf("%q in %q: %x, want %x", words, text, got, want)
		}
	})
}
