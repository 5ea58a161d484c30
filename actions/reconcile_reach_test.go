//go:build linux

package actions_test

import (
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// limited is a fake that holds no ban for longer than an hour at a time.
type limited struct{ *fake }

const reach = time.Hour

func (limited) Longest() time.Duration { return reach }

func limitedBench(t *testing.T, f func(b *bench)) {
	fa := &fake{}
	reconcilingAction(t, fa, limited{fa}, f)
}

// lefts are the times that were given with the additions since it was last asked.
func (b *bench) lefts() (all []time.Duration) {
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	for _, batch := range b.fake.adds {
		for _, e := range batch {
			all = append(all, e.Left)
		}
	}
	b.fake.adds = nil
	return all
}

// A ban of three hours at an action that can hold an hour is extended in time,
// ends when it should, and nothing of that is somebody else's doing.
func TestBanBeyondReach(t *testing.T) {
	limitedBench(t, func(b *bench) {
		b.start()
		b.in("192.0.2.1/32", 3*time.Hour)
		end := time.Now().Add(3 * time.Hour)
		writes := 0
		for time.Now().Before(end.Add(-time.Minute)) {
			b.after(30 * time.Second)
			left := b.fake.left("192.0.2.1/32")
			if want := min(reach/2, time.Until(end)); left < want-time.Minute {
				t.Fatalf("%v before its end the ban is held for %v", time.Until(end), left)
			}
			for _, l := range b.lefts() {
				writes++
				if l > reach {
					t.Fatalf("a ban was given %v", l)
				}
			}
		}
		b.after(10 * time.Second)
		if left := b.fake.left("192.0.2.1/32"); left < 0 || left > time.Until(end)+2*time.Second {
			t.Errorf("it is held for %v, and ends in %v", left, time.Until(end))
		}
		if s := b.Stats(); s.DriftCorrected != 0 || s.Misheld != 0 || s.DriftAdded != 0 {
			t.Errorf("counted %+v", s)
		}
		if writes < 5 || writes > 7 {
			t.Errorf("it was written %d times, want once each half an hour", writes)
		}
	})
}

// What an earlier process has given for as long as it could is left alone.
func TestReachAtTheStart(t *testing.T) {
	limitedBench(t, func(b *bench) {
		b.fake.edit("192.0.2.1/32", 40*time.Minute)
		b.in("192.0.2.1/32", 2*time.Hour)
		b.fake.edit("192.0.2.2/32", 40*time.Minute)
		b.in("192.0.2.2/32", 50*time.Minute)
		b.start()
		b.calls("prepare list")
		b.after(30 * time.Second)
		b.calls("prepare list")
	})
}

// Somebody else who changes such a ban's time is still found out.
func TestDriftBeyondReach(t *testing.T) {
	for _, tt := range []struct {
		name    string
		left    time.Duration // of the ban
		edit    time.Duration // to what it is set by somebody else
		written bool
		drift   uint64
	}{
		{"as it was given", 3 * time.Hour, 59 * time.Minute, false, 0},
		{"half of the reach and more", 3 * time.Hour, 31 * time.Minute, false, 0},
		{"less than half", 3 * time.Hour, 25 * time.Minute, true, 0},
		{"less than a quarter", 3 * time.Hour, 10 * time.Minute, true, 1},
		{"for good", 3 * time.Hour, 0, true, 1},
		{"longer than can be", 3 * time.Hour, 2 * time.Hour, true, 1},
		{"longer than the ban", 50 * time.Minute, 58 * time.Minute, true, 1},
		{"less, of a short ban", 20 * time.Minute, 15 * time.Minute, true, 1},
		{"more, of a short ban", 20 * time.Minute, 25 * time.Minute, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limitedBench(t, func(b *bench) {
				b.start()
				b.in("192.0.2.1/32", tt.left)
				b.after(time.Second)
				b.lefts()
				b.fake.edit("192.0.2.1/32", tt.edit)
				b.after(35 * time.Second)
				if got := len(b.lefts()) > 0; got != tt.written {
					t.Errorf("written again: %t, want %t", got, tt.written)
				}
				if s := b.Stats(); s.DriftCorrected != tt.drift {
					t.Errorf("counted as drift: %d, want %d", s.DriftCorrected, tt.drift)
				}
			})
		})
	}
}

var _ actions.Limited = limited{}
