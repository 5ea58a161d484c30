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
