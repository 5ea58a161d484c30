package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
)

const (
	// farBehind is how many bytes of a log not yet read are more than a busy
	// moment.
	farBehind = 16 << 20

	// longBehind is for how long bytes may be unread, a line that is being
	// written among them.
	longBehind = time.Minute

	// filesPatience is how long a status waits for what can be asked of files
	// on a disk that may hang.
	filesPatience = 2 * time.Second

	// youngFor is how long a log that has begun to be read is given to find
	// its files.
	youngFor = 3 * time.Second
)

// Status implements control.Viewer.
func (d *daemon) Status(ctx context.Context) (*control.Status, error) {
	s := &control.Status{
		Version: d.Version, PID: os.Getpid(), Started: d.started.UTC(),
		Problems: []control.Problem{}, Jails: []control.JailStatus{}, Logs: []control.LogStatus{},
		Actions: []control.ActionStatus{}, Budgets: []control.Budget{},
	}
	var seen map[string]through
	begun := time.Now()
	if err := d.ask(ctx, func(e *engine, now time.Time) {
		s.Wait = time.Since(begun).Seconds()
		e.status(s, now)
		seen = maps.Clone(e.through)
	}); err != nil {
		return nil, err
	}
	d.mu.Lock()
	s.Config = d.Source
	logs := make([]*reading, len(s.Logs))
	for i := range s.Logs {
		logs[i] = d.logs[s.Logs[i].Name]
	}
	d.mu.Unlock()
	answers := allStats(ctx, logs)
	young, streams := map[string]bool{}, map[string]bool{}
	for i, r := range logs {
		l := &s.Logs[i]
		l.NoAnswer = answers[i] == nil
		if r == nil || time.Since(r.began) < youngFor {
			young[l.Name] = true
		}
		if r == nil {
			continue // a reload has it begin anew just now
		}
		if stats := answers[i]; stats != nil {
			fillLog(l, stats, time.Now())
			streams[l.Name] = stats.stream != nil
		} else {
			s.Problems = append(s.Problems, control.Problem{Kind: "failing", Where: "log " + l.Name, Text: "the files don't answer: does the disk hang?"})
		}
	}
	for _, e := range d.enforcers() {
		a := actionStatus(e)
		a.Seen, a.SeenForwarded = seen[e.name].requests, seen[e.name].forwarded
		s.Actions = append(s.Actions, a)
		if e.edge != nil {
			s.Budgets = append(s.Budgets, edgeBudgets(e)...)
		}
	}
	s.Notify = d.notifyStatus()
	if s.Proofs != nil {
		st := d.prover.Stats()
		s.Proofs.LookUps, s.Proofs.Proved, s.Proofs.Disproved, s.Proofs.Failed = st.LookUps, st.Proved, st.Disproved, st.Failed
	}
	w := d.writer.Stats()
	trouble, since := d.stateTrouble(time.Now())
	s.State = control.StateStatus{Failing: trouble != "", Pending: w.Pending, Since: utc(w.Oldest), Commits: w.Commits, Failures: w.Failures, Refused: w.Refused}
	if trouble != "" {
		s.Problems = append(s.Problems, control.Problem{Kind: "failing", Where: "state file", Text: trouble, Since: since.UTC()})
	}
	if since, err := d.metricsTrouble(); err != nil {
		s.Problems = append(s.Problems, control.Problem{Kind: "failing", Where: "metrics", Text: "they can't be scraped: " + err.Error(), Since: since.UTC()})
	}
	s.Lists = d.listsStatus()
	s.ConfirmBy = utc(d.tentative.until())
	judge(s, young, streams)
	return s, nil
}

