package daemon

import (
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/parser"
)

// logState is a log, and what was last said about its health.
type logState struct {
	*detector.Log
	trace    *detector.Log // the same, with a parser of its own, for lines that are only explained
	format   string
	health   health
	suspects suspects
	skew     skew
	silence  silence
	majority *majority

	// Who was spared as more likely a proxy than a client.
	misread    string // in the batch at hand
	misreadWas string
	misreadAt  time.Time

	zone      *time.Location // of its times; nil: they carry their own
	lines     uint64
	lastLine  time.Time // when one was read
	lastEvent int64     // the latest time in one

	usersChecked bool // the user in a line is one that the server has checked

	unparsed     uint64 // lines that did not parse, when that was last said
	unparsedFile string // where the latest of them stood
}

// formats are the parsers of a log: one for its lines, and one for lines that
// are only explained, as a parser may go by the line before.
type formats struct{ live, trace parser.Format }

// formatsOf makes the parsers of all logs.
func formatsOf(c *config.Config) (map[string]formats, error) {
	out := map[string]formats{}
	for i := range c.Logs {
		var f formats
		var err error
		if f.live, err = c.Logs[i].Parser(); err != nil {
			return nil, err
		}
		if f.trace, err = c.Logs[i].Parser(); err != nil {
			return nil, err
		}
		out[c.Logs[i].Name] = f
	}
	return out, nil
}

// setLogs makes the engine know the logs of a configuration, and no others. A
// log that it knows already keeps its counters.
func (e *engine) setLogs(c *config.Config, parsers map[string]formats) {
	logs := map[string]*logState{}
	for i := range c.Logs {
		l := &c.Logs[i]
		s := e.logs[l.Name]
		if s == nil {
			s = &logState{Log: e.detect.Log(l.Name, parsers[l.Name].live)}
		} else {
			e.detect.Rebind(s.Log, parsers[l.Name].live)
		}
		s.trace = e.detect.Log(l.Name, parsers[l.Name].trace)
		s.zone, s.usersChecked = l.Zone, l.UsersChecked
		s.majority = s.majority.trusting(c.TrustedProxies, c.BreakerCoolDown)
		s.format, s.Rewritten, s.trace.Rewritten = l.FormatName(), l.Rewritten, l.Rewritten
		s.SkipAfterUnparsed(l.SkipAfterUnparsed)
		logs[l.Name] = s
	}
	e.logs = logs
	for key := range e.positions {
		e.missed(key.Log, time.Now())
	}
}

// goneFor is for how long it is kept up to where a log had been counted that the
// configuration has let go of: if it comes back, its lines don't count twice.
const goneFor = 7 * 24 * time.Hour

// missed notes since when a log that has positions is not read.
func (e *engine) missed(log string, now time.Time) {
	if e.logs[log] != nil {
		delete(e.gone, log)
	} else if _, known := e.gone[log]; !known {
		e.gone[log] = now
	}
}

// forgetGone forgets the positions of logs that have been gone for too long.
func (e *engine) forgetGone(now time.Time) {
	for log, since := range e.gone {
		if now.Sub(since) < goneFor {
			continue
		}
		delete(e.gone, log)
		for key := range e.positions {
			if key.Log == log {
				delete(e.positions, key)
				e.update.ForgetPositions = append(e.update.ForgetPositions, key)
			}
		}
	}
}
