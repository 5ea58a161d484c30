package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

func TestSkew(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		late func(i int) time.Duration
		n    int
		want time.Duration
	}{
		{"right", func(int) time.Duration { return time.Second }, 100, 0},
		{"two hours", func(int) time.Duration { return 2*time.Hour + 3*time.Second }, 32, 2 * time.Hour},
		{"not often enough", func(int) time.Duration { return 2 * time.Hour }, 31, 0},
		{"in the future", func(int) time.Duration { return -5*time.Hour - 30*time.Minute }, 40, -5*time.Hour - 30*time.Minute},
		{"requests that last", func(i int) time.Duration { return 2*time.Hour + time.Duration(i%4)*time.Minute }, 40, 2 * time.Hour},
		{"catching up", func(i int) time.Duration { return time.Duration(100-i) * time.Minute }, 100, 0},
		{"some minutes", func(int) time.Duration { return 9 * time.Minute }, 40, 0},
		{"one that is right", func(i int) time.Duration { return time.Duration(min(i%32, 1)) * time.Hour }, 64, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s skew
			for i := range c.n {
				s.add(now, now.Add(-c.late(i)).UnixNano())
			}
			if changed := s.look(); s.alarm != c.want || changed != (c.want != 0) {
				t.Errorf("difference %v (changed: %v), want %v", s.alarm, changed, c.want)
			}
			if s.look() {
				t.Error("it is said twice")
			}
		})
	}
}

func TestSkewIsOver(t *testing.T) {
	var s skew
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for range skewSamples {
		s.add(now, now.Add(-time.Hour).UnixNano())
	}
	s.look()
	for range skewSamples {
		s.add(now, now.UnixNano())
	}
	if !s.look() || s.alarm != 0 {
		t.Errorf("difference %v, want none any more", s.alarm)
	}
}

func TestSkewHint(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		check(t, err)
		return z
	}
	summer := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		late        time.Duration
		zone, local *time.Location
		want        string
	}{
		{-2 * time.Hour, time.UTC, zone("Europe/Berlin"), `its times are 2h0m0s ahead of the clock: set timezone to that of the server, which is 2h0m0s east of UTC now, for example "Europe/Berlin"`},
		{-2 * time.Hour, time.UTC, zone("Africa/Cairo"), `its times are 2h0m0s ahead of the clock: set timezone to that of the server, which is 2h0m0s east of UTC now, for example "Europe/Berlin"`},
		{-9 * time.Hour, time.UTC, zone("Asia/Seoul"), `its times are 9h0m0s ahead of the clock: set timezone to that of the server, which is 9h0m0s east of UTC now, for example "Asia/Seoul"`},
		{7 * time.Hour, time.UTC, time.UTC, `its times are 7h0m0s behind the clock: set timezone to that of the server, which is 7h0m0s west of UTC now, for example "America/Los_Angeles"`},
		{2 * time.Hour, zone("Europe/Berlin"), time.UTC, `its times are 2h0m0s behind the clock: set timezone to that of the server, which is 0s east of UTC now, for example "UTC"`},
		{-5*time.Hour - 30*time.Minute, time.UTC, time.UTC, `its times are 5h30m0s ahead of the clock: set timezone to that of the server, which is 5h30m0s east of UTC now, for example "Asia/Kolkata"`},
		{-20 * time.Hour, time.UTC, time.UTC, `its times are 20h0m0s ahead of the clock: set timezone to that of the server, which is 20h0m0s east of UTC now`},
		{time.Hour, nil, time.UTC, `its times are 1h0m0s behind the clock: is the clock right on the machine that writes it?`},
	} {
		if got := skewHint(c.late, c.zone, c.local, summer); got != c.want {
			t.Errorf("%v with %v here %v:\ngot  %s\nwant %s", c.late, c.zone, c.local, got, c.want)
		}
		if c.zone == nil {
			continue
		}
		// What is named makes it right.
		if name := zoneWith(offsetAt(c.zone, summer)-c.late, c.local, summer); name != "" {
			z := zone(name)
			if got := offsetAt(z, summer); got != offsetAt(c.zone, summer)-c.late {
				t.Errorf("%v is %v east of UTC", z, got)
			}
		}
	}
}

func offsetAt(z *time.Location, at time.Time) time.Duration {
	_, sec := at.In(z).Zone()
	return time.Duration(sec) * time.Second
}

func TestSilence(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	busy := func(every time.Duration, lines int) *silence {
		s := &silence{}
		for range lines {
			s.add(now, 1)
			now = now.Add(every)
		}
		return s
	}
	for _, c := range []struct {
		name  string
		every time.Duration
		lines int
		for_  time.Duration
		want  bool
	}{
		{"a night", time.Second, silentLines, 59 * time.Minute, false},
		{"far longer than ever", time.Second, silentLines, 2 * time.Hour, true},
		{"not known what is usual", time.Second, silentLines - 1, 48 * time.Hour, false},
		{"as long as is usual", 30 * time.Minute, silentLines, 4 * time.Hour, false},
		{"ten times as long", 30 * time.Minute, silentLines, 6 * time.Hour, true},
	} {
		s := busy(c.every, c.lines)
		now = s.last.Add(c.for_)
		if changed := s.look(now); s.silent != c.want || changed != c.want {
			t.Errorf("%s: silent %v", c.name, s.silent)
		}
		s.add(now, 1)
		if s.look(now); s.silent {
			t.Errorf("%s: silent with a line just read", c.name)
		}
	}
}

// The whole engine: a log whose times are an hour off is told of once, with
// what to set; its status says so until they are right.
func TestSkewIsSaid(t *testing.T) {
	const off = "the times of this log are off: bans come at the wrong time, or are over at once"
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	write := func(late time.Duration) {
		for range skewSamples {
			r.batch(r.lines(line("192.0.2.1", r.now.Add(-late))), r.now)
			r.now = r.now.Add(time.Second)
		}
		r.upkeep(r.now)
	}
	write(0)
	r.journal.want(t, 0, off)
	write(time.Hour)
	write(time.Hour)
	r.journal.want(t, 1, off, "log", "site", "off", "1h0m0s")
	s := &control.Status{}
	r.status(s, r.now)
	if len(s.Problems) != 1 || s.Problems[0].Kind != "skew" || s.Logs[0].Skew != 3600 {
		t.Errorf("status: %+v", s)
	}
	write(0)
	r.journal.want(t, 1, "the times of this log are right again")
}
