package replay

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/words"
)

const (
	maxDays   = 3660 // that bans are counted by: ten years
	shownDays = 5    // those with the most bans
)

// byDay counts a jail's bans by day, UTC.
type byDay map[string]map[string]uint64

func (b byDay) add(d *detector.Decision) {
	days := b[d.Jail]
	if days == nil {
		days = map[string]uint64{}
		b[d.Jail] = days
	}
	day := time.Unix(0, d.Time).UTC().Format(time.DateOnly)
	if _, known := days[day]; known || len(days) < maxDays {
		days[day]++
	}
}

// write writes a row for each jail of the log: how many lines fitted it, its
// bans, and the days that had most of them.
func (b byDay) write(w *strings.Builder, r *replay) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\njail\tlines\tbans\tby day\n")
	row := func(name string, fits string, note string) {
		days := b[name]
		var sum uint64
		for _, n := range days {
			sum += n
		}
		if sum > 0 {
			note = busiest(days)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", name, fits, words.Thousands(sum), note)
	}
	for i := range r.Config.Jails {
		j := &r.Config.Jails[i]
		if !slices.Contains(j.Logs, r.conf.Name) {
			continue
		}
		note := ""
		if r.engine.Fits(j.Name) == 0 {
			note = "no line fits it: are its conditions right?"
		}
		row(j.Name, words.Thousands(r.engine.Fits(j.Name)), note)
	}
	if r.Config.Deny != nil {
		row(detector.DenyName, words.Thousands(r.log.Steps[detector.StepDenied]), "")
	}
	tw.Flush()
}

// busiest lists the days with the most bans, in order of time.
func busiest(days map[string]uint64) string {
	var names []string
	for d := range days {
		names = append(names, d)
	}
	slices.SortFunc(names, func(a, b string) int {
		if days[a] != days[b] {
			return int(days[b]) - int(days[a])
		}
		return strings.Compare(a, b)
	})
	more := len(names) - shownDays
	names = names[:min(len(names), shownDays)]
	slices.Sort(names)
	var parts []string
	for _, d := range names {
		parts = append(parts, fmt.Sprintf("%s: %s", d, words.Thousands(days[d])))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and on %d more days", more))
	}
	return strings.Join(parts, ", ")
}
