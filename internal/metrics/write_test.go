package metrics

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/tailban/tailban/internal/control"
)

// parse reads a text as Prometheus does.
func parse(t testing.TB, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return got
}

// The whole text of a daemon with troubles of all kinds. With UPDATE set, it is
// written instead.
func TestText(t *testing.T) {
	t.Parallel()
	const golden = "testdata/metrics.golden"
	text := Text(sample())
	got := strings.ReplaceAll(string(text), runtime.Version(), "GO")
	if os.Getenv("UPDATE") != "" {
		check(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	check(t, err)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	found := parse(t, text)
	for _, f := range Families() {
		m := found[f.Name]
		if m == nil {
			t.Errorf("the sample has no %s", f.Name)
			continue
		}
		if got := strings.ToLower(m.GetType().String()); got != f.Type || m.GetHelp() != f.Help {
			t.Errorf("%s is read as a %s, %q", f.Name, got, m.GetHelp())
		}
		for _, x := range m.Metric {
			var names []string
			for _, l := range x.Label {
				names = append(names, l.GetName())
			}
			if !slices.Equal(names, f.Labels) {
				t.Errorf("%s has the labels %q, want %q", f.Name, names, f.Labels)
			}
		}
		delete(found, f.Name)
	}
	for name := range found {
		t.Errorf("%s is of no family", name)
	}
}

// A daemon that doesn't answer is told of as such, and nothing is said of what it
// would have told.
func TestTextWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := sample()
	s.Status, s.Waited = nil, 2500*1e6
	got := parse(t, Text(s))
	want := []string{
		"go_goroutines", "process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes", "process_start_time_seconds",
		"tailban_build_info", "tailban_engine_answered", "tailban_engine_wait_seconds",
		"tailban_socket_connections", "tailban_socket_followers", "tailban_socket_lost_followers_total", "tailban_socket_refused_connections_total",
		"tailban_start_time_seconds",
	}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(got))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if v := got["tailban_engine_answered"].Metric[0].GetGauge().GetValue(); v != 0 {
		t.Errorf("answered: %v", v)
	}
	if v := got["tailban_engine_wait_seconds"].Metric[0].GetGauge().GetValue(); v != 2.5 {
		t.Errorf("waited %v", v)
	}
}

// Whatever texts a status has, the whole can be read, and no series is there twice.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	odd := "a\"b\\c\nd\xffé"
	s := sample()
	s.Version = odd
	s.Status.Budgets = []control.Budget{{Name: odd, Unit: odd, Used: 1}, {Name: odd, Unit: odd, Used: 2}}
	s.Status.Problems = append(s.Status.Problems, control.Problem{Kind: odd, Where: odd})
	got := parse(t, Text(s))
	used := got["tailban_budget_used"].Metric
	if len(used) != 1 || used[0].GetGauge().GetValue() != 1 || used[0].Label[0].GetValue() != "a\"b\\c\nd\uFFFDé" {
		t.Errorf("read as %v", used)
	}
}

// Names say what they are, as Prometheus would have it.
func TestNames(t *testing.T) {
	t.Parallel()
	name, label := regexp.MustCompile(`^(tailban|process|go)(_[a-z]+)+$`), regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, f := range Families() {
		switch {
		case !name.MatchString(f.Name), seen[f.Name]:
			t.Errorf("the name %s", f.Name)
		case strings.HasSuffix(f.Name, "_total") != (f.Type == Counter):
			t.Errorf("%s is a %s", f.Name, f.Type)
		case strings.ContainsAny(f.Help, "\n|") || !strings.HasSuffix(f.Help, "."):
			t.Errorf("%s: %q", f.Name, f.Help)
		}
		seen[f.Name] = true
		for _, l := range f.Labels {
			if !label.MatchString(l) || l == "job" || l == "instance" {
				t.Errorf("%s has a label %s", f.Name, l)
			}
		}
	}
}

// There are as many series as the configuration has names, whatever clients do.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	before := bytes.Count(Text(sample()), []byte("\n"))
	s := sample()
	for i := range 1000 {
		s.Status.Logs[0].Files = append(s.Status.Logs[0].Files, control.FileStatus{Path: string(rune('a' + i)), State: "following"})
		s.Status.Problems = append(s.Status.Problems, control.Problem{Kind: "failing", Where: string(rune('a' + i)), Text: string(rune('a' + i))})
	}
	if after := bytes.Count(Text(s), []byte("\n")); after != before {
		t.Errorf("%d lines become %d", before, after)
	}
}

func BenchmarkText(b *testing.B) {
	s := sample()
	for b.Loop() {
		Text(s)
	}
}

// Of a log whose files don't answer for a moment no counter falls to 0: it would
// seem to begin anew, and all that it ever counted to come at once afterwards.
func TestNoAnswerIsNot0(t *testing.T) {
	t.Parallel()
	s := sample()
	s.Status.Logs[1] = control.LogStatus{Name: "shop", Lines: 5_012, NoAnswer: true}
	series := map[string]bool{}
	for l := range strings.Lines(string(Text(s))) {
		if name, value, _ := strings.Cut(l, `{log="shop"`); value != "" {
			series[name] = true
		}
	}
	for _, f := range logFamilies() {
		missing := slices.Contains([]string{
			"tailban_log_bytes_total", "tailban_log_behind_bytes", "tailban_log_behind_seconds", "tailban_log_polling", "tailban_log_files",
			"tailban_log_gaps_total", "tailban_log_gap_bytes_total", "tailban_log_zero_bytes_total", "tailban_log_read_errors_total",
			"tailban_log_refused_messages_total", "tailban_log_dropped_messages_total", "tailban_log_malformed_records_total",
			"tailban_log_last_line_timestamp_seconds", "tailban_log_last_event_timestamp_seconds", // before the first line
		}, f.Name)
		if series[f.Name] == missing {
			t.Errorf("%s: it is there: %v", f.Name, series[f.Name])
		}
	}
}
