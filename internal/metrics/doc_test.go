package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	page   = "../../docs/metrics.md"
	alerts = "../../docs/alerts.yml"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	return string(text)
}

// The page's table is what there is, neither more nor less. With UPDATE set, it is
// written instead.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	const head = "| metric | type | labels | |\n|---|---|---|---|\n"
	text, table, found := strings.Cut(readText(t, page), head)
	if !found {
		t.Fatalf("%s has no table", page)
	}
	var want strings.Builder
	for _, f := range Families() {
		labels := ""
		for i, l := range f.Labels {
			labels += strings.Repeat(", ", min(i, 1)) + "`" + l + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, labels, f.Help)
	}
	if os.Getenv("UPDATE") != "" {
		check(t, os.WriteFile(page, []byte(text+head+want.String()), 0o644))
		return
	}
	if d := cmp.Diff(want.String(), table); d != "" {
		t.Errorf("%s (-code +page):\n%s", page, d)
	}
}

// What the rest of the documentation names is there.
func TestNamesInDocuments(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range Families() {
		known[f.Name] = true
	}
	paths := []string{page, "../../README.md", "../../docs/control.md", "../../docs/configuration.md", "../../docs/concepts.md"}
	for _, path := range paths {
		for _, name := range regexp.MustCompile(`\btailban_[a-z_]*[a-z]\b`).FindAllString(readText(t, path), -1) {
			if !known[name] {
				t.Errorf("%s names %s, which is no metric", path, name)
			}
		}
	}
}

// Where the page has Prometheus scrape is where its configuration serves.
func TestDocumentedAddress(t *testing.T) {
	t.Parallel()
	text := readText(t, page)
	m := regexp.MustCompile(`(?m)^metrics = ("[^"]+")$`).FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "targets: ["+m[1]+"]") {
		t.Errorf("configured is %q", m)
	}
}

// rule is an alert of the file.
type rule struct{ name, body, expr string }

// rules reads the alerts by their layout, which is always the same.
func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, part := range strings.Split(readText(t, alerts), "\n      - alert: ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		r := rule{name: name, body: body}
		if m := regexp.MustCompile(`(?m)^        expr: (.+)$`).FindStringSubmatch(body); m != nil {
			r.expr = m[1]
		}
		all = append(all, r)
	}
	if len(all) < 20 {
		t.Fatalf("%d alerts found: has the file changed its form?", len(all))
	}
	return all
}

// Every metric in an alert is one that there is, with the labels that the alert
// asks for or shows, and counters are taken as such.
func TestAlerts(t *testing.T) {
	t.Parallel()
	known := map[string]Family{"up": {Name: "up", Type: Gauge, Labels: []string{"job"}}}
	for _, f := range Families() {
		known[f.Name] = f
	}
	values := map[string]bool{} // of labels, in the sample
	for _, m := range regexp.MustCompile(`\w+="[^"]*"`).FindAllString(string(Text(sample())), -1) {
		values[m] = true
	}
	values[`job="tailban"`] = true
	selector := regexp.MustCompile(`\b(up|tailban_\w+|process_\w+|go_\w+)(\{[^}]*\})?(\[\w+\])?`)
	names := map[string]bool{}
	for _, r := range rules(t) {
		if names[r.name] {
			t.Errorf("%s is there twice", r.name)
		}
		names[r.name] = true
		for _, key := range []string{`        labels: { severity: (critical|warning|info) }`, `          summary: ("?)\S.*[^"]("?)`, `          description: \S.*\.`} {
			if !regexp.MustCompile(`(?m)^` + key + `$`).MatchString(r.body) {
				t.Errorf("%s has no %s", r.name, key)
			}
		}
		found := selector.FindAllStringSubmatch(r.expr, -1)
		if len(found) == 0 {
			t.Errorf("%s is about nothing: %q", r.name, r.expr)
		}
		var shown []string // labels that what the alert is about has
		for _, m := range found {
			f, ok := known[m[1]]
			if !ok {
				t.Errorf("%s asks for %s, which is no metric", r.name, m[1])
				continue
			}
			shown = append(shown, f.Labels...)
			for _, l := range regexp.MustCompile(`(\w+)(=~?)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(f.Labels, l[1]) || l[2] == "=" && !values[l[0]] {
					t.Errorf("%s asks for %s%s", r.name, m[1], m[2])
				}
			}
			if ranged := m[3] != ""; ranged != (f.Type == Counter || strings.Contains(r.expr, "changes("+m[0])) {
				t.Errorf("%s: %s is a %s", r.name, m[0], f.Type)
			}
		}
		for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.body, -1) {
			if l[1] != "instance" && !slices.Contains(shown, l[1]) {
				t.Errorf("%s shows the label %s, which there isn't", r.name, l[1])
			}
		}
	}
}

// There is an alert for each trouble that has to be noticed.
func TestAlertsCover(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, r := range rules(t) {
		all.WriteString(r.expr + "\n")
	}
	for _, want := range []string{
		"tailban_log_blind", "tailban_engine_wait_seconds", "tailban_engine_answered", "tailban_log_behind_seconds", "tailban_action_failing", "tailban_action_overdue_bans",
		"tailban_action_drift_repairs_total", "tailban_budget_used", "tailban_budget_dropped_total", `tailban_jail_held{by="breaker"}`,
		"tailban_edge_lease_deadline_timestamp_seconds", "tailban_state_failing", "tailban_start_time_seconds", "tailban_healthy", "tailban_bans_unconfirmed_deadline_timestamp_seconds < time()",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no alert is about %s", want)
		}
	}
}
