package detector

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// named are wanted machines that are known by their names, and jails.
func named(t fataler) Options {
	return Options{
		LooksUp: true,
		Wanted: []Wanted{
			{Name: "search", Agents: []string{"Googlebot"}, From: []Source{{"googlebot", pfx("66.249.64.0/20")}}, Domains: []string{"googlebot.com", "google.com"}},
			{Name: "bing", Agents: []string{"bingbot"}, Domains: []string{"search.msn.com"}, Limit: 4, Window: time.Minute},
			{Name: "ranges", Agents: []string{"Ranger"}, From: []Source{{"", pfx("198.51.100.0/24")}}},
		},
		Jails: []Jail{
			{Name: "web", Logs: []string{"l"}, Limit: 2, Window: time.Minute, Ban: bans(time.Hour)},
			{Name: "trap", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Hour), Where: Where{Match: Conditions{Paths: paths(t, "/trap")}}},
			{Name: "false", Logs: []string{"l"}, Limit: 0, Window: time.Second, Ban: bans(time.Hour), Where: Where{Match: Conditions{FalseCrawler: true}}},
		},
		Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour)},
	}
}

// play drives an engine by what a script says, one step a word, and returns what
// came of it. Seconds are given as "@7"; "G", "B" and "R" are requests of who calls
// himself Googlebot, bingbot and Ranger, "t" one of that kind for the trap, "d" one of who
// is denied besides, "c" one of no machine; "?" lists the questions; "+NAME", "-" and "!" are
// answers: proved by a name, disproved, failed; "." takes what is due.
type play struct {
	*Engine
	l      *Log
	sec    int
	client string
	asked  map[string]Question
}

func newPlay(t *testing.T, o Options) *play {
	e := NewEngine(o)
	return &play{Engine: e, l: nginxLog(t, e), client: "203.0.113.5", asked: map[string]Question{}}
}

const dayOf = int64(24 * time.Hour)

func (p *play) now() int64 { return second(p.sec) }

func (p *play) request(client, agent, path string) string {
	v := p.Line(p.l, []byte(line(client, p.sec, "GET "+path+" HTTP/1.1", 200, agent, "-")), false, Line{Offset: int64(p.sec)}, p.now())
	return p.told(v)
}

func (p *play) told(v *Verdict) string {
	got := v.Step.String()
	if v.Step == StepWanted {
		got = v.Proof.String()
	}
	for range v.Postponed {
		got += " waits"
	}
	for _, d := range v.Decisions {
		got += " BAN " + d.Jail
		if d.Claims != "" {
			got += " (" + d.Claims + ": " + d.Unproven + ")"
		}
	}
	return got
}

func (p *play) due() (out []string) {
	for v := p.Due(p.now(), func(string) {}); v != nil; v = p.Due(p.now(), func(string) {}) {
		out = append(out, p.told(v))
	}
	return out
}

func (p *play) answer(result Result, name string) {
	q, ok := p.asked[p.client]
	if !ok {
		q = Question{Client: addr(p.client)}
	}
	a := Answer{Question: q, Result: result, Reason: "because", Until: p.now() + dayOf}
	if name != "" {
		a.Names = []string{name}
	}
	p.Answer(a)
}

