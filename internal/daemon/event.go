package daemon

import (
	"strconv"
	"strings"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
	"github.com/tailban/tailban/parser"
	"github.com/tailban/tailban/state"
)

// How much of a line is kept as evidence, in bytes.
const (
	samplePath  = 256
	sampleAgent = 128
)

// sampleOf keeps of an event what shows what the client did, and nothing that
// is the user's own: no query, no referer, no user name.
func sampleOf(ev *parser.Event) *state.Sample {
	s := &state.Sample{
		Method: clip(ev.Method, 32), Status: ev.Status, Agent: clip(ev.Agent, sampleAgent),
	}
	if len(ev.Target) > 0 {
		s.Path = clip(parser.AppendPath(nil, ev.Target), samplePath)
	}
	return s
}

// clip cuts text from a log to a length, with no character cut in half.
func clip(b []byte, n int) string {
	if len(b) <= n {
		return string(b)
	}
	return words.Clip(string(b[:n+1]), n) // of what may be long no more is copied
}

// evidence is a line as people get to see it.
func evidence(s *state.Sample, at detector.Line, t time.Time) *control.Line {
	l := &control.Line{File: at.Path, Offset: at.Offset, Time: t}
	if s != nil {
		l.Method, l.Path, l.Status, l.Agent = s.Method, s.Path, s.Status, s.Agent
	}
	return l
}

// publishDecision tells those who follow events.
func (e *engine) publishDecision(kind string, d *detector.Decision, until, now time.Time) {
	if !e.hub.followed() {
		return
	}
	l := evidence(sampleOf(e.detect.Event()), d.Line, time.Unix(0, d.Time).UTC())
	l.Client = d.Client
	e.hub.publish(control.Event{
		Time: now, Kind: kind, Target: d.Target, Client: d.Client, Jail: d.Jail, Until: until,
		Offence: d.Offence, Count: d.Count, Limit: d.Limit, Window: d.Window.Seconds(),
		Plane: d.Plane.String(), Line: l, Reason: d.Refused,
	})
}

// alarm is an event that an administrator should know of.
func alarm(now time.Time, text string) control.Event {
	return control.Event{Time: now, Kind: "alarm", Reason: text}
}

// recovery is an event that takes back an alarm.
func recovery(now time.Time, text string) control.Event {
	return control.Event{Time: now, Kind: "recover", Reason: text}
}

// quote is text of a person's in a message to that person.
func quote(s string) string { return strconv.Quote(s) }

// list is names in a sentence.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
