package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// explaining is an explanation in the making.
type explaining struct {
	*control.Explanation
	config *config.Config
	owners []state.Owner // of bans that cover the address
	kept   []keptLine    // of the address, from the ends of the logs
	led    []keptLine    // lines that led to a ban
}

type keptLine struct {
	log string
	found
}

// Explain implements control.Viewer.
func (d *daemon) Explain(ctx context.Context, a netip.Addr) (*control.Explanation, error) {
	x := &explaining{Explanation: &control.Explanation{
		Address: a, Fill: []control.Fill{}, Offences: []control.Offence{}, Forgiven: []control.Pardon{},
		Bans: []control.Ban{}, Seen: []control.Seen{}, Evidence: []control.Line{},
	}, config: d.current()}
	if err := d.ask(ctx, func(e *engine, now time.Time) { e.explain(x, now) }); err != nil {
		return nil, err
	}
	d.fillHeld(ctx, x.Bans)
	d.fillNetworks(ctx, x.Explanation)
	d.fillOverdue(x.Explanation)

	// What is known so far is taken aside: who hangs may write to the rest later.
	known := x.known()
	scanning, stop := context.WithTimeout(ctx, scanPatience)
	defer stop()
	if !waitFor(startPart(scanning, func(ctx context.Context) { d.scanLogs(ctx, x) }).done, scanPatience+time.Second) {
		x = known.without("the logs don't answer: does a disk hang?")
	} else if err := d.ask(ctx, func(e *engine, now time.Time) { e.traceLines(x, now) }); err != nil {
		x = known.without("its lines could not be judged: " + err.Error())
	}
	allowed, yes := d.allow.allowed(a)
	conclude(x.Explanation, allowed, yes)
	if len(x.Bans) > 0 {
		x.Through = d.through(x.Bans)
	}
	return x.Explanation, nil
}

// known is a copy of the explanation before its lines are looked for.
func (x *explaining) known() *explaining {
	copied := *x.Explanation
	return &explaining{Explanation: &copied, config: x.config, owners: x.owners}
}

// without says why there are no lines.
func (x *explaining) without(why string) *explaining {
	x.Notes = append(slices.Clip(x.Notes), why)
	return x
}

// explain fills in what the engine knows of an address.
func (e *engine) explain(x *explaining, now time.Time) {
	x.Now = now.UTC()
	x.Target = e.detect.Target(x.Address)
	if reason, yes := e.guard.Protected(netip.PrefixFrom(x.Address, x.Address.BitLen())); yes {
		x.Protected = reason
	} else if why := e.misread(x.Address, now); why != "" {
		x.Protected = why
	}
	x.Notes = e.breaker.sparedBy(x.Target, now)
	e.explainNames(x.Explanation, now)
	for target, h := range e.bans.bans {
		if target.Contains(x.Address) {
			x.Bans = append(x.Bans, e.shown(h))
			x.owners = append(x.owners, h.Ban.Clone().Owners...)
		}
	}
	slices.SortFunc(x.Bans, func(a, b control.Ban) int { return a.Target.Compare(b.Target) })
	for _, f := range e.detect.Fill(x.Target, now.UnixNano()) {
		if f.Count == 0 {
			continue
		}
		x.Fill = append(x.Fill, control.Fill{
			Jail: f.Jail, Count: f.Count, Limit: f.Limit, Window: f.Window.Seconds(),
			First: time.Unix(0, f.First).UTC(), Last: time.Unix(0, f.Last).UTC(),
		})
	}
	for _, o := range e.detect.Offences(x.Target) {
		past := control.Offence{
			History: o.History, Count: o.Count, Last: time.Unix(0, o.Last).UTC(), Until: time.Unix(0, o.Until).UTC(), Observed: o.Tried,
		}
		if !o.Tried {
			past.Next = e.nextBan(o.History, o.Count)
		}
		x.Offences = append(x.Offences, past)
	}
	for p := range e.pardons.around(netip.PrefixFrom(x.Address, x.Address.BitLen())) {
		x.Forgiven = append(x.Forgiven, control.Pardon{Target: p.Target, Jail: p.Jail, Before: utc(p.Before), Reason: p.Reason, By: p.By})
	}
}

