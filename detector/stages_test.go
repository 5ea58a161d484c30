package detector

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// BenchmarkStages takes the parts of judging an event apart: conditions for as
// many jails, the window for as many clients, who is banned already for as many
// bans.
func BenchmarkStages(b *testing.B) {
	path := func(s string) []PathPattern {
		p, err := ParsePathPattern(s)
		if err != nil {
			b.Fatal(err)
		}
		return []PathPattern{p}
	}
	for _, n := range []int{1, 5, 20, 100} {
		b.Run(fmt.Sprintf("conditions of %d jails", n), func(b *testing.B) {
			var jails []*jailRules
			for i := range n {
				c := [...]Conditions{
					{Paths: path(fmt.Sprintf("/x%d/*", i))},
					{Paths: path(fmt.Sprintf(`~/y%d.*\.php$`, i))},
					{Agents: []string{fmt.Sprintf("bot%d", i), "sqlmap", "nikto"}},
					{Status: []StatusRange{{400, 499}}, Methods: []string{"POST"}},
					{Paths: path(fmt.Sprintf("/sign-in%d", i))},
				}[i%5]
				jails = append(jails, &jailRules{matcher: newMatcher(&Where{Match: c})})
			}
			p := newProgram(jails, maxTables)
			s := newScratch(p)
			var events []event
			for i := range 4096 { // more than are remembered
				events = append(events, event{Event: &parser.Event{
					Method: []byte("GET"), Target: fmt.Appendf(nil, "/articles/2026/%d/some-title?page=%d", i, i%7), Proto: []byte("HTTP/1.1"), Status: 200,
					Agent: fmt.Appendf(nil, "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/140.0", i%200),
				}})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ev := &events[i%len(events)]
				ev.reset(ev.Event)
				p.holds(ev, s)
			}
		})
	}
	for _, clients := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("window of %d clients", clients), func(b *testing.B) {
			tab := newTable(1 << 40)
			rule := tab.addRule(50, int64(time.Minute))
			for i := range 3 * clients {
				tab.add(rule, 50, keyN(i%clients), 0)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				tab.add(rule, 50, keyN(i*7919%clients), int64(i)*int64(2*time.Minute)/int64(clients))
			}
		})
	}
	for _, bans := range []int{0, 100, 100_000} {
		b.Run(fmt.Sprintf("not banned among %d bans", bans), func(b *testing.B) {
			e := NewEngine(Options{})
			for i := range bans {
				e.Restore(keyN(1<<24+i).prefix(), "", true, time.Unix(2_000_000_000, 0))
			}
			c := &candidate{who: &who{time: 1}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.key = keyN(i % 100_000); e.banned(c, enforced) {
					b.Fatal("banned")
				}
			}
		})
	}
}
