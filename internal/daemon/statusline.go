package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/words"
)

// namedTroubles is how many troubles the status line names.
const namedTroubles = 3

// vitals are what the engine says of itself, between two batches of lines.
type vitals struct {
	bans, logs       int
	lines, decisions uint64
}

func (e *engine) vitals() vitals {
	v := vitals{bans: len(e.bans.bans), logs: len(e.config.Logs)}
	for _, l := range e.logs {
		v.lines += l.lines
	}
	for _, j := range e.jails {
		v.decisions += j.decisions
	}
	return v
}

// text is what there is.
func (v vitals) text() string {
	return words.Plural(v.bans, "ban") + "; " + words.Plural(v.logs, "log")
}

// textSince is text with what has happened since an earlier moment. A reload may
// have taken counters away: of those nothing is said.
func (v vitals) textSince(before vitals, passed time.Duration) string {
	text := words.Plural(v.bans, "ban")
	if v.decisions > before.decisions {
		text += ", " + rate(v.decisions-before.decisions, passed.Minutes()) + " new a minute"
	}
	text += "; " + words.Plural(v.logs, "log")
	if v.lines > before.lines {
		text += ", " + rate(v.lines-before.lines, passed.Seconds()) + " lines a second"
	}
	return text
}

// rate is so many in each of some units of time. What is small isn't nothing.
func rate(n uint64, units float64) string {
	switch each := float64(n) / units; {
	case each >= 10:
		return words.Thousands(uint64(each + 0.5))
	case each >= 0.1:
		return fmt.Sprintf("%.1f", each)
	}
	return "under 0.1"
}

// troublesText names what is in trouble, as the end of a status line.
func (d *daemon) troublesText(now time.Time) string {
	names := d.hub.alarms.about()
	if text, _ := d.stateTrouble(now); text != "" {
		names = append(names, "state file")
	}
	switch n := len(names) - namedTroubles; {
	case len(names) == 0:
		return ""
	case n > 0:
		names = append(names[:namedTroubles], fmt.Sprintf("%d more", n))
	}
	return "; in trouble, see tailban status: " + strings.Join(names, ", ")
}

// about names what the troubles are about.
func (a *alarms) about() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for about := range a.open {
		name, _, _ := strings.Cut(about, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// stateTrouble is what is wrong with the storing of changes, and since when.
func (d *daemon) stateTrouble(now time.Time) (text string, since time.Time) {
	w := d.writer.Stats()
	switch {
	case w.Failing:
		return fmt.Sprintf("%d changes can't be stored: a restart would forget them", w.Pending), w.Oldest
	case w.Pending > 0 && now.Sub(w.Oldest) >= diskPatience:
		return fmt.Sprintf("%d changes wait for the disk, which doesn't answer: a restart would forget them", w.Pending), w.Oldest
	}
	return "", time.Time{}
}