func (p *play) run(script string) string {
	agents := map[string]string{"G": "Googlebot", "B": "BINGBOT/2", "R": "Ranger", "c": "curl", "t": "Googlebot", "d": "Googlebot sqlmap"}
	var out []string
	for word := range strings.FieldsSeq(script) {
		switch {
		case word[0] == '@':
			fmt.Sscan(word[1:], &p.sec)
		case word == "?":
			for q, ok := p.Question(); ok; q, ok = p.Question() {
				p.asked[q.Client.String()] = q
				out = append(out, "asks "+q.Client.String())
			}
		case word[0] == '+':
			p.answer(Proved, word[1:])
		case word == "-":
			p.answer(Disproved, "")
		case word == "!":
			p.answer(Unknown, "")
		case word == ".":
			out = append(out, p.due()...)
		case strings.ContainsAny(word, ":."):
			p.client = word
		default:
			path := "/"
			if word == "t" {
				path = "/trap"
			}
			out = append(out, p.request(p.client, agents[word], path))
		}
	}
	return strings.Join(out, "; ")
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// What becomes of who can prove by his name to be a machine, step by step.
func TestProofByName(t *testing.T) {
	for _, tt := range []struct{ why, script, want string }{
		{"proved before a limit is reached", "@1 G ? +crawl-1.googlebot.com @2 G G G G", "counted; asks 203.0.113.5" + strings.Repeat("; search, by DNS: crawl-1.googlebot.com", 4)},
		{"what was counted meanwhile is the machine's", "@1 G G ? +google.com @2 c c c", "counted; counted; asks 203.0.113.5; counted; counted; counted BAN web"},
		{"ranges come first, and nothing is asked", "66.249.64.1 @1 G ?", "search, by the ranges of googlebot"},
		{"without domains nothing is asked", "@1 R ?", "counted BAN false"},
		{"no claim, no question", "@1 c c ?", "counted; counted"},
		{"a decision waits, and is dropped", "@1 G G G G . ? @30 . +x.googlebot.com . @32 .", "counted; counted; counted waits; counted; asks 203.0.113.5"},
		{"… is made at once if it is disproved", "@1 G G G ? - . @2 G", "counted; counted; counted waits; asks 203.0.113.5; counted BAN web; already banned"},
		{"… or the look-up fails, but then it is no lie", "@1 G G G ? ! . ", "counted; counted; counted waits; asks 203.0.113.5; counted BAN web (search: because)"},
		{"… or it takes too long", "@1 G G G ? @30 G . @31 .", "counted; counted; counted waits; asks 203.0.113.5; counted; counted BAN web (search: its names were not looked up in time)"},
		{"… also if nobody takes the question", "@1 G G G @31 .", "counted; counted; counted waits; counted BAN web (search: its names were not looked up in time)"},
		{"… or the clock is set back", "@100 G G G @90 .", "counted; counted; counted waits; counted BAN web (search: its names were not looked up in time)"},
		{"a limit of 0, and a denial, wait as well", "@1 t d ? . - .", "counted waits; denied waits; asks 203.0.113.5; counted BAN trap"},
		{"… for a ban that its denial would be first of", "@1 d @2 t ? - .", "denied waits; counted waits; asks 203.0.113.5; counted BAN deny"},
		{"both jails that decide at a line do", "@1 G G t ? - .", "counted; counted; counted waits waits; asks 203.0.113.5; counted BAN web BAN trap"},
		{"proved by another machine's name", "@1 B ? +x.googlebot.com B G", "counted; asks 203.0.113.5; counted BAN false; search, by DNS: x.googlebot.com"},
		{"a name that only ends like the domain", "@1 B ? +evilsearch.msn.com B", "counted; asks 203.0.113.5; counted BAN false"},
		{"the claim is false from the answer on", "@1 G ? - G", "counted; asks 203.0.113.5; counted BAN false"},
		{"a failure is no lie, and asked again when it is over", "@1 G ? ! G ? @86402 G ?", "counted; asks 203.0.113.5; counted; counted; asks 203.0.113.5"},
		{"up to its own limit, with what came while it was asked for", "@1 B B ? +x.search.msn.com B B B B", "counted; counted; asks 203.0.113.5; bing, by DNS: x.search.msn.com; bing, by DNS: x.search.msn.com; counted; counted"},
		{"a proof ends", "@1 G ? +x.googlebot.com @86400 G @86402 G ?", "counted; asks 203.0.113.5; search, by DNS: x.googlebot.com; counted; asks 203.0.113.5"},
		{"a proof is renewed before it ends", "@1 G ? +x.googlebot.com @82700 G ? @82900 G ? +x.googlebot.com @86500 c c G", "counted; asks 203.0.113.5; search, by DNS: x.googlebot.com; search, by DNS: x.googlebot.com; asks 203.0.113.5; counted; counted; search, by DNS: x.googlebot.com"},
		{"… which uses up nothing of others there", "@1 G ? +x.googlebot.com @82900 c c G ? +x.googlebot.com c", "counted; asks 203.0.113.5; counted; counted; search, by DNS: x.googlebot.com; asks 203.0.113.5; counted BAN web"},
		{"… a failure doesn't end it, and isn't tried again at once", "@1 G ? +x.googlebot.com @82900 G ? ! G ? @86402 G", "counted; asks 203.0.113.5; search, by DNS: x.googlebot.com; asks 203.0.113.5; search, by DNS: x.googlebot.com; counted"},
		{"… and what disproves it does", "@1 G ? +x.googlebot.com @82900 G ? - G", "counted; asks 203.0.113.5; search, by DNS: x.googlebot.com; asks 203.0.113.5; counted BAN false"},
		{"by address, not by network", "2001:db8::1 @1 G ? +x.googlebot.com G 2001:db8::2 G ?", "counted; asks 2001:db8::1; search, by DNS: x.googlebot.com; counted; asks 2001:db8::2"},
		{"an answer that nobody asked for is one", "+x.googlebot.com @1 G", "search, by DNS: x.googlebot.com"},
		{"who may be one of two is no liar yet", "@1 G ?", "counted; asks 203.0.113.5"},
	} {
		if got := newPlay(t, named(t)).run(tt.script); got != tt.want {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.why, tt.script, got, tt.want)
		}
	}
}