// misread says of an address that is not banned since it is likely a proxy why it
// is taken for one; "" if it isn't.
func (e *engine) misread(a netip.Addr, now time.Time) string {
	for _, l := range e.config.Logs {
		if m := e.logs[l.Name].majority; m != nil {
			if why := m.misread(a, now, false); why != "" {
				return "it " + strings.Replace(why, "this log's traffic", "the traffic of log "+l.Name, 1)
			}
		}
	}
	return ""
}

// nextBan is how long the next ban would be, 0 if that depends on the jail.
func (e *engine) nextBan(history string, count int) float64 {
	x, ok := e.sentence(history)
	if !ok {
		return 0
	}
	return x.ladder[min(count, len(x.ladder)-1)].Seconds()
}

// scanLogs looks for lines of the address, in the ends of the logs and where
// its bans were decided.
func (d *daemon) scanLogs(ctx context.Context, x *explaining) {
	left := int64(scanAll)
	for i := range x.config.Logs {
		l := &x.config.Logs[i]
		f, err := newFinder(l, x.config.TrustedProxies, x.Target)
		if err != nil {
			continue // the configuration has been checked
		}
		left = d.scanTails(ctx, x, l, f, left)
		for k := range x.owners {
			if o := &x.owners[k]; o.Line.Path != "" && logOf(x.config, o) == l.Name {
				x.scanOffence(ctx, l, f, o)
			}
		}
	}
}

// scanTails looks into the ends of a log's files.
func (d *daemon) scanTails(ctx context.Context, x *explaining, l *config.Log, f *finder, left int64) int64 {
	d.mu.Lock()
	r := d.logs[l.Name]
	d.mu.Unlock()
	if r == nil {
		return left
	}
	stats := statsOf(ctx, r)
	if stats == nil {
		return left
	}
	seen := control.Seen{Log: l.Name, Steps: map[string]int{}}
	if stats.files == nil {
		seen.Err = "its lines can't be read again"
		x.Seen = append(x.Seen, seen)
		return left
	}
	for _, file := range stats.files.Files {
		if state := source.State(file.State); state != source.Following && state != source.Renamed && state != source.Deleted {
			continue
		}
		s, err := scanFile(ctx, f, &file, min(left, scanTail))
		if err != nil {
			seen.Err = err.Error()
			continue
		}
		left -= s.bytes
		seen.Bytes += s.bytes
		seen.Partial = seen.Partial || s.more
		if s.lines == 0 {
			continue
		}
		if first := time.Unix(0, s.first).UTC(); seen.Lines == 0 || first.Before(seen.First) {
			seen.First = first
		}
		if last := time.Unix(0, s.last).UTC(); last.After(seen.Last) {
			seen.Last = last
		}
		seen.Lines += s.lines
		for _, k := range s.kept {
			x.kept = append(x.kept, keptLine{l.Name, k})
		}
	}
	x.Seen = append(x.Seen, seen)
	return left
}

// scanFile looks into the end of a file that is read. Its name may be another
// file's by now.
func scanFile(ctx context.Context, f *finder, at *source.FileStats, size int64) (*scan, error) {
	file, err := openLine(&state.LineID{Path: at.Path, Dev: at.Dev, Ino: at.Ino, Offset: -1})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return f.look(ctx, file, -1, size)
}

