package detector

import (
	"runtime"
	"testing"
	"unsafe"
)

func TestSlotIsAsLargeAsCounted(t *testing.T) {
	if got := unsafe.Sizeof(slot{}); got > slotBytes-22 {
		t.Errorf("a slot takes %d bytes, more than is counted", got)
	}
}

// memoryOf returns what clients with so many events each take, after a garbage
// collection, and what the table counts.
func memoryOf(clients, events int) (heap, counted int64) {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	tab := newTable(1 << 40)
	rule := tab.addRule(50, 60e9)
	for e := range events {
		for n := range clients {
			tab.add(rule, 50, keyN(n), int64(e)*1e9)
		}
	}
	heap, counted = live()-before, tab.used
	runtime.KeepAlive(tab)
	return heap, counted
}

// What max_memory is compared with is what windows really take, however many
// events they hold: never less, and not much more.
func TestMemoryIsAsCounted(t *testing.T) {
	for _, events := range []int{1, 5, 7, 50} {
		heap, counted := memoryOf(100_000, events)
		if heap > counted*105/100 || heap < counted*70/100 {
			t.Errorf("%d events: %d bytes a client, counted %d", events, heap/100_000, counted/100_000)
		}
	}
}

// What is free after a flood is given back, whether the flood is forgotten or
// makes way for others: never is much more taken than is counted.
func TestMemoryAfterAFlood(t *testing.T) {
	const flood = 200_000
	for _, forgotten := range []bool{true, false} {
		tab := newTable(flood * slotBytes)
		rule := tab.addRule(100, 60e9)
		bounded := func(when string) {
			t.Helper()
			slots := int64(len(tab.pages)) << pageBits
			if taken := slots * slotBytes; taken > tab.used+(maxFree+1<<pageBits)*slotBytes {
				t.Fatalf("%s: %d bytes in slots, %d counted", when, taken, tab.used)
			}
		}
		for n := range flood {
			tab.add(rule, 100, keyN(n), int64(n))
		}
		bounded("flood")
		if forgotten {
			tab.forget(1e15)
			bounded("forgotten")
			if len(tab.pages) > 1 {
				t.Errorf("%d pages for no keys", len(tab.pages))
			}
		}
		for e := range 90 {
			for n := range 20_000 {
				tab.add(rule, 100, keyN(1<<24+n), 1e15+int64(e)*1e8)
			}
			spilled := tab.used - int64(tab.index.len())*slotBytes
			if slots := int64(len(tab.pages)) << pageBits * slotBytes; slots+spilled > tab.cap+(maxFree+1<<pageBits)*slotBytes {
				t.Fatalf("%d events each: %d bytes in slots and %d beside, of %d", e, slots, spilled, tab.cap)
			}
		}
		tab.check(t)
	}
}

func BenchmarkMemoryPerClient(b *testing.B) {
	for _, x := range []struct {
		name            string
		clients, events int
	}{{"1 event", 1_000_000, 1}, {"5 events", 1_000_000, 5}, {"50 events", 200_000, 50}} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				heap, counted := memoryOf(x.clients, x.events)
				b.ReportMetric(float64(heap)/float64(x.clients), "B/client")
				b.ReportMetric(float64(counted)/float64(x.clients), "counted-B/client")
			}
		})
	}
}