// Without anybody who looks up, nothing waits, and decisions say what they lack.
func TestProofByNameIsNotLookedUp(t *testing.T) {
	o := named(t)
	o.LooksUp = false
	if got, want := newPlay(t, o).run("@1 G t ? . 66.249.64.1 G"), "counted; counted BAN trap (search: its names are not looked up); search, by the ranges of googlebot"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A decision that waits is gone if the client was allowed, forgiven or banned
// meanwhile, or its jail is gone; one of a jail that is held only observes.
func TestDueByWhatHoldsThen(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(p *play)
		want string
	}{
		"as before":            {func(*play) {}, "counted BAN web"},
		"allowed":              {func(p *play) { p.SetAllow(pfx("203.0.113.5/32")) }, "counted"},
		"forgiven":             {func(p *play) { p.Forgive(pfx("203.0.113.0/24")[0], "web", p.now()) }, "counted"},
		"cleared":              {func(p *play) { p.Clear(pfx("203.0.113.5/32")[0], "") }, ""},
		"cleared of that jail": {func(p *play) { p.Clear(pfx("203.0.113.0/24")[0], "web") }, ""},
		"cleared of another":   {func(p *play) { p.Clear(pfx("203.0.113.5/32")[0], "trap") }, "counted BAN web"},
		"banned":               {func(p *play) { p.Restore(pfx("203.0.113.0/24")[0], "", true, time.Unix(0, second(3600))) }, "counted"},
		"jail gone":            {func(p *play) { p.Use(Compile(Options{LooksUp: true})) }, "counted"},
		"held":                 {func(p *play) { p.Hold("web", true) }, "counted BAN web"},
	} {
		p := newPlay(t, named(t))
		p.run("@1 G G G ?")
		tt.do(p)
		p.sec = 31
		if got := strings.ReplaceAll(strings.Join(p.due(), "; "), " (search: its names were not looked up in time)", ""); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if at, ok := p.NextDue(); ok || p.ProofStats().Postponed != 0 {
			t.Errorf("%s: still due at %d", name, at)
		}
	}
}

// The decision is about the line that crossed, and made when it is made.
func TestDueDecision(t *testing.T) {
	p := newPlay(t, named(t))
	p.run("2001:db8::1 @1 G G @2 G")
	if at, ok := p.NextDue(); !ok || at != p.now()+int64(MaxPostponement) {
		t.Errorf("due at %d, %v", at, ok)
	}
	p.client = "192.0.2.7" // another line between
	p.sec = 40
	p.run("c")
	var log string
	v := p.Due(p.now(), func(l string) { log = l })
	if v == nil || len(v.Decisions) != 1 || log != "l" {
		t.Fatalf("%+v of %q", v, log)
	}
	d := v.Decisions[0]
	if d.Target.String() != "2001:db8::/64" || d.Client != addr("2001:db8::1") || d.Line.Offset != 2 || d.Time != second(2) ||
		d.Since != p.now() || d.Count != 3 || d.Offence != 1 || !d.Enforced || string(p.Event().Agent) != "Googlebot" {
		t.Errorf("%+v, of %+v", d, p.Event())
	}
	if fills := p.Fill(d.Target, p.now()); fills[0].Count != 0 {
		t.Errorf("what led to it is not used up: %+v", fills[0])
	}
}

// Who was cleared, and comes again, waits as long as anybody.
func TestPostponedAnew(t *testing.T) {
	p := newPlay(t, named(t))
	p.run("@1 t")
	p.Clear(pfx("203.0.113.5/32")[0], "")
	if got, want := p.run("@20 t 203.0.113.6 @25 t @49 ."), "counted waits; counted waits"; got != want {
		t.Errorf("before its time: %s, want %s", got, want)
	}
	if got := p.run("@50 ."); strings.Count(got, "BAN") != 1 {
		t.Errorf("at its time: %s", got)
	}
}