// scanOffence looks for the lines that led to a ban, as long as the file that
// held them is there.
func (x *explaining) scanOffence(ctx context.Context, l *config.Log, f *finder, o *state.Owner) {
	file, err := openLine(&o.Line)
	if err != nil {
		x.Notes = append(x.Notes, fmt.Sprintf("%s, where %s crossed the limit at byte %d, is gone or compressed", o.Line.Path, o.Client, o.Line.Offset))
		return
	}
	defer file.Close()
	s, err := f.look(ctx, file, o.Line.Offset+lineLength(file, o.Line.Offset, l.MaxLine), scanTail)
	if err != nil {
		x.Notes = append(x.Notes, err.Error())
		return
	}
	for _, k := range s.kept {
		x.led = append(x.led, keptLine{l.Name, k})
	}
}

// logOf is the log that a ban's line came from.
func logOf(c *config.Config, o *state.Owner) string {
	for i := range c.Logs {
		for _, pattern := range c.Logs[i].Files {
			if matches(pattern, o.Line.Path) {
				return c.Logs[i].Name
			}
		}
	}
	for i := range c.Jails {
		if j := &c.Jails[i]; j.Name == o.Jail && len(j.Logs) == 1 {
			return j.Logs[0]
		}
	}
	return ""
}

// traceLines has the engine say of the lines that were found what it would
// make of them.
func (e *engine) traceLines(x *explaining, now time.Time) {
	for _, k := range x.kept {
		line, ok := e.traceLine(&k, now)
		if !ok {
			continue
		}
		if line.Step == detector.StepBanned.String() && x.before(line) {
			line.Step = detector.StepCounted.String() // as it was then
		}
		for i := range x.Seen {
			if x.Seen[i].Log == k.log {
				x.Seen[i].Steps[line.Step]++
			}
		}
		if len(x.led) == 0 {
			x.Evidence = append(x.Evidence, *line)
		}
	}
	shown := map[detector.Line]bool{} // one line can have led to several bans
	for _, k := range x.led {
		line, ok := e.traceLine(&k, now)
		if !ok || shown[k.at] || !x.ledTo(line) {
			continue
		}
		shown[k.at] = true
		line.Step = detector.StepCounted.String()
		if x.crossed(&k) {
			line.Step = "crossed the limit"
		}
		x.Evidence = append(x.Evidence, *line)
	}
	slices.SortStableFunc(x.Evidence, func(a, b control.Line) int { return a.Time.Compare(b.Time) })
}

// before reports whether a line is older than the ban that covers it: it was
// counted then, whatever would become of it now.
func (x *explaining) before(l *control.Line) bool {
	return slices.ContainsFunc(x.owners, func(o state.Owner) bool { return !l.Time.After(o.Event) })
}

// crossed reports whether a line is the one that a ban was decided at.
func (x *explaining) crossed(k *keptLine) bool {
	return slices.ContainsFunc(x.owners, func(o state.Owner) bool {
		return o.Line.Dev == k.at.Dev && o.Line.Ino == k.at.Ino && o.Line.Offset == k.at.Offset
	})
}

// ledTo reports whether a line lies in the window of a ban's crossing line.
func (x *explaining) ledTo(l *control.Line) bool {
	return slices.ContainsFunc(x.owners, func(o state.Owner) bool {
		return o.Line.Path != "" && !l.Time.After(o.Event) && (l.Time.After(o.Event.Add(-o.Window)) || l.Time.Equal(o.Event))
	})
}

func (e *engine) traceLine(k *keptLine, now time.Time) (*control.Line, bool) {
	log := e.logs[k.log]
	if log == nil {
		return nil, false
	}
	t := e.detect.Trace(log.trace, k.text, false, now.UnixNano())
	if t.Err != nil {
		return nil, false
	}
	line := evidence(sampleOf(t.Event), k.at, time.Unix(0, t.Event.Time).UTC())
	line.Log, line.Client, line.Step = k.log, t.Client, t.Step.String()
	if t.Step == detector.StepWanted {
		line.Wanted = t.Proof.String()
	}
	for _, j := range t.Jails {
		if j.Matches && t.Step >= detector.StepBanned {
			line.Jails = append(line.Jails, j.Jail)
		}
	}
	return line, true
}
