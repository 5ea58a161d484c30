package detector

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bruteWindow is invariant 3 word by word, with every event kept.
type bruteWindow struct {
	times []int64 // in order of arrival
	late  int
}

func (b *bruteWindow) add(t, span int64, limit int) outcome {
	latest := t
	for _, s := range b.times {
		latest = max(latest, s)
	}
	if t <= latest-reach(span) {
		if b.late++; b.late <= limit+lateSlack {
			return tooLate
		}
		b.times = nil
	}
	b.late = 0
	b.times = append(b.times, t)
	for _, s := range b.times { // test at t and at each later stored event
		if s < t {
			continue
		}
		n := 0
		for _, u := range b.times {
			if s-span < u && u <= s {
				n++
			}
		}
		if n > limit {
			return crossing
		}
	}
	return kept
}

func TestWindowEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 12).Draw(t, "limit")
		span := rapid.Int64Range(1, 40).Draw(t, "span")
		step := rapid.Int64Range(0, 12).Draw(t, "largest step")
		// Late by less than a window, or else by more than ever counts.
		back := rapid.Int64Range(0, span-1).Draw(t, "largest lateness")
		var w window
		var b bruteWindow
		now := int64(1000)
		for i := range rapid.IntRange(1, 300).Draw(t, "events") {
			now += rapid.Int64Range(0, step).Draw(t, "step")
			at := now
			if rapid.IntRange(0, 3).Draw(t, "late?") == 0 {
				at -= rapid.Int64Range(0, back).Draw(t, "lateness")
			} else if rapid.IntRange(0, 9).Draw(t, "much too late?") == 0 {
				at -= reach(span) + 13*400
			}
			got, pos := w.add(at, span, limit)
			want := b.add(at, span, limit)
			if got != want {
				t.Fatalf("event %d at %d: got %v, want %v; window %v, all %v", i, at, got, want, w.times, b.times)
			}
			for j := 1; j < len(w.times); j++ {
				if w.times[j-1] > w.times[j] {
					t.Fatalf("not ascending: %v", w.times)
				}
			}
			if cap(w.times) > 3*limit+4 {
				t.Fatalf("room for %d times, more than 3 times the limit of %d", cap(w.times), limit)
			}
			if got == crossing {
				if w.times[pos] != at {
					t.Fatalf("crossing event reported at %d, which holds %d", pos, w.times[pos])
				}
				if rapid.Bool().Draw(t, "take back") { // as a limit that passes does
					w.takeBack(pos, span)
					b.times = b.times[:len(b.times)-1]
				} else {
					w, b = window{}, bruteWindow{}
				}
			}
		}
	})
}

// modelWindow is a window that drops, after each event, all that no window can
// reach any more.
type modelWindow struct {
	bruteWindow
	slow bool
}

func (m *modelWindow) add(t, span int64, limit int) outcome {
	latest := t
	for _, s := range m.times {
		latest = max(latest, s)
	}
	if behind := latest - t; span <= behind && behind < reach(span) {
		m.slow = true
	}
	n := len(m.times)
	o := m.bruteWindow.add(t, span, limit)
	if o != tooLate && len(m.times) <= n { // the clock was set back
		latest, m.slow = t, false
	}
	m.times = slices.DeleteFunc(m.times, func(s int64) bool { return s <= latest-keep(span, m.slow) })
	return o
}

// However late events are: what is known of a key depends on times alone, and
// not on how much room its window has.
func TestWindowDependsOnTimesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		span := rapid.Int64Range(1, 40).Draw(t, "span")
		most := rapid.SampledFrom([]int64{span, 2 * span, 3 * span, reach(span) + 5}).Draw(t, "lateness")
		var windows [4]window
		begin := func() {
			for i, room := range []int{0, fewTimes, 40, 1000} {
				windows[i] = window{times: make([]int64, 0, room)}
			}
		}
		begin()
		var m modelWindow
		now := int64(1_000_000)
		for i := range rapid.IntRange(1, 200).Draw(t, "events") {
			now += rapid.Int64Range(0, 12).Draw(t, "step")
			at := now
			if rapid.IntRange(0, 5).Draw(t, "late?") == 0 {
				at -= rapid.Int64Range(0, most).Draw(t, "lateness")
			}
			want := m.add(at, span, limit)
			back := want == crossing && rapid.Bool().Draw(t, "take back")
			for j := range windows {
				w := &windows[j]
				got, pos := w.add(at, span, limit)
				if got != want {
					t.Fatalf("event %d at %d, window %d: got %v, want %v; window %v, all %v", i, at, j, got, want, w.times, m.times)
				}
				if back {
					w.takeBack(pos, span)
				}
			}
			if back {
				m.times = m.times[:len(m.times)-1]
			} else if want == crossing {
				begin()
				m = modelWindow{}
			}
		}
	})
}

