package daemon

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/parser"
)

// ExplainLine implements control.Viewer.
func (d *daemon) ExplainLine(ctx context.Context, q control.LineQuery) (*control.LineExplanation, error) {
	return asked(ctx, d, func(e *engine, now time.Time) (*control.LineExplanation, error) {
		l := e.logs[q.Log]
		if l == nil {
			return nil, noLog(e.config, q.Log)
		}
		return explainLine(e.detect, l.trace, l.format, logNamed(e.config, q.Log).MaxLine, q.Line, now), nil
	})
}

// ExplainLine says what a daemon with this configuration would make of a line
// as the first that it reads.
func ExplainLine(c *config.Config, q control.LineQuery, now time.Time) (*control.LineExplanation, error) {
	l := logNamed(c, q.Log)
	if l == nil {
		return nil, noLog(c, q.Log)
	}
	format, err := l.Parser()
	if err != nil {
		return nil, err
	}
	rules := rulesOf(c, c.Allow, guard.New(guard.FromConfig(c.TrustedProxies, c.WaitingProxies(), c.Allow)))
	rules.LooksUp = false
	e := detector.NewEngine(rules)
	log := e.Log(l.Name, format)
	log.Rewritten = l.Rewritten
	log.SkipAfterUnparsed(l.SkipAfterUnparsed)
	return explainLine(e, log, l.FormatName(), l.MaxLine, q.Line, now), nil
}

func noLog(c *config.Config, name string) error {
	return &control.Error{Code: control.CodeNotFound, Message: "there is no log " + quote(name), Hint: "there are: " + list(logNames(c))}
}

func explainLine(e *detector.Engine, l *detector.Log, format string, maxLine int, line string, now time.Time) *control.LineExplanation {
	text := []byte(line)
	cut := len(text) > maxLine
	if cut {
		text = text[:maxLine]
	}
	t := e.Trace(l, text, cut, now.UnixNano())
	x := &control.LineExplanation{
		Log: l.Name, Format: format, Fields: []control.Field{}, Hops: []control.Hop{}, Steps: []control.StepTrace{}, Jails: []control.JailTrace{},
		Client: t.Client, Target: t.Target, Step: t.Step.String(), Outcome: outcome(t),
	}
	if t.Err != nil {
		x.Err = t.Err.Error()
	}
	if t.Event != nil {
		x.Fields, x.Plane = fields(t.Event, t.Path), t.Plane.String()
	}
	for _, h := range t.Hops {
		from := "peer"
		if h.Header {
			from = "header"
		}
		x.Hops = append(x.Hops, control.Hop{From: from, Value: h.Text, Trusted: h.Trusted, Result: h.Result})
	}
	for _, s := range t.Steps {
		x.Steps = append(x.Steps, control.StepTrace{Number: s.Number, Name: s.Name, Result: s.Result, Stops: s.Stops})
	}
	for i := range t.Jails {
		x.Jails = append(x.Jails, jailTrace(&t.Jails[i]))
	}
	return x
}

func jailTrace(j *detector.JailTrace) control.JailTrace {
	out := control.JailTrace{Jail: j.Jail, Matches: j.Matches, Count: j.Count, Limit: j.Limit, Result: j.Result, Conditions: []control.Condition{}}
	for _, c := range j.Conditions {
		out.Conditions = append(out.Conditions, control.Condition{Field: c.Field, Not: c.Not, Want: c.Want, Got: c.Got, Holds: c.Holds})
	}
	return out
}

// outcome is what comes of a line, in a sentence.
func outcome(t *detector.Trace) string {
	if t.Denial != nil {
		return decided(t.Denial)
	}
	for i := range t.Jails {
		if d := t.Jails[i].Decision; d != nil && t.Step == detector.StepCounted {
			return decided(d)
		}
	}
	switch t.Step {
	case detector.StepUnparsed, detector.StepNotRecord:
		return "nothing: the line is no record of this format"
	case detector.StepNobody:
		return "nothing: it counts for nobody"
	case detector.StepCounted:
		return fmt.Sprintf("%s is counted", t.Client)
	case detector.StepWanted:
		return fmt.Sprintf("nothing: %s is wanted: %s", t.Client, t.Proof)
	default:
		return fmt.Sprintf("nothing: %s", t.Step)
	}
}

func decided(d *detector.Decision) string {
	switch {
	case d.Refused != "":
		return fmt.Sprintf("%s would be banned by %s, but must not be: %s", d.Target, d.Jail, d.Refused)
	case d.Past:
		return fmt.Sprintf("%s is an offender of %s; as old as the line is, the ban would be over", d.Target, d.Jail)
	case d.Waits:
		return fmt.Sprintf("%s is banned by %s for %s, unless its names prove within %v that it is %s", d.Target, d.Jail, config.FormatDuration(d.Ban), detector.MaxPostponement, d.Claims)
	case d.Observe:
		return fmt.Sprintf("%s would be banned by %s for %s, which only observes", d.Target, d.Jail, config.FormatDuration(d.Ban))
	default:
		return fmt.Sprintf("%s is banned by %s for %s", d.Target, d.Jail, config.FormatDuration(d.Ban))
	}
}

// fields lists what a line says.
func fields(ev *parser.Event, path string) []control.Field {
	out := []control.Field{
		{Name: "peer", Value: ev.Peer.String()},
		{Name: "time", Value: time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano)},
	}
	add := func(name string, value []byte) {
		if value != nil {
			out = append(out, control.Field{Name: name, Value: string(value)})
		}
	}
	add("header", ev.Forward)
	add("host", ev.Host)
	add("method", ev.Method)
	add("target", ev.Target)
	if ev.Target != nil {
		add("path", []byte(path))
	}
	add("protocol", ev.Proto)
	if ev.Status != 0 {
		add("status", strconv.AppendInt(nil, int64(ev.Status), 10))
	}
	if ev.Bytes >= 0 {
		add("bytes", strconv.AppendInt(nil, ev.Bytes, 10))
	}
	add("referer", ev.Referer)
	add("agent", ev.Agent)
	add("user", ev.User)
	return out
}