// status fills in what the engine knows.
func (e *engine) status(s *control.Status, now time.Time) {
	s.Now, s.Bans, s.Waiting = now.UTC(), len(e.bans.bans), e.bans.waiting.len()
	owned := map[string]int{}
	for _, h := range e.bans.bans {
		for i := range h.Owners {
			owned[h.Owners[i].Jail]++
		}
	}
	for i := range e.config.Jails {
		j := &e.config.Jails[i]
		s.Jails = append(s.Jails, e.jailStatus(j.Name, j.Logs, j.Limit, j.Window, j.Ban, j.Actions, owned))
	}
	if d := e.config.Deny; d != nil {
		s.Jails = append(s.Jails, e.jailStatus(detector.DenyName, nil, 0, 0, d.Ban, d.Actions, owned))
	}
	for i := range e.config.Logs {
		l := e.logs[e.config.Logs[i].Name]
		e.lookAtLog(l, now) // as it is now, not at the last upkeep
		ls := control.LogStatus{
			Name: l.Name, Format: l.format, Lines: l.lines, Steps: map[string]uint64{},
			Unparsed: l.Steps[detector.StepUnparsed], Cut: l.Cut, Late: l.Late, Blind: l.health.blind,
			LastLine: utc(l.lastLine), Silent: l.silence.silent, Files: []control.FileStatus{},
		}
		if l.misreadWas != "" && now.Sub(l.misreadAt) < time.Hour {
			ls.Misread = l.misreadWas
			s.Problems = append(s.Problems, control.Problem{Kind: "misread", Where: "log " + l.Name, Text: l.misreadWas, Since: utc(l.misreadAt)})
		}
		if l.skew.alarm != 0 {
			ls.Skew = l.skew.alarm.Seconds()
			s.Problems = append(s.Problems, control.Problem{Kind: "skew", Where: "log " + l.Name, Text: skewHint(l.skew.alarm, l.zone, localZone(), now)})
		}
		if l.lastEvent != 0 {
			ls.LastEvent = time.Unix(0, l.lastEvent).UTC()
		}
		for step := range detector.NumSteps {
			if n := l.Steps[step]; n > 0 {
				ls.Steps[step.String()] = n
			}
		}
		s.Logs = append(s.Logs, ls)
	}
	st := e.detect.Stats()
	s.Budgets = append(s.Budgets,
		control.Budget{Name: "bans", Unit: "targets", Used: int64(len(e.bans.bans)), Limit: int64(e.bans.cap), Dropped: e.bans.evicted},
		control.Budget{Name: "memory of windows", Unit: "bytes", Used: st.Memory, Limit: e.config.MaxMemory, Dropped: st.Evicted + st.Refused},
		control.Budget{Name: "offences", Unit: "records", Used: int64(len(e.offences.keys)), Limit: int64(e.offences.cap), Dropped: st.OffencesLost},
		control.Budget{Name: "pardons", Unit: "records", Used: int64(len(e.pardons.keys)), Limit: detector.MaxPardons},
	)
	s.Proofs = e.proofStatus(s)
}

func (e *engine) jailStatus(name string, logs []string, limit int, window time.Duration, ban []time.Duration, actions []string, owned map[string]int) control.JailStatus {
	j := e.jail(name)
	s := control.JailStatus{
		Name: name, Mode: e.mode(name), Logs: nonNil(logs), Limit: limit, Window: window.Seconds(), Ban: seconds(ban),
		Actions: nonNil(actions), Matched: e.detect.Fits(name), Decisions: j.decisions, Refused: j.refused, Bans: owned[name], LastBan: utc(j.last),
	}
	if h, yes := e.held[name]; yes {
		s.Held = &control.Held{Since: utc(h.Since), Until: utc(h.Until), Reason: h.Reason, By: h.By}
	}
	return s
}

// allStats asks what reads each log for its counters. nil is the answer of what is
// not read now, or doesn't answer in time.
func allStats(ctx context.Context, logs []*reading) []*logStats {
	out := make([]*logStats, len(logs))
	var wg sync.WaitGroup
	for i, r := range logs {
		if r != nil {
			wg.Go(func() { out[i] = statsOf(ctx, r) })
		}
	}
	wg.Wait()
	return out
}

