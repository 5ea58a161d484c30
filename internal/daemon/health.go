package daemon

import (
	"log/slog"

	"github.com/tailban/tailban/detector"
)

// enoughLines is how many lines say something about a log's format.
const enoughLines = 100

// health notices a log that grows and isn't understood: a jail on it is
// blind.
type health struct {
	parsed, unparsed uint64 // when it was last looked at
	blind            bool
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
