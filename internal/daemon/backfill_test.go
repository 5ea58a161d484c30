package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestStartAt(t *testing.T) {
	now := time.Date(2026, 3, 12, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return line("192.0.2.1", now.Add(-ago)) }
	many := func(n int, ago time.Duration) string { return strings.Repeat(at(ago), n) }
	size := len(at(0))
	for _, c := range []struct {
		name, text string
		want       int // of the text; -1: its end
	}{
		{"empty", "", -1},
		{"all old", many(10, time.Hour), -1},
		{"all young", many(10, 30*time.Second), 0},
		{"the last window", many(10, time.Hour) + many(5, 30*time.Second), 10 * size},
		{"from the first step on", many(30_000, time.Hour) + many(20_000, time.Second), 30_000 * size},
		{"late lines", many(3, time.Hour) + many(2, time.Second) + many(1, 2*time.Minute) + many(4, time.Second), 6 * size},
		{"what is no line", "garbage\n" + many(2, time.Hour) + "garbage\n" + many(1, time.Second), len("garbage\n")*2 + 2*size},
		{"no line feed at the end", many(2, time.Hour) + strings.TrimSuffix(at(time.Second), "\n"), 2 * size},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := parse(t, web)
			want := int64(c.want)
			if c.want < 0 {
				want = int64(len(c.text))
			}
			got := startAt(conf, &conf.Logs[0], func() time.Time { return now })(strings.NewReader(c.text), int64(len(c.text)))
			if got != want {
				t.Errorf("from %d, want %d", got, want)
			}
		})
	}
}

// A daemon that is started in the middle of a flood sees it.
func TestFirstStartSeesWhatGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	var b strings.Builder
	for range 100 {
		b.WriteString(line("203.0.113.201", time.Now().Add(-time.Hour)))
	}
	check(t, os.WriteFile(s.log, []byte(b.String()), 0o644))
	s.requests("203.0.113.202", 2)
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.202", 1)
	r.waitBanned("203.0.113.202")
	r.stop()
	r.journal.want(t, 0, "banned", "client", "203.0.113.201")
	r.journal.want(t, 1, "banned", "client", "203.0.113.202", "offset", fmt.Sprint(102*len(line("203.0.113.202", time.Now()))))
}
