package daemon

import (
	"testing"

	"github.com/tailban/tailban/detector"
)

func TestBlindLogIsNoticed(t *testing.T) {
	const blind, sees = "most lines of this log don't parse, so its jails see little or nothing: is its format right?",
		"the log's lines parse again"
	type look struct {
		parsed, unparsed uint64 // since the look before
		blind, sees      int    // said so far
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"all parse", []look{{1000, 0, 0, 0}, {1000, 0, 0, 0}}},
		{"nothing parses", []look{{0, 100, 1, 0}}},
		{"said once", []look{{0, 100, 1, 0}, {0, 100, 1, 0}, {0, 100, 1, 0}}},
		{"half parses", []look{{50, 50, 0, 0}}},
		{"most don't", []look{{49, 51, 1, 0}}},
		{"too few yet", []look{{0, 99, 0, 0}, {0, 1, 1, 0}}},
		{"slowly", []look{{0, 40, 0, 0}, {0, 40, 0, 0}, {0, 40, 1, 0}}},
		{"recovers, once", []look{{0, 100, 1, 0}, {100, 0, 1, 1}, {100, 0, 1, 1}}},
		{"too few to have recovered", []look{{0, 100, 1, 0}, {99, 0, 1, 0}}},
		{"the past doesn't weigh", []look{{1_000_000, 0, 0, 0}, {0, 100, 1, 0}}},
		{"again", []look{{0, 100, 1, 0}, {100, 0, 1, 1}, {0, 100, 2, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, l := &journal{}, &logState{Log: &detector.Log{Name: "site"}, format: "combined"}
			for i, look := range c.looks {
				// Lines that parse are those of any step but two.
				l.Steps[detector.StepCounted] += look.parsed / 2
				l.Steps[detector.StepAllowed] += look.parsed - look.parsed/2
				l.Steps[detector.StepUnparsed] += look.unparsed
				l.Steps[detector.StepNotRecord] += 1000
				l.health.look(j.logger(), l)
				if got := len(j.said(blind, "log", "site", "format", "combined")); got != look.blind {
					t.Errorf("look %d: alarms so far: %d, want %d", i, got, look.blind)
				}
				if got := len(j.said(sees, "log", "site")); got != look.sees {
					t.Errorf("look %d: all-clears so far: %d, want %d", i, got, look.sees)
				}
			}
		})
	}
}