// statsOf asks what reads a log for its counters. On a disk that hangs it
// gives up; of those who ask only one hangs with it.
func statsOf(ctx context.Context, r *reading) *logStats {
	ctx, cancel := context.WithTimeout(ctx, filesPatience)
	defer cancel()
	select {
	case r.asking <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	stats, ok := within(ctx, filesPatience, func() logStats {
		defer func() { <-r.asking }()
		return statsNow(r.source)
	})
	if !ok {
		return nil
	}
	return &stats
}

// logStats are the counters of what reads a log: one of the two.
type logStats struct {
	files  *source.FilesStats
	stream *source.StreamStats
}

func statsNow(s source.Source) logStats {
	switch s := s.(type) {
	case interface{ Stats() source.FilesStats }:
		stats := s.Stats()
		return logStats{files: &stats}
	case interface{ Stats() source.StreamStats }:
		stats := s.Stats()
		return logStats{stream: &stats}
	}
	return logStats{}
}

func fillLog(l *control.LogStatus, s *logStats, now time.Time) {
	if f := s.files; f != nil {
		l.Bytes, l.Gaps, l.Errors, l.Zeros = uint64(f.Bytes), uint64(f.Gaps), uint64(f.Errors), uint64(f.Zeros)
		l.GapBytes = uint64(f.GapBytes)
		l.Polling = !f.Watching || f.Polled > 0
		for _, x := range f.Files {
			l.Behind += x.Behind
			l.Files = append(l.Files, control.FileStatus{Path: x.Path, State: string(x.State), Offset: x.Offset, Behind: x.Behind, Last: utc(x.Last), Err: x.Err})
			if !x.Since.IsZero() {
				l.BehindFor = max(l.BehindFor, now.Sub(x.Since).Seconds())
			}
		}
	}
	if x := s.stream; x != nil {
		l.Bytes, l.Gaps = uint64(x.Bytes), uint64(x.Gaps)
		l.Refused, l.Dropped, l.Malformed = uint64(x.Refused), uint64(x.Dropped+x.KernelDropped), uint64(x.Malformed)
		l.Behind = x.Queued
		l.Files = append(l.Files, control.FileStatus{Path: x.Name, State: string(x.State), Behind: x.Queued, Last: utc(x.LastLine), Err: x.Err})
	}
}

func actionStatus(e *enforcer) control.ActionStatus {
	s := e.reconciler.Stats()
	a := control.ActionStatus{
		Name: e.name, Type: e.config.Type, Failing: s.Failing, Since: utc(s.Since), Desired: s.Desired, Pending: s.Pending,
		LastPass: utc(s.LastPassed), DriftAdded: s.DriftAdded, DriftRemoved: s.DriftRemoved, DriftCorrected: s.DriftCorrected, Rejected: s.Rejected,
		Watched: s.Watched, Contested: s.Contested, Misheld: s.Misheld, LeftOut: s.LeftOut, Evicted: s.Evicted,
	}
	if s.Err != nil {
		a.Err = s.Err.Error()
	}
	if r, ok := e.action.(actions.Repairer); ok {
		a.Repairs = r.Repairs()
	}
	if o, ok := e.action.(actions.Overstayer); ok {
		fillOverdue(&a, o.Overdue())
	}
	if c, ok := e.action.(interface{ Stats() actions.CommandStats }); ok {
		s := c.Stats()
		a.Programs = &control.ProgramStatus{Runs: s.Runs, Failures: s.Failures, Timeouts: s.Timeouts}
	}
	if e.edge != nil {
		edgeStatus(&a, e)
	}
	if e.cutter != nil {
		c := e.cutter.Stats()
		a.Cut = &control.CutStatus{Connections: c.Cut, Failed: c.Failed, Dropped: c.Dropped}
	}
	if e.merger != nil {
		m := e.merger.Stats()
		a.Merged = &control.MergeStatus{Networks: m.Networks, Members: m.Members, Merges: m.Merges, Splits: m.Splits}
	}
	return a
}

// judge lists what is not as it should be, worst first. Of young logs nothing is
// said yet of files that are not there; streams are those that are read from no
// files.
func judge(s *control.Status, young, streams map[string]bool) {
	add := func(kind, where, text string, since time.Time) {
		s.Problems = append(s.Problems, control.Problem{Kind: kind, Where: where, Text: text, Since: since})
	}
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Failing {
			add("failing", "action "+a.Name, a.Err, a.Since)
		}
	}
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.Overdue > 0 {
			add("overdue", "action "+a.Name, overdueText(a.Overdue, a.OverdueErr), a.OverdueSince)
		}
		if a.Contested {
			add("contested", "action "+a.Name, "somebody else changes its bans or rules again and again, so repairs wait longer and longer", a.Since)
		}
		judgeLeases(a, add)
		if a.LeftOut > 0 {
			add("full", "action "+a.Name, fmt.Sprintf("%d bans that end soonest have no room in it", a.LeftOut), time.Time{})
		}
	}
	if by := s.ConfirmBy; !by.IsZero() {
		text := "all bans end at " + clock(by) + " unless this start is confirmed (tailban confirm)"
		if !by.After(s.Now) {
			text = "nobody has confirmed this start, so no ban is enforced (tailban confirm)"
		}
		add("unconfirmed", "bans", text, time.Time{})
	}
	if s.Waiting > 0 {
		add("storm", "bans", fmt.Sprintf("%d wait to be enforced, the worst first: they are more than max_bans_per_minute", s.Waiting), time.Time{})
	}
	for i := range s.Logs {
		judgeLog(&s.Logs[i], young[s.Logs[i].Name], streams[s.Logs[i].Name], add)
	}
	for i := range s.Jails {
		if j := &s.Jails[i]; j.Held != nil {
			does := "it only observes, until "
			if j.Mode == control.ModeSparing {
				does = "it spares regular clients, until "
			}
			add("held", "jail "+j.Name, does+until(j.Held.Until)+orText(j.Held.Reason), j.Held.Since)
		}
	}
	for i := range s.Budgets {
		if b := &s.Budgets[i]; b.Used >= b.Limit {
			add("full", b.Name, fmt.Sprintf("%d of %d %s are used", b.Used, b.Limit, b.Unit), time.Time{})
		}
	}
	for i := range s.Lists {
		if l := &s.Lists[i]; l.Waiting != nil {
			add("waiting", "list "+l.Name, waitsText(l.Name, l.Waiting.Why), l.Waiting.Since)
		}
	}
	if s.Config.LastGood {
		add("config", s.Config.Path, "it had problems at the start, so the one that ran before runs: see tailban check", s.Config.Loaded)
	}
	order := control.ProblemKinds()
	slices.SortStableFunc(s.Problems, func(a, b control.Problem) int {
		return cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind))
	})
	s.Healthy = len(s.Problems) == 0
}

