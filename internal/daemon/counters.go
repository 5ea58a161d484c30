package daemon

import (
	"log/slog"
	"time"

	"github.com/tailban/tailban/detector"
)

// counted is what had been dropped, or could not be counted, when it was last
// said.
type counted struct {
	windows, bans, offences, late, cut, names, waits uint64
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
	proofs := e.detect.ProofStats()
	e.sayCount(now, slog.LevelWarn, "too many claim to be wanted machines: some names were not looked up, and those clients counted as ordinary", &c.names, proofs.Dropped)
	e.sayCount(now, slog.LevelWarn, "too many bans wait for a proof: some were made at once", &c.waits, proofs.Refused)
	var cut uint64
	for _, l := range e.logs {
		cut += l.Cut
	}
	e.sayCount(now, slog.LevelWarn, "lines longer than max_line were counted from their beginning", &c.cut, cut)
	for _, l := range e.logs {
		e.sayUnparsed(l, now)
	}
}

// sayUnparsed says, at most once an hour for each log, how many lines did not
// parse: a few may be halves of lines that a client has broken in two, where
// the server doesn't escape what clients send.
func (e *engine) sayUnparsed(l *logState, now time.Time) {
	total := l.Steps[detector.StepUnparsed]
	if total == l.unparsed || !e.said.once("unparsed "+l.Name, now) {
		return
	}
	e.say(now, slog.LevelWarn, "lines don't parse, so no jail sees them (tailban probe shows which)",
		"log", l.Name, "file", l.unparsedFile, "since_last", total-l.unparsed, "total", total)
	l.unparsed = total
}

func (e *engine) sayCount(now time.Time, level slog.Level, msg string, last *uint64, total uint64) {
	if total == *last || !e.said.once(msg, now) {
		return
	}
	e.say(now, level, msg, "since_last", total-*last, "total", total)
	*last = total
}
