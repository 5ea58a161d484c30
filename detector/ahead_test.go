package detector

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// Lines that are prepared, many or few at a time, have the verdicts that they
// have one by one.
func TestPreparedIsNoDifferent(t *testing.T) {
	options := Options{
		Jails: []Jail{
			{Name: "all", Logs: []string{"l"}, Limit: 8, Window: 10 * time.Second, Ban: []time.Duration{30 * time.Second, time.Minute}},
			{Name: "each", Logs: []string{"l"}, Limit: 3, Window: time.Minute, Ban: []time.Duration{time.Minute}, Observe: true},
			{Name: "late", Logs: []string{"l"}, Limit: 20, Window: 30 * time.Second, Ban: []time.Duration{time.Minute}},
			{Name: "errors", Logs: []string{"l"}, Limit: 2, Window: time.Minute, Ban: []time.Duration{time.Minute},
				Where: Where{Match: Conditions{Status: []StatusRange{{404, 404}}}}},
		},
		Wanted:  []Wanted{{Name: "monitor", Agents: []string{"monitor"}, Limit: 3, Window: time.Minute}},
		Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Allow:   []netip.Prefix{netip.MustParsePrefix("203.0.113.3/32")},
		Guard:   fakeGuard{"2001:db8::/64": "shared", "203.0.113.4/32": "somebody"},
	}
	r := rand.New(rand.NewPCG(8, 9))
	peers := []string{"192.0.2.1", "192.0.2.2", "64:ff9b::cb00:7101", "::ffff:203.0.113.9", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:0:1::2"}
	for i := range 12 {
		peers = append(peers, fmt.Sprintf("203.0.113.%d", i))
	}
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	one, many := NewEngine(options), NewEngine(options)
	lone, lmany := one.Log("l", f), many.Log("l", f)
	events, whose, records := make([]parser.Event, 200), make([]Identity, 200), make([]Record, 200) // used again and again
	steps := map[Step]int{}
	decisions := 0
	for round := range 400 {
		some := records[:1+r.IntN(len(records))]
		var texts [][]byte
		var cuts []bool
		for i := range some {
			text := line(peers[r.IntN(len(peers))], round*10+r.IntN(10)-r.IntN(2)*r.IntN(30), "GET / HTTP/1.1", []int{200, 404}[r.IntN(8)/7],
				[]string{"x", "monitor"}[r.IntN(6)/5], []string{"-", "198.51.100.1, 198.51.100.2", "nonsense", "192.0.2.9"}[r.IntN(4)])
			if r.IntN(20) == 0 {
				text = text[:r.IntN(len(text))]
			}
			texts = append(texts, []byte(text))
			cuts = append(cuts, r.IntN(20) == 0)
			err := f.Parse(texts[i], cuts[i], &events[i])
			many.Identify(&whose[i], &events[i], err, cuts[i])
			if whose[i].Failed() != (err != nil) || err == nil && whose[i].Time() != events[i].Time {
				t.Fatalf("%s: %v, %v, at %d", texts[i], err, whose[i].Failed(), whose[i].Time())
			}
			some[i].Set(&whose[i], &events[i], err)
		}
		many.Prepare(lmany, some)
		for i := range some {
			at := Line{Path: "p", Number: int64(i)}
			want := one.Line(lone, texts[i], cuts[i], at, 0)
			got := many.Parsed(lmany, &some[i], &at, 0)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d, %s:\n%+v, want\n%+v", round, texts[i], got, want)
			}
			if peer := events[i].Peer; one.Peer() != peer || many.Peer() != peer {
				t.Fatalf("round %d, %s: of %s and %s", round, texts[i], one.Peer(), many.Peer())
			}
			steps[got.Step]++
			decisions += len(got.Decisions)
		}
		if round == 200 { // what was prepared by other rules is not used
			other := options
			other.Trusted = nil
			for i := range some {
				many.Identify(&whose[i], &events[i], some[i].err, cuts[i])
				some[i].Set(&whose[i], &events[i], some[i].err)
			}
			many.Prepare(lmany, some)
			one.Use(Compile(other))
			many.Use(Compile(other))
			for i := range some {
				at := Line{}
				if got, want := many.Parsed(lmany, &some[i], &at, 0), one.Line(lone, texts[i], cuts[i], at, 0); !reflect.DeepEqual(got, want) {
					t.Fatalf("by other rules, %s:\n%+v, want\n%+v", texts[i], got, want)
				}
			}
			one.Use(Compile(options))
			many.Use(Compile(options))
		}
	}
	if lone.LogCounters != lmany.LogCounters {
		t.Errorf("counters %+v, want %+v", lmany.LogCounters, lone.LogCounters)
	}
	for _, s := range []Step{StepUnparsed, StepNobody, StepAllowed, StepWanted, StepInfrastructure, StepBanned, StepCounted} {
		if steps[s] < 100 {
			t.Errorf("only %d lines end at %q: the test shows little", steps[s], s)
		}
	}
	if decisions < 100 {
		t.Errorf("only %d decisions", decisions)
	}
}
