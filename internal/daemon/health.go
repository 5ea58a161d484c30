package daemon

import (
	"log/slog"
	"time"

	"github.com/tailban/tailban/detector"
)

// enoughLines is how many lines say something about a log's format.
const enoughLines = 100

// health notices a log that grows and isn't understood: a jail on it is
// blind.
type health struct {
	parsed, unparsed uint64 // when it was last looked at
	blind            bool
	judged           bool // there were lines enough, once
}

// look compares the lines since the last look that did not parse with those
// that did. It says so once when most don't, and once when that is over.
func (h *health) look(log *slog.Logger, l *logState) {
	var parsed uint64
	for s := detector.StepUnparsed + 1; s < detector.NumSteps; s++ {
		parsed += l.Steps[s]
	}
	good, bad := parsed-h.parsed, l.Steps[detector.StepUnparsed]-h.unparsed
	if good+bad < enoughLines {
		return // too few yet: go on adding up
	}
	h.judged = true
	h.parsed, h.unparsed = parsed, l.Steps[detector.StepUnparsed]
	switch blind := bad > good; {
	case blind && !h.blind:
		log.Error("most lines of this log don't parse, so its jails see little or nothing: is its format right?",
			"log", l.Name, "format", l.format, "unparsed", bad, "parsed", good)
		h.blind = true
	case !blind && h.blind:
		log.Info("the log's lines parse again", "log", l.Name, "unparsed", bad, "parsed", good)
		h.blind = false
	}
}

// lookAtLog says of a log what has become wrong with it, or right again.
func (e *engine) lookAtLog(l *logState, now time.Time) {
	about, blind := "log "+l.Name+": ", l.health.blind
	l.health.look(e.log, l)
	if l.health.blind && !blind {
		e.hub.begins(now, about+"unparsed", about+"most lines don't parse")
	} else if !l.health.blind && l.health.judged {
		e.hub.ends(now, about+"its lines parse again", about+"unparsed")
	}
	if l.skew.look() {
		if l.skew.alarm != 0 {
			hint := skewHint(l.skew.alarm, l.zone, localZone(), now)
			e.log.Error("the times of this log are off: bans come at the wrong time, or are over at once", "log", l.Name, "off", l.skew.alarm.String(), "hint", hint)
			e.hub.begins(now, about+"skew", about+hint)
		} else {
			e.log.Info("the times of this log are right again", "log", l.Name)
		}
	}
	if l.skew.n >= skewSamples && l.skew.alarm == 0 {
		e.hub.ends(now, about+"its times are right again", about+"skew")
	}
	if l.silence.look(now) {
		if l.silence.silent {
			e.log.Warn("this log has been silent far longer than it ever was: does its server write elsewhere?",
				"log", l.Name, "since", l.silence.last.UTC().Format(time.RFC3339), "longest_before", l.silence.pause.String())
			e.hub.begins(now, about+"silent", about+"silent far longer than it ever was")
		} else {
			e.log.Info("the log has lines again", "log", l.Name)
		}
	}
	if l.silence.lines > 0 && !l.silence.silent {
		e.hub.ends(now, about+"it has lines again", about+"silent")
	}
}