// Events that are late by more than a window: whatever crosses has crossed by
// the brute force as well, and nothing that has been kept is overlooked.
func TestWindowSlowEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		span := rapid.Int64Range(1, 40).Draw(t, "span")
		var w window
		var all, since bruteWindow // since: from the first slow event on
		now := int64(10_000)
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			now += rapid.Int64Range(0, 8).Draw(t, "step")
			at := now - rapid.Int64Range(0, reach(span)-1).Draw(t, "lateness")*rapid.Int64Range(0, 1).Draw(t, "late?")
			got, _ := w.add(at, span, limit)
			want := all.add(at, span, limit)
			if got == crossing && want != crossing {
				t.Fatalf("crossed at %d without cause: %v", at, all.times)
			}
			if w.slow {
				if since.add(at, span, limit) == crossing && got != crossing {
					t.Fatalf("overlooked a crossing at %d: %v", at, since.times)
				}
			}
			if cap(w.times) > maxTimes(span, limit, true) {
				t.Fatalf("room for %d times", cap(w.times))
			}
			if got == crossing || want == crossing {
				w, all, since = window{}, bruteWindow{}, bruteWindow{}
			}
		}
	})
}

// Where servers log the beginning of a request at its end, holding requests
// open and sending a quick one now and then must not hide them.
func TestWindowSlownessIsNoHidingPlace(t *testing.T) {
	for _, tt := range []struct {
		limit            int
		span, held, each int64 // seconds; each: requests for one quick one
	}{{50, 60, 90, 18}, {50, 60, 400, 57}, {10, 5, 6, 18}, {10, 5, 200, 17}, {50, 10, 70, 240}} {
		var w window
		crossings := 0
		for i := range int64(3000) {
			at := 100_000 + i/tt.each
			if i%tt.each != 0 {
				at -= tt.held
			}
			if o, _ := w.add(at*1e9, tt.span*1e9, tt.limit); o == crossing {
				crossings++
				w.clear()
			}
		}
		if crossings == 0 {
			t.Errorf("3000 requests, %d a second, held for %d s, never crossed %d in %d s", tt.each, tt.held, tt.limit, tt.span)
		}
	}
}

// A clock that was set back must not leave a client unseen.
func TestWindowClockSetBack(t *testing.T) {
	const limit, span = 5, 60
	var w window
	for i := range int64(3) {
		w.add(1_000_000+i, span, limit)
	}
	for i := range int64(100) {
		if o, _ := w.add(1000+i/10, span, limit); o == crossing {
			return
		}
	}
	t.Error("100 events within 10 s after the clock was set back never crossed a limit of 5")
}

func TestWindowSteadyStateAllocatesNothing(t *testing.T) {
	const limit, span = 50, 60
	var w window
	at := int64(0)
	for range 1000 {
		at += 2
		w.add(at, span, limit)
	}
	if n := testing.AllocsPerRun(1000, func() {
		at += 2
		w.add(at, span, limit)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// A limit of 10,000 in 24 hours is as exact as any, in memory that is bounded.
func TestLongWindowWithALargeLimit(t *testing.T) {
	const limit, span = 10_000, int64(24 * time.Hour)
	tab := newTable(1 << 30)
	rule := tab.addRule(limit, span)
	for n, every := range map[int]int64{1: span / limit, 2: span/limit + 1, 3: span/limit - 1, 4: span / (2 * limit)} {
		crossed := 0
		for i := range int64(3 * limit) {
			if tab.add(rule, limit, keyN(n), i*every) {
				if crossed++; crossed == 1 && i != limit {
					t.Errorf("one each %d ns: crossed at event %d", every, i)
				}
			}
		}
		// Of events that are span/limit apart, those of a window are limit.
		if over := every < span/limit; over != (crossed > 0) {
			t.Errorf("one each %d ns: crossed %d times", every, crossed)
		}
	}
	if most := int64(4 * (slotBytes + 8*maxTimes(span, limit, false))); tab.used > most {
		t.Errorf("%d bytes for 4 keys, more than %d", tab.used, most)
	}
	tab.check(t)
}