// A clock that is set, or a machine that slept, makes no proof come too late.
func TestPostponedWhileTheClockIsSet(t *testing.T) {
	for _, by := range []int{-500, 100, 100_000} {
		p := newPlay(t, named(t))
		p.run("@1000 G G G @1010 203.0.113.6 G G G ?")
		p.sec = 1020 + by
		p.ClockSet(time.Duration(by) * time.Second)
		if got := p.run(fmt.Sprintf(". @%d . 203.0.113.5 +x.googlebot.com .", 1029+by)); got != "" {
			t.Errorf("by %d: before its time: %s", by, got)
		}
		if got := p.run(fmt.Sprintf("@%d . @%d .", 1039+by, 1040+by)); strings.Count(got, "BAN web") != 1 || p.ProofStats().Postponed != 0 {
			t.Errorf("by %d: at its time: %s", by, got)
		}
	}
}

// What a crash loses is decided anew by the next event: putting off used up
// nothing.
func TestPostponedIsLostInACrash(t *testing.T) {
	p := newPlay(t, named(t))
	p.run("@1 G G G")
	s := p.Snapshot()
	o := named(t)
	o.LooksUp = false
	again := newPlay(t, o)
	again.RestoreSnapshot(s)
	if got := again.run("@2 G"); !strings.HasPrefix(got, "counted BAN web") {
		t.Errorf("got %s", got)
	}
}

// Other rules: what was proved stays and is compared anew, all else is asked
// again, and answers to older questions don't disprove anything.
func TestProofsAfterAReload(t *testing.T) {
	p := newPlay(t, named(t))
	p.run("192.0.2.1 @1 G ? +x.googlebot.com 192.0.2.2 G ? - 192.0.2.3 G ?")
	o := named(t)
	p.Use(Compile(o))
	if got, want := p.run("192.0.2.2 G 192.0.2.3 G ?"), "counted BAN false; counted"; got != want {
		t.Errorf("with the same domains: %s, want %s", got, want)
	}
	o.Wanted[0].Domains = []string{"googlebot.com", "example.net"}
	p.Use(Compile(o))
	if got, want := p.run("192.0.2.1 G 192.0.2.3 - G ? -"), "search, by DNS: x.googlebot.com; counted waits; asks 192.0.2.3"; got != want {
		t.Errorf("with others: %s, want %s", got, want)
	}
	o.Wanted[0].Domains = []string{"googlebot.com"}
	if got, want := p.run(". 192.0.2.4 G G G ?"), "counted BAN web; counted; counted; counted waits; asks 192.0.2.4"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	p.Use(Compile(o))
	if got, want := p.run("- . ? +y.googlebot.com @40 ."), "asks 192.0.2.4"; got != want {
		t.Errorf("a decision waits: %s, want %s", got, want)
	}
	p.Use(Compile(Options{}))
	p.Use(Compile(o))
	if st := p.ProofStats(); st.Proved != 2 || st.Unproved != 0 || st.Questions != 0 {
		t.Errorf("after rules without: %+v", st)
	}
}

// flood is one of many clients, each of a network of its own.
func flood(i int) string { return fmt.Sprintf("%d.%d.%d.7", 10+i%100, i/100%256, i/25600) }