func judgeLog(l *control.LogStatus, young, stream bool, add func(kind, where, text string, since time.Time)) {
	where := "log " + l.Name
	if l.Blind {
		add("blind", where, "most lines don't parse as "+l.Format+": its jails see little or nothing", time.Time{})
	}
	if l.Silent {
		add("silent", where, "it has been silent far longer than it ever was: does its server write elsewhere?", l.LastLine)
	}
	if l.Behind >= farBehind || l.Behind > 0 && l.BehindFor >= longBehind.Seconds() {
		add("behind", where, fmt.Sprintf("%d bytes are not read yet, some for %v", l.Behind, time.Duration(l.BehindFor)*time.Second), time.Time{})
	}
	judgeFiles(l, young, stream, add)
}

// judgeFiles tells of files that can't be read, those alike together, and of a log
// of which nothing is read. That can be another thing than a file: a stream.
func judgeFiles(l *control.LogStatus, young, stream bool, add func(kind, where, text string, since time.Time)) {
	where := "log " + l.Name
	read := false
	failing := map[string]int{} // files by what is wrong with them
	for _, f := range l.Files {
		switch source.State(f.State) {
		case source.Failing, source.Refused:
			failing[f.Err]++
		case source.Following, source.Renamed, source.Deleted:
			read = true
		}
	}
	said := map[string]bool{}
	for _, f := range l.Files {
		if n := failing[f.Err]; n > 0 && !said[f.Err] && (f.State == string(source.Failing) || f.State == string(source.Refused)) {
			said[f.Err] = true
			add("failing", where, f.Path+andMore(n-1)+" can't be read"+orText(f.Err), time.Time{})
		}
	}
	switch {
	case read || young || len(failing) > 0:
	case l.NoAnswer:
		add("blind", where, "its files don't answer, so it is not known to be read", time.Time{})
	case !stream || len(l.Files) == 0:
		add("blind", where, "there is no file to read", time.Time{})
	case l.Files[0].State == string(source.Ended):
		add("blind", where, l.Files[0].Path+" has ended, no more lines will come", l.LastLine)
	default:
		add("blind", where, l.Files[0].Path+" isn't there yet"+orText(l.Files[0].Err), time.Time{})
	}
}

// andMore names others that are in the same state.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// orText is what is wrong, behind a colon, if that is known.
func orText(err string) string {
	if err == "" {
		return ""
	}
	return ": " + err
}

// logNames lists the logs of a configuration.
func logNames(c *config.Config) []string {
	var out []string
	for i := range c.Logs {
		out = append(out, c.Logs[i].Name)
	}
	return out
}

// utc is a time as it is shown; zero stays zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Round(0).UTC()
}

func seconds(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = d.Seconds()
	}
	return out
}

// nonNil is [] and not null in JSON.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
