package metrics

import (
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
)

func logFamilies() []Family {
	logs := func(read func(*control.LogStatus, put)) func(*Snapshot, put) {
		return each(func(s *control.Status) []control.LogStatus { return s.Logs }, read)
	}
	value := func(v func(*control.LogStatus) float64) func(*Snapshot, put) {
		return logs(func(l *control.LogStatus, put put) { put(v(l), l.Name) })
	}
	// read is a value of what reads the log: one that didn't answer is not 0, or
	// else a counter would seem to begin anew.
	read := func(v func(*control.LogStatus) float64) func(*Snapshot, put) {
		return logs(func(l *control.LogStatus, put put) {
			if !l.NoAnswer {
				put(v(l), l.Name)
			}
		})
	}
	label := []string{"log"}
	return []Family{
		{"tailban_log_lines_total", Counter, label, "Lines that were taken from the log.", value(func(l *control.LogStatus) float64 { return float64(l.Lines) })},
		{"tailban_log_step_lines_total", Counter, []string{"log", "step"}, "Lines by the step of the order of exceptions at which they stopped: who was spared, by what, and what was counted.", logs(readSteps)},
		{"tailban_log_bytes_total", Counter, label, "Bytes read.", read(func(l *control.LogStatus) float64 { return float64(l.Bytes) })},
		{"tailban_log_blind", Gauge, label, "1 if nothing is read, or most lines don't parse: the log's jails see little or nothing.", problemsOf("blind")},
		{"tailban_log_silent", Gauge, label, "1 if the log has been silent far longer than it ever was.", value(func(l *control.LogStatus) float64 { return truth(l.Silent) })},
		{"tailban_log_failing", Gauge, label, "1 if there are files that can't be read, or that don't answer.", problemsOf("failing")},
		{"tailban_log_misread", Gauge, label, "1 if somebody was spared within the last hour as more likely a proxy than a client.", value(func(l *control.LogStatus) float64 { return truth(l.Misread != "") })},
		{"tailban_log_skew_seconds", Gauge, label, "How late the log's times steadily are; 0: they are right.", value(func(l *control.LogStatus) float64 { return l.Skew })},
		{"tailban_log_behind_bytes", Gauge, label, "Bytes that are not read yet.", read(func(l *control.LogStatus) float64 { return float64(l.Behind) })},
		{"tailban_log_behind_seconds", Gauge, label, "For how long some of them have been there.", read(func(l *control.LogStatus) float64 { return l.BehindFor })},
		{"tailban_log_last_line_timestamp_seconds", Gauge, label, "When a line was last read; missing before the first.",
			logs(func(l *control.LogStatus, put put) { unless0(put, l.LastLine, l.Name) })},
		{"tailban_log_last_event_timestamp_seconds", Gauge, label, "The latest time in a line; missing before the first.",
			logs(func(l *control.LogStatus, put put) { unless0(put, l.LastEvent, l.Name) })},
		{"tailban_log_polling", Gauge, label, "1 if some files at least are read without inotify.", read(func(l *control.LogStatus) float64 { return truth(l.Polling) })},
		{"tailban_log_files", Gauge, []string{"log", "state"}, "Files of the log, or what it is read from instead, by what becomes of them.", logs(readFiles)},
		{"tailban_log_cut_lines_total", Counter, label, "Lines that were too long, and were counted from their beginning.", value(func(l *control.LogStatus) float64 { return float64(l.Cut) })},
		{"tailban_log_late_lines_total", Counter, label, "Lines that came too late for a jail to count.", value(func(l *control.LogStatus) float64 { return float64(l.Late) })},
		{"tailban_log_gaps_total", Counter, label, "Times that lines were lost, to truncation and the like.", read(func(l *control.LogStatus) float64 { return float64(l.Gaps) })},
		{"tailban_log_gap_bytes_total", Counter, label, "Bytes lost in these, as far as is known.", read(func(l *control.LogStatus) float64 { return float64(l.GapBytes) })},
		{"tailban_log_zero_bytes_total", Counter, label, "Zero bytes that were skipped between lines.", read(func(l *control.LogStatus) float64 { return float64(l.Zeros) })},
		{"tailban_log_read_errors_total", Counter, label, "Errors of reading.", read(func(l *control.LogStatus) float64 { return float64(l.Errors) })},
		{"tailban_log_refused_messages_total", Counter, label, "Messages of those who may not send.", read(func(l *control.LogStatus) float64 { return float64(l.Refused) })},
		{"tailban_log_dropped_messages_total", Counter, label, "Messages that came faster than they could be counted.", read(func(l *control.LogStatus) float64 { return float64(l.Dropped) })},
		{"tailban_log_malformed_records_total", Counter, label, "Records that were none.", read(func(l *control.LogStatus) float64 { return float64(l.Malformed) })},
	}
}

// readSteps has a value for each step, so that the first line at one is an
// increase.
func readSteps(l *control.LogStatus, put put) {
	for step := range detector.NumSteps {
		put(float64(l.Steps[step.String()]), l.Name, step.String())
	}
}

func readFiles(l *control.LogStatus, put put) {
	if l.NoAnswer {
		return
	}
	n := map[string]int{}
	for i := range l.Files {
		n[l.Files[i].State]++
	}
	for _, state := range source.States() {
		put(float64(n[string(state)]), l.Name, string(state))
	}
}

// problemsOf tells of each log whether it has a problem of a kind: what status
// judges is judged in one place.
func problemsOf(kind string) func(*Snapshot, put) {
	return func(s *Snapshot, put put) {
		if s.Status == nil {
			return
		}
		has := map[string]bool{}
		for i := range s.Status.Problems {
			if p := &s.Status.Problems[i]; p.Kind == kind {
				has[p.Where] = true
			}
		}
		for i := range s.Status.Logs {
			name := s.Status.Logs[i].Name
			put(truth(has["log "+name]), name)
		}
	}
}