// A flood of claimants is bounded, can't push out who has proved it, and who gets
// no place is an ordinary client. Who is about to be banned is asked for first, and
// gets the place of somebody who isn't.
func TestProofsAreBounded(t *testing.T) {
	p := newPlay(t, named(t))
	p.run("192.0.2.1 @1 G ? +x.googlebot.com")
	for i := range MaxQuestions + 5 {
		p.run(flood(i) + " G")
	}
	st := p.ProofStats()
	if st.Questions != MaxQuestions || st.Dropped != 5 {
		t.Errorf("%+v", st)
	}
	if got, want := p.run("203.0.113.9 G G G"), "counted; counted; counted waits"; got != want {
		t.Errorf("a place of another's: %s, want %s", got, want)
	}
	p.run(flood(77) + " G G")
	for n, want := range []string{"203.0.113.9", flood(77), flood(6)} {
		q, _ := p.Question()
		if p.asked[want] = q; q.Client != addr(want) {
			t.Errorf("asked as number %d: %v, want %s", n, q.Client, want)
		}
	}
	p.run("203.0.113.9 - ?")
	if got, want := p.run("203.0.113.10 G ?"), "counted; asks 203.0.113.10"; got != want {
		t.Errorf("the last place: %s, want %s", got, want)
	}
	if got, want := p.run("203.0.113.11 G G G"), "counted; counted; counted BAN web (search: too many clients wait for their names to be looked up)"; got != want {
		t.Errorf("all are being looked up: %s, want %s", got, want)
	}
	p.run("203.0.113.10 -")
	for i := range 2 * MaxUnproved {
		p.Answer(Answer{Question: Question{Client: addr(flood(i)), Rules: p.proofs.rules}, Result: Disproved, Until: p.now() + 2*dayOf})
	}
	if st := p.ProofStats(); st.Unproved != MaxUnproved || st.Proved != 1 || st.Forgotten != MaxUnproved+2 || st.Questions != 0 {
		t.Errorf("%+v", st)
	}
	if got, want := p.run("192.0.2.1 G"), "search, by DNS: x.googlebot.com"; got != want {
		t.Errorf("after the flood: %s", got)
	}
	if _, ok := p.Question(); ok {
		t.Error("who has an answer is asked for")
	}
	for i := range MaxProved + 5 {
		p.Answer(Answer{Question: Question{Client: addr(flood(i))}, Result: Proved, Names: []string{"x.google.com"}, Until: p.now() + 3*dayOf})
	}
	if st := p.ProofStats(); st.Proved != MaxProved || st.Evicted != 6 {
		t.Errorf("%+v", st)
	}
}

func TestPostponedAreBounded(t *testing.T) {
	p := newPlay(t, named(t))
	n := 0
	for i := range MaxPostponed {
		n += strings.Count(p.run(flood(i)+" @1 t"), "waits")
	}
	if got := p.run("203.0.113.9 t"); n != MaxPostponed || !strings.Contains(got, "BAN trap (search: its names are being looked up)") {
		t.Errorf("%d wait, and then: %s", n, got)
	}
	if st := p.ProofStats(); st.Postponed != MaxPostponed || st.Refused != 1 {
		t.Errorf("%+v", st)
	}
	p.sec = 31
	if got := len(p.due()); got != MaxPostponed || p.ProofStats().Postponed != 0 || len(p.postponed.clients) != 0 {
		t.Errorf("%d are due, %+v", got, p.ProofStats())
	}
}

// Whatever happens in whatever order: nothing waits longer than it may, no client
// is asked for twice at a time, what is counted as waiting waits, and whoever isn't
// proved is banned in the end.
func TestPostponingProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := newPlay(t, named(t))
		first, open := map[string]int{}, map[string]bool{} // since when a client's decision waits; questions taken
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			p.sec += rapid.IntRange(0, 6).Draw(r, "seconds")
			p.due()
			for client, at := range first {
				if p.postponed.clients[addr(client)] == nil {
					delete(first, client)
				} else if p.sec >= at+30 {
					r.Fatalf("at %d: %s has waited since %d", p.sec, client, at)
				}
			}
			p.client = fmt.Sprintf("203.0.113.%d", rapid.IntRange(1, 3).Draw(r, "client"))
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0, 1, 2:
				if got := p.run(rapid.SampledFrom([]string{"G", "t", "d", "B"}).Draw(r, "request")); strings.Contains(got, "waits") {
					if _, ok := first[p.client]; !ok {
						first[p.client] = p.sec
					}
				}
			case 3:
				for q, ok := p.Question(); ok; q, ok = p.Question() {
					if open[q.Client.String()] {
						r.Fatalf("%s is asked for twice", q.Client)
					}
					open[q.Client.String()], p.asked[q.Client.String()] = true, q
				}
			default:
				if open[p.client] {
					delete(open, p.client)
					p.run(rapid.SampledFrom([]string{"+x.googlebot.com", "+y.search.msn.com", "-", "!"}).Draw(r, "answer"))
					if s := p.proofs.of(addr(p.client), p.now()); s.Result == Proved && p.postponed.clients[addr(p.client)] != nil {
						r.Fatalf("%s is proved and waits", p.client)
					}
				}
			}
			n := 0
			for _, w := range p.postponed.clients {
				n += len(w.decisions)
			}
			if n != p.postponed.n {
				r.Fatalf("%d decisions wait, %d are counted", n, p.postponed.n)
			}
		}
		p.sec += 30
		p.due()
		if p.postponed.n != 0 {
			r.Fatalf("%d decisions wait for ever", p.postponed.n)
		}
	})
}

