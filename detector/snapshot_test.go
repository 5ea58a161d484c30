package detector

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An engine that is replaced at any line by another one, made of its snapshot,
// decides what one that goes on decides: late and slow events, overrides, jails
// that observe, wanted agents and denied addresses included.
func TestSnapshotEqualsGoingOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyRules(t)
		whole, cut := NewEngine(o), NewEngine(o)
		wholeLog, cutLog := nginxLog(t, whole), nginxLog(t, cut)
		sec := 1000
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			text := anyLine(t, &sec)
			if rapid.IntRange(0, 7).Draw(t, "cut?") == 0 {
				s := cut.Snapshot()
				cut = NewEngine(o)
				cutLog = nginxLog(t, cut)
				cut.RestoreSnapshot(s)
				cut.windows.check(t)
				if got, want := contents(cut.Snapshot()), contents(s); got != want {
					t.Fatalf("taken up was\n%s\nof\n%s", got, want)
				}
				for _, k := range whole.windows.keys() {
					is, was := cut.windows.look(k.rule, k.target()), whole.windows.look(k.rule, k.target())
					if len(was.times) > 0 && (is == nil || is.slow != was.slow || is.late != was.late) {
						t.Fatalf("a window is %+v, was %+v", is, was)
					}
				}
			}
			want, got := show(whole.Line(wholeLog, text, false, Line{}, 0)), show(cut.Line(cutLog, text, false, Line{}, 0))
			if got != want {
				t.Fatalf("%s: after a cut\n%s\nwant\n%s", text, got, want)
			}
		}
		if a, b := whole.Stats(), cut.Stats(); a.Bans != b.Bans || a.Offences != b.Offences {
			t.Fatalf("%+v after cuts, want %+v", b, a)
		}
	})
}

// anyRules are some of each kind.
func anyRules(t *rapid.T) Options {
	o := Options{
		Remember: time.Duration(rapid.IntRange(5, 2000).Draw(t, "remember")) * time.Second, SharedHistory: rapid.Bool().Draw(t, "shared"),
		Wanted: []Wanted{{Name: "w", Agents: []string{"uptime"}, Limit: rapid.IntRange(1, 4).Draw(t, "wanted"), Window: 7 * time.Second},
			{Name: "free", Agents: []string{"uptime"}, From: []Source{{"x", pfx("203.0.113.3/32")}}}},
		Deny: &Deny{From: []netip.Prefix{netip.MustParsePrefix("203.0.113.9/32")}, Ban: ladder(t), Observe: rapid.Bool().Draw(t, "deny observes")},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "jails") {
		o.Jails = append(o.Jails, Jail{
			Name: fmt.Sprintf("j%d", i), Logs: []string{"l"}, Ban: ladder(t),
			Limit:     rapid.IntRange(0, 6).Draw(t, "limit"),
			Window:    time.Duration(rapid.IntRange(1, 30).Draw(t, "window")) * time.Second,
			Observe:   rapid.IntRange(0, 2).Draw(t, "observe") == 0,
			Overrides: []Override{{netip.MustParsePrefix("203.0.113.2/32"), rapid.IntRange(0, 12).Draw(t, "other")}},
		})
	}
	return o
}

// anyLine is the next one after a second, which it moves on.
func anyLine(t *rapid.T, sec *int) []byte {
	*sec += rapid.SampledFrom([]int{0, 0, 0, 1, 1, 3, 10, 70}).Draw(t, "step")
	at := *sec
	if rapid.IntRange(0, 4).Draw(t, "late?") == 0 {
		at -= rapid.SampledFrom([]int{1, 2, 5, 20, 100, 700}).Draw(t, "by")
	}
	client := rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.9", "2001:db8::1", "2001:db8::2", "64:ff9b::1"}).Draw(t, "client")
	agent := rapid.SampledFrom([]string{"x", "x", "uptime"}).Draw(t, "agent")
	return []byte(line(client, at, "GET / HTTP/1.1", 200, agent, "-"))
}

