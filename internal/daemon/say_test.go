package daemon

import (
	"fmt"
	"testing"
	"time"
)

func TestMessagesPerSecond(t *testing.T) {
	at := func(sec int64) time.Time { return time.Unix(1_000_000+sec, 0) }
	for _, c := range []struct {
		name    string
		seconds []int64 // one message each
		logged  int
		skipped int // told before the rest
		rest    int
	}{
		{"few", []int64{0, 0, 1}, 3, 0, 0},
		{"as many as may be", repeat(0, perSecond), perSecond, 0, 0},
		{"too many", repeat(0, perSecond+7), perSecond, 0, 7},
		{"told in the next second", append(repeat(0, perSecond+7), 1), perSecond + 1, 7, 0},
		{"told long after", append(repeat(0, perSecond+7), 4000), perSecond + 1, 7, 0},
		{"two bad seconds", append(repeat(0, perSecond+7), repeat(1, perSecond+5)...), 2 * perSecond, 7, 5},
		{"the clock is set back", append(repeat(0, perSecond+7), -3600), perSecond + 1, 7, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSayer()
			logged, skipped := 0, 0
			for _, sec := range c.seconds {
				ok, n := s.allow(at(sec))
				if ok {
					logged++
				}
				skipped += n
			}
			if rest := s.rest(at(9999)); logged != c.logged || skipped != c.skipped || rest != c.rest {
				t.Errorf("logged %d, told of %d and then of %d; want %d, %d, %d", logged, skipped, rest, c.logged, c.skipped, c.rest)
			}
			if rest := s.rest(at(9999)); rest != 0 {
				t.Errorf("%d are told again", rest)
			}
		})
	}
}

func repeat(sec int64, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = sec
	}
	return out
}

func TestSameThingOncePerHour(t *testing.T) {
	s, now := newSayer(), time.Unix(1_000_000, 0)
	for _, c := range []struct {
		key   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true},
		{"a", 0, false},
		{"b", 0, true},
		{"a", sameAgain - time.Second, false},
		{"a", sameAgain, true},
		{"a", sameAgain + time.Second, false},
	} {
		if got := s.once(c.key, now.Add(c.after)); got != c.want {
			t.Errorf("%s after %v: %v, want %v", c.key, c.after, got, c.want)
		}
	}
	for i := range 10 * maxSaid {
		s.once(fmt.Sprint(i), now)
		if len(s.last) > maxSaid {
			t.Fatalf("%d keys are kept, want %d at most", len(s.last), maxSaid)
		}
	}
}