func TestInDomain(t *testing.T) {
	for _, tt := range []struct {
		name, domain string
		want         bool
	}{
		{"crawl-1.googlebot.com", "googlebot.com", true},
		{"googlebot.com", "googlebot.com", true},
		{"evilgooglebot.com", "googlebot.com", false},
		{".googlebot.com", "googlebot.com", true},
		{"googlebot.com.evil.example", "googlebot.com", false},
		{"com", "googlebot.com", false},
		{"", "googlebot.com", false},
		{"x", "", false},
	} {
		if got := InDomain(tt.name, tt.domain); got != tt.want {
			t.Errorf("%q in %q: %v", tt.name, tt.domain, got)
		}
	}
}

// What a trace says of names, and that it asks nothing.
func TestTraceOfNames(t *testing.T) {
	for _, tt := range []struct{ script, agent, want string }{
		{"@1", "Googlebot", "its agent is that of search, but 203.0.113.5 is not in its ranges, and its names are not looked up yet"},
		{"@1", "bingbot", "its agent is that of bing, but its names are not looked up yet"},
		{"@1 G", "Googlebot", "its agent is that of search, but 203.0.113.5 is not in its ranges, and its names are being looked up"},
		{"@1 G ? -", "Googlebot", "its agent is that of search, but 203.0.113.5 is not in its ranges, and because"},
		{"@1 G ? +x.googlebot.com", "Googlebot", "its agent is that of search, and its name proves it: x.googlebot.com, and it has no limit"},
		{"@1 G ? +x.googlebot.com", "bingbot", "its agent is that of bing, but its name x.googlebot.com is in none of its domains"},
	} {
		p := newPlay(t, named(t))
		p.run(tt.script)
		before := p.ProofStats()
		tr := p.Trace(p.l, []byte(line(p.client, p.sec, "GET /trap HTTP/1.1", 200, tt.agent, "-")), false, p.now())
		var got []string
		for _, s := range tr.Steps {
			if s.Number == 4 {
				got = append(got, s.Result)
			}
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s, %s: got %q, want %q", tt.script, tt.agent, text, tt.want)
		}
		if p.ProofStats() != before {
			t.Errorf("%s: a trace has changed %+v to %+v", tt.script, before, p.ProofStats())
		}
		if strings.Contains(tt.want, "looked up") {
			if d := tr.Jails[1].Decision; d == nil || !d.Waits || d.Claims == "" {
				t.Errorf("%s: decision %+v", tt.script, d)
			}
		}
	}
}

func TestNamed(t *testing.T) {
	p := newPlay(t, named(t))
	show := func() string {
		n, ok := p.Named(addr(p.client), p.now())
		return fmt.Sprintf("%v %d %v %v %q %v %d %v", ok, n.Result, n.Pending, n.Names, n.Reason, n.Until != 0, n.Due, n.Jails)
	}
	due := second(31)
	for _, tt := range []struct{ script, want string }{
		{"@1", `false 0 false [] "its names are not looked up yet" false 0 []`},
		{"t", fmt.Sprintf(`true 0 true [] "its names are being looked up" false %d [trap]`, due)},
		{"? !", fmt.Sprintf(`true 0 false [] "because" true %d [trap]`, due)},
		{"+x.google.com", `true 1 false [x.google.com] "" true 0 []`},
	} {
		p.run(tt.script)
		if got := show(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.script, got, tt.want)
		}
	}
	if _, ok := NewEngine(Options{}).Named(addr("192.0.2.1"), 0); ok {
		t.Error("known without domains")
	}
}

// Claims cost nothing in memory once a client is known, nor while it is asked
// for.
func TestProofsAllocateNothing(t *testing.T) {
	for _, tt := range []struct{ why, script string }{
		{"asked for", "@1 G"}, {"proved", "@1 G ? +x.googlebot.com"}, {"disproved", "@1 G ? -"}, {"waits", "@1 t"}, {"no claim", "@1 c"},
	} {
		o := named(t)
		o.Jails = o.Jails[:2]
		o.Jails[0].Limit = 1000
		p := newPlay(t, o)
		p.run(tt.script)
		agent := "Googlebot"
		if tt.why == "no claim" {
			agent = "curl"
		}
		text := []byte(line(p.client, 1, "GET / HTTP/1.1", 200, agent, "-"))
		next := func() { p.Line(p.l, text, false, Line{}, p.now()) }
		for range 900 { // room for the window
			next()
		}
		if n := testing.AllocsPerRun(90, next); n != 0 {
			t.Errorf("%s: %v allocations a line", tt.why, n)
		}
	}
}
