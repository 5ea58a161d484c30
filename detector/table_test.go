package detector

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// add is addAt for a key of which nothing is known.
func (t *table) add(rule uint16, limit int, k key, at int64) bool {
	return t.addAt(noSlot, rule, limit, k, at)
}

func keyN(n int) key {
	return keyOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), 32))
}

// check recounts what the table keeps books of.
func (t *table) check(tb interface{ Fatalf(string, ...any) }) {
	var used int64
	n := 0
	hosts := 0
	for _, r := range t.rules {
		if r == nil {
			continue
		}
		var inRule int64
		for lv := range r.levels {
			var inLevel int64
			prev := noSlot
			for i := r.levels[lv].head; i != noSlot; i = t.slot(i).next {
				s := t.slot(i)
				if s.prev != prev || int(s.level) != lv {
					tb.Fatalf("broken queue at slot %d", i)
				}
				if t.find(s.key) != i {
					tb.Fatalf("slot %d is not in the index", i)
				}
				if s.key.target().host() {
					hosts++
				}
				inLevel += slotBytes + s.win.spilled()
				prev = i
				n++
			}
			if r.levels[lv].tail != prev {
				tb.Fatalf("broken tail")
			}
			if r.levels[lv].used != inLevel {
				tb.Fatalf("level %d: %d bytes in the books, %d in truth", lv, r.levels[lv].used, inLevel)
			}
			inRule += inLevel
		}
		if r.used != inRule {
			tb.Fatalf("rule: %d bytes in the books, %d in truth", r.used, inRule)
		}
		used += inRule
	}
	if t.hosts != hosts {
		tb.Fatalf("table: %d hosts in the books, %d in truth", t.hosts, hosts)
	}
	if t.used != used || n != t.index.len() {
		tb.Fatalf("table: %d bytes and %d keys in the books, %d and %d in truth", t.used, t.index.len(), used, n)
	}
}

// The books are right whatever happens, which limits and memory that change,
// and rules that come and go, are part of.
func TestTableBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable(rapid.Int64Range(2000, 20000).Draw(t, "cap"))
		var rules []uint16
		most := 0
		add := func() {
			rules = append(rules, tab.addRule(rapid.IntRange(1, 20).Draw(t, "limit"), rapid.Int64Range(1, 100).Draw(t, "span")))
			most = max(most, len(rules))
		}
		for range rapid.IntRange(1, 3).Draw(t, "rules") {
			add()
		}
		now := int64(0)
		for range rapid.IntRange(1, 400).Draw(t, "events") {
			now += rapid.Int64Range(0, 5).Draw(t, "step")
			at := rapid.IntRange(0, len(rules)-1).Draw(t, "rule")
			rule, limit := rules[at], rapid.IntRange(0, 20).Draw(t, "limit")
			tab.widen(rule, limit)
			k := keyN(rapid.IntRange(0, 60).Draw(t, "key"))
			if rapid.IntRange(0, 9).Draw(t, "IPv6?") == 0 {
				k = keyOf(netip.MustParsePrefix("2001:db8::1/128"))
			}
			switch rapid.IntRange(0, 30).Draw(t, "what") {
			case 0, 1:
				tab.forget(now)
			case 2, 3:
				tab.pass(rule, limit, k, now)
			case 4:
				tab.dropRule(rule)
				rules = slices.Delete(rules, at, at+1)
				add()
			case 5:
				tab.setCap(rapid.Int64Range(2000, 20000).Draw(t, "cap"))
			default:
				tab.add(rule, limit, k, now)
			}
			tab.check(t)
			if tab.used > tab.cap {
				t.Fatalf("%d bytes, more than %d", tab.used, tab.cap)
			}
			if len(tab.rules) > most {
				t.Fatalf("%d numbers for %d rules", len(tab.rules), most)
			}
		}
	})
}

// Ten times the cap of keys with one event each, while one client goes about
// crossing the limit.
func TestFloodCannotHide(t *testing.T) {
	const limit, span = 50, int64(60e9)
	tab := newTable(1 << 20)
	rule := tab.addRule(limit, span)
	keys := 10 * int(tab.cap/(slotBytes+16))
	attacker := keyN(1)
	crossed := 0
	for i := range keys {
		at := int64(i) * span / int64(keys) / 2
		if i%(keys/60) == 0 && tab.add(rule, limit, attacker, at) {
			crossed++
		}
		tab.add(rule, limit, keyN(1000+i), at)
	}
	if tab.evicted == 0 {
		t.Fatal("the flood did not fill the table: the test shows nothing")
	}
	if crossed != 1 {
		t.Errorf("the attacker's 60 events crossed a limit of 50 %d times, want once", crossed)
	}
	tab.check(t)
}

// A crowd of keys near their limit cannot keep a newcomer from being counted.
func TestCrowdCannotShutOut(t *testing.T) {
	const limit, span = 50, int64(60e9)
	tab := newTable(1 << 20)
	rule := tab.addRule(limit, span)
	crowd := 4 * int(tab.cap/(slotBytes+8*64))
	for round := range 40 {
		for i := range crowd {
			tab.add(rule, limit, keyN(1000+i), int64(round)*1e9)
		}
	}
	newcomer := keyN(1)
	crossed := false
	for i := range limit + 1 {
		crossed = tab.add(rule, limit, newcomer, 41e9+int64(i)) || crossed
		for j := range 20 { // the crowd goes on
			tab.add(rule, limit, keyN(1000+(i*20+j)%crowd), 41e9+int64(i))
		}
	}
	if tab.evicted == 0 {
		t.Fatal("the crowd did not fill the table: the test shows nothing")
	}
	if !crossed {
		t.Error("a newcomer's 51 events did not cross a limit of 50")
	}
}

