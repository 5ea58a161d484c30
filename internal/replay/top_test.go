package replay

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/tailban/tailban/detector"
)

// The most active are counted by their targets, whatever these have in common.
func TestTopTargets(t *testing.T) {
	s := newClients()
	want := map[netip.Prefix]uint64{}
	clients := []string{
		"64:ff9b::1:0:0:1", "64:ff9b::", "64:ff9b::cb00:7101", "64:ff9b:1::", "64:ff9b:1:0:ffff:ffff:ffff:ffff",
		"203.0.113.1", "255.255.255.255", "0.0.0.0", "::1", "::", "2001:db8::1", "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff",
	}
	for i, c := range clients {
		client := netip.MustParseAddr(c)
		for range i + 1 {
			s.add(&detector.Verdict{Client: client})
			want[detector.TargetOf(client)]++
		}
	}
	s.finish()
	for _, c := range s.top.counters {
		if got := c.value.target(); c.n != want[got] {
			t.Errorf("%s has %d lines, want %d", got, c.n, want[got])
		}
	}
	if len(s.top.counters) != len(want) {
		t.Errorf("%d targets, want %d", len(s.top.counters), len(want))
	}
	if n, _ := s.all.count(); n != len(clients) {
		t.Errorf("%d clients, want %d", n, len(clients))
	}
}

// alike makes an address of each number, of which two at a time have the same hash:
// it multiplies two halves, which the second of them has the other way round.
func (p *places) alike(n int) address {
	v := address{0, uint64(n) / 2}
	if n&1 != 0 {
		both := p.seed.hi ^ p.seed.lo
		v = address{v.lo ^ both, v.hi ^ both}
	}
	return v
}

// Counts are exact while there are few values, and else within what is said:
// compared with a count of everything, for streams with very different shapes.
func TestTop(t *testing.T) {
	if testing.Short() {
		t.Skip("only counts, a lot")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for name, next := range map[string]func(i int) int{
		"few":             func(int) int { return r.IntN(100) },
		"exactly as many": func(i int) int { return i % maxTop },
		"one too many":    func(i int) int { return i % (maxTop + 1) },
		"all different":   func(i int) int { return 1_000_000 + i },
		"some in a flood": func(i int) int {
			if r.IntN(4) == 0 {
				return r.IntN(7)
			}
			return 1_000_000 + i
		},
		"skewed": func(int) int { return int(r.ExpFloat64() * 30_000) },
		"late": func(i int) int { // whoever comes when all counters are taken
			if i > 150_000 && r.IntN(3) == 0 {
				return 5
			}
			return 1_000_000 + i
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTop()
			add := func(v address) bool {
				_, fresh := c.add(v, c.places.hash(v))
				return fresh
			}
			find := func(v address) (uint32, bool) { return c.find(v, c.places.hash(v)) }
			if a, b := c.places.alike(8), c.places.alike(9); a == b || c.places.hash(a) != c.places.hash(b) {
				t.Fatalf("%v and %v are not alike", a, b)
			}
			truth := map[address]uint64{}
			const lines = 300_000
			for i := range lines {
				v := c.places.alike(next(i))
				if _, before := truth[v]; !before && !add(v) {
					t.Fatalf("%d is new and not called so", v)
				} else if before {
					add(v)
				}
				truth[v]++
			}
			places := 0
			for _, p := range c.places.entries {
				if p != 0 {
					places++
				}
			}
			if c.total != lines || len(c.counters) > maxTop || places != len(c.counters) {
				t.Fatalf("total %d, %d counters, %d of them found", c.total, len(c.counters), places)
			}
			for i, x := range c.counters {
				n := truth[x.value]
				over := c.over[i]
				if x.n < n || x.n-over > n || over > lines/maxTop {
					t.Fatalf("%d came %d times, counted %d with %d too many", x.value, n, x.n, over)
				}
				if len(truth) <= maxTop && (over > 0 || x.n != n) {
					t.Fatalf("not exact: %d came %d times, counted %d", x.value, n, x.n)
				}
				if at, ok := find(x.value); !ok || at != uint32(i) {
					t.Fatalf("%d is not where the index says", x.value)
				}
			}
			// Whoever is frequent is there.
			for v, n := range truth {
				if _, ok := find(v); n > lines/maxTop && !ok {
					t.Errorf("%d came %d times and has no counter", v, n)
				}
			}
			most := c.most(3, func(a, b address) int { return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo)) })
			if !slices.IsSortedFunc(most, func(a, b counted) int { return cmp.Compare(b.n-b.over, a.n-a.over) }) || len(most) != 3 {
				t.Errorf("%+v", most)
			}
		})
	}
}