// contents is all that a snapshot holds, in an order of its own.
func contents(s *Snapshot) string {
	var out []string
	times := s.Times
	for i := range s.Rule {
		n := s.Count[i]
		out = append(out, fmt.Sprint(s.Rules[s.Rule[i]], s.Hi[i], s.Lo[i], s.Bits[i], s.Flags[i], s.Late[i], s.Room[i], times[:n]))
		times = times[n:]
	}
	for _, b := range s.Bans {
		out = append(out, fmt.Sprintf("%+v", b))
	}
	for _, o := range s.Offences {
		out = append(out, fmt.Sprintf("%+v", o))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// snapshotted is an engine with two events of each of some clients at 10 and
// 20 s, and its options.
func snapshotted(t *testing.T, clients ...string) (*Engine, Options) {
	o := Options{Jails: []Jail{{Name: "web", Logs: []string{"l"}, Limit: 2, Window: time.Minute, Ban: []time.Duration{time.Hour}}}}
	e := NewEngine(o)
	l := nginxLog(t, e)
	for _, sec := range []int{10, 20} {
		for _, c := range clients {
			e.Line(l, []byte(line(c, sec, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0)
		}
	}
	return e, o
}

// third is what becomes of a client's event at 30 s, its third.
func third(t *testing.T, e *Engine, client string) bool {
	v := e.Line(nginxLog(t, e), []byte(line(client, 30, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0)
	return len(v.Decisions) == 1
}

// Which windows are taken up is a question of what they count.
func TestRestoreOfOtherRules(t *testing.T) {
	was, _ := snapshotted(t, "203.0.113.1")
	s := was.Snapshot()
	for name, tt := range map[string]struct {
		change func(*Jail)
		kept   bool
	}{
		"nothing":       {func(*Jail) {}, true},
		"limit":         {func(j *Jail) { j.Limit = 1 }, true},
		"ban":           {func(j *Jail) { j.Ban = []time.Duration{time.Minute} }, true},
		"mode":          {func(j *Jail) { j.Observe = true }, true},
		"order of logs": {func(j *Jail) { j.Logs = []string{"l", "l"} }, true},
		"window":        {func(j *Jail) { j.Window = 2 * time.Minute }, false},
		"logs":          {func(j *Jail) { j.Logs = []string{"l", "m"} }, true},
		"name":          {func(j *Jail) { j.Name = "shop" }, false},
		"where":         {func(j *Jail) { j.Where.Match.Methods = []string{"GET"} }, false},
	} {
		_, o := snapshotted(t)
		tt.change(&o.Jails[0])
		e := NewEngine(o)
		if taken := e.RestoreSnapshot(s); (taken == 1) != tt.kept {
			t.Errorf("%s: %d windows taken up", name, taken)
		}
		if got := third(t, e, "203.0.113.1"); got != tt.kept {
			t.Errorf("%s: the third event decides: %v, want %v", name, got, tt.kept)
		}
	}
}

// Less memory than before: those near their limit stay.
func TestRestoreIntoLessMemory(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("198.51.100.%d", i))
	}
	was, o := snapshotted(t, many...)
	o.MaxMemory = 20 * (slotBytes + 16)
	e := NewEngine(o)
	e.RestoreSnapshot(was.Snapshot())
	e.windows.check(t)
	if st := e.Stats(); st.Memory > o.MaxMemory || st.Windows < 10 {
		t.Errorf("%d windows in %d bytes, allowed are %d", st.Windows, st.Memory, o.MaxMemory)
	}
	if !third(t, e, "198.51.100.199") {
		t.Error("the latest window was not taken up")
	}
}

// What was forgiven since the snapshot doesn't come back with it.
func TestRestoreUnderPardons(t *testing.T) {
	was, o := snapshotted(t, "203.0.113.1", "203.0.113.2", "2001:db8::1")
	s := was.Snapshot()
	for _, tt := range []struct {
		pardon, jail string
		before       int
		client       string
		decides      bool
	}{
		{"203.0.113.1/32", "", 20, "203.0.113.1", false},
		{"203.0.113.1/32", "web", 10, "203.0.113.1", false},
		{"203.0.113.0/24", "", 20, "203.0.113.2", false},
		{"::/0", "", 20, "2001:db8::1", false},
		{"203.0.113.1/32", "", 9, "203.0.113.1", true},
		{"203.0.113.1/32", "shop", 20, "203.0.113.1", true},
		{"203.0.113.1/32", "", 20, "203.0.113.2", true},
		{"2001:db8::7/128", "", 20, "2001:db8::1", true},
	} {
		e := NewEngine(o)
		e.Forgive(netip.MustParsePrefix(tt.pardon), tt.jail, second(tt.before))
		e.RestoreSnapshot(s)
		if got := third(t, e, tt.client); got != tt.decides {
			t.Errorf("pardon %s %q up to %d: %s decides: %v, want %v", tt.pardon, tt.jail, tt.before, tt.client, got, tt.decides)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	const keys, events = 1_000_000, 5
	e := NewEngine(Options{MaxMemory: 1 << 30, Jails: []Jail{{Name: "web", Limit: 50, Window: time.Minute, Ban: []time.Duration{time.Hour}}}})
	for n := range events {
		for i := range keys {
			e.windows.add(e.jails[0].rule, 50, keyN(i*2654435761%keys), int64(n)*1e9)
		}
	}
	if e.windows.index.len() != keys {
		b.Fatal(e.windows.index.len())
	}
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Snapshot()
		}
	})
	s := e.Snapshot()
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			NewEngine(Options{MaxMemory: 1 << 30, Jails: e.rules.opt.Jails}).RestoreSnapshot(s)
		}
	})
}
