package daemon

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// What the history does not return is stored: it must be what still counts,
// and no more than the cap.
func TestHistoryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cap = 5
		remember := func(jail string) time.Duration {
			if jail == "a" {
				return 10 * 24 * time.Hour
			}
			return detector.DefaultRemember
		}
		h, stored := newHistory(cap, remember), map[state.OffenceKey]time.Time{}
		now := time.Unix(1_000_000, 0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				o := state.Offence{
					Jail:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "jail"),
					Target: pfx(fmt.Sprintf("192.0.2.%d/32", rapid.IntRange(1, 5).Draw(t, "host"))),
					Last:   now.Add(-time.Duration(rapid.IntRange(0, 40*24).Draw(t, "hours ago")) * time.Hour),
				}
				stored[o.Key()] = o.Last
				h.add(&o)
			},
			"forget": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 20*24).Draw(t, "hours later")) * time.Hour)
				for _, k := range h.forget(now) {
					last, ok := stored[k]
					if !ok {
						t.Fatalf("%v is forgotten, and was not stored", k)
					}
					if counts := now.Sub(last) < remember(k.Jail); counts && len(stored) <= cap {
						t.Fatalf("%v is forgotten and still counts, with room enough", k)
					}
					end := last.Add(remember(k.Jail))
					for other, at := range stored {
						if at.Add(remember(other.Jail)).Before(end) {
							t.Fatalf("%v of %v is forgotten before %v of %v", k, last, other, at)
						}
					}
					delete(stored, k)
				}
				for k, last := range stored {
					if now.Sub(last) >= remember(k.Jail) {
						t.Fatalf("%v no longer counts and is kept", k)
					}
				}
				if len(stored) > cap {
					t.Fatalf("%d are kept, want %d at most", len(stored), cap)
				}
			},
			"": func(t *rapid.T) {
				if len(h.keys) != len(stored) || len(h.ends.heap.items) != len(stored) {
					t.Fatalf("%d known, %d queued, %d stored", len(h.keys), len(h.ends.heap.items), len(stored))
				}
			},
		})
	})
}