// A flood on one rule does not push out what another rule counts.
func TestFloodStaysInItsRule(t *testing.T) {
	tab := newTable(1 << 20)
	flooded, quiet := tab.addRule(50, 60e9), tab.addRule(3, 60e9)
	for i := range 3 {
		if tab.add(quiet, 3, keyN(1), int64(i)) {
			t.Fatal("crossed early")
		}
	}
	for i := range 100_000 {
		tab.add(flooded, 50, keyN(1000+i), int64(i))
	}
	if tab.evicted == 0 {
		t.Fatal("no flood")
	}
	if !tab.add(quiet, 3, keyN(1), 4) {
		t.Error("the fourth event did not cross a limit of 3: its window was pushed out")
	}
}

// Slots that move take their windows along: each goes on as one by itself.
func TestSlotsThatMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable(1 << 40)
		const limit, span = 9, 8000
		rules := []uint16{tab.addRule(limit, span), tab.addRule(limit, span)}
		model := map[tableKey]*window{}
		seed := rapid.IntRange(1, 1<<30).Draw(t, "seed")
		keys := rapid.IntRange(6<<pageBits, 10<<pageBits).Draw(t, "keys")
		now, moved := int64(0), false
		for round := range 4 {
			for i := range (2 + round%2*4) * keys {
				n := (i*104_729 + seed) % keys // a prime that is more than there are keys: it visits all
				if round%2 == 1 {
					n %= keys / 8 // the others come to be forgotten
				}
				now++
				rule, k := rules[n%2], keyN(n)
				w := model[k.of(rule)]
				if w == nil || tab.look(rule, k) == nil {
					w = &window{times: make([]int64, 0, fewTimes)}
					model[k.of(rule)] = w
				}
				want, _ := w.add(now, span, limit)
				if got := tab.add(rule, limit, k, now); got != (want == crossing) {
					t.Fatalf("key %d: crossed %v, by itself %v", n, got, want)
				} else if got {
					delete(model, k.of(rule))
				} else if times := tab.look(rule, k).times; !slices.Equal(times, w.times) {
					t.Fatalf("key %d: %v, by itself %v", n, times, w.times)
				}
			}
			before := len(tab.pages)
			tab.forget(now)
			moved = moved || len(tab.pages) < before && tab.index.len() > 0
			tab.check(t)
		}
		if !moved {
			t.Fatalf("%d pages for %d keys: no slot moved", len(tab.pages), tab.index.len())
		}
	})
}

func TestForget(t *testing.T) {
	tab := newTable(1 << 20)
	rule := tab.addRule(5, 60)
	tab.add(rule, 5, keyN(9), 1_000_000) // a time far in the future, arrived first
	for i := range 100 {
		tab.add(rule, 5, keyN(100+i), int64(1000+i))
	}
	tab.forget(1000 + 50 + 120)
	if got := tab.index.len(); got != 51 {
		t.Errorf("%d keys left, want the 50 of use and the one in the future", got)
	}
	tab.forget(1 << 40)
	if tab.index.len() != 0 || tab.used != 0 {
		t.Errorf("%d keys, %d bytes left", tab.index.len(), tab.used)
	}
	tab.check(t)
}

// Windows may hold more than a limit that was lowered needs.
func TestMoreThanTheLimitNeeds(t *testing.T) {
	tab := newTable(1 << 20)
	rule := tab.addRule(1, 60)
	for _, n := range []int{16, 64, 300} {
		for i := range n {
			if tab.add(rule, 1000, keyN(n), int64(i%8)) {
				t.Fatal("crossed")
			}
		}
	}
	tab.forget(0) // queues them again, at the highest level there is
	tab.check(t)
	for _, n := range []int{16, 64, 300} {
		if !tab.add(rule, 1, keyN(n), 8) {
			t.Errorf("%d events and one more do not cross a limit of 1", n)
		}
	}
	tab.check(t)
}

func TestExpiring(t *testing.T) {
	noted := 0
	m := newExpiring[int, string](3, func(n int) uint32 { return uint32(n) / 2 }, func(_, n int) { noted += n })
	m.put(1, "a", 10)
	m.put(2, "b", 30)
	m.put(3, "c", 20)
	m.put(1, "a2", 40)
	m.put(4, "d", 50) // full: 3 ends soonest
	if _, _, ok := m.get(3, 0); ok || m.evicted != 1 {
		t.Errorf("the entry that ends soonest is still there")
	}
	if v, until, ok := m.get(1, 39); !ok || v != "a2" || until != 40 {
		t.Errorf("got %q until %d, %v", v, until, ok)
	}
	if _, _, ok := m.get(1, 40); ok {
		t.Error("an entry runs at its end")
	}
	m.forget(30)
	m.delete(4)
	m.delete(4)
	if m.len() != 1 || len(m.queue) != 1 || noted != 1 {
		t.Errorf("%d entries, %d queued, %d noted", m.len(), len(m.queue), noted)
	}
	m.put(5, "e", 60)
	m.setCap(1)
	if _, _, ok := m.get(5, 0); !ok || m.len() != 1 || m.evicted != 2 || noted != 1 {
		t.Errorf("%d entries of a cap of 1, %d evicted, %d noted, the later one there: %v", m.len(), m.evicted, noted, ok)
	}
}
