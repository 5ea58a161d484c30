package daemon

import (
	"log/slog"
	"time"
)

// counted is what had been dropped, or could not be counted, when it was last
// said.
type counted struct {
	windows, bans, offences, late, cut uint64
}

// lookAtCounters says, at most once an hour each, what had to be dropped or
// could not be counted since it was last said.
func (e *engine) lookAtCounters(now time.Time) {
	st := e.detect.Stats()
	c := &e.counted
	e.sayCount(now, slog.LevelWarn, "max_memory is reached: counts of clients were dropped, those with the fewest events first",
		&c.windows, st.Evicted+st.Refused)
	e.sayCount(now, slog.LevelWarn, "more bans than the detector can know of: those that end soonest were dropped", &c.bans, st.BansEvicted)
	e.sayCount(now, slog.LevelInfo, "more offences than are remembered: those forgotten soonest were dropped", &c.offences, st.OffencesLost)
	e.sayCount(now, slog.LevelInfo, "lines came too late to be counted", &c.late, st.Late)
	var cut uint64
	for _, l := range e.logs {
		cut += l.Cut
	}
	e.sayCount(now, slog.LevelWarn, "lines longer than max_line were counted from their beginning", &c.cut, cut)
}

func (e *engine) sayCount(now time.Time, level slog.Level, msg string, last *uint64, total uint64) {
	if total == *last || !e.said.once(msg, now) {
		return
	}
	e.say(now, level, msg, "since_last", total-*last, "total", total)
	*last = total
}
