package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

// clock writes a time, in UTC as everywhere.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// ago writes how long ago something was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := max(now.Sub(t), 0)
	for _, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d >= unit {
			return brief(d.Truncate(unit)) + " ago"
		}
	}
	return brief(d) + " ago"
}

// left writes how long it is until a time.
func left(now, until time.Time) string { return brief(max(until.Sub(now), 0)) }

// brief writes a length of time by its two largest units.
func brief(d time.Duration) string {
	switch {
	case d >= 100*24*time.Hour:
		d = d.Truncate(24 * time.Hour)
	case d >= 24*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return config.FormatDuration(d)
}

// seconds is a length of time as the interface has it.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// inWindow writes "11 in 1m", or what a window of nothing means.
func inWindow(n int, window float64) string {
	if window == 0 {
		return "at first sight"
	}
	return fmt.Sprintf("%d in %s", n, config.FormatDuration(seconds(window)))
}

// stepsText writes lines by step, in the order of exceptions; steps that this
// program doesn't know come last.
func stepsText[N int | uint64](steps map[string]N) string {
	var parts []string
	rest := maps.Clone(steps)
	add := func(name string) {
		if n := rest[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", words.Thousands(n), name))
		}
		delete(rest, name)
	}
	for s := range detector.NumSteps {
		add(s.String())
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		add(name)
	}
	return strings.Join(parts, ", ")
}

// many is plural for numbers that can be large.
func many[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return words.Thousands(n) + " " + what + "s"
}

// sizeText writes a number of bytes for a person.
func sizeText(n int64) string {
	f, unit := float64(n), 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, []string{"", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// amount writes a number in a unit of the interface.
func amount(n int64, unit string) string {
	if unit == "bytes" {
		return sizeText(n)
	}
	return words.Thousands(n)
}

// percent writes a share of a whole; all but a little is never 100 %.
func percent(part, whole uint64) string {
	switch {
	case whole == 0:
		return "-"
	case part >= whole:
		return "100 %"
	}
	// Cut, not rounded.
	hundredths := float64(part) / float64(whole) * 10000
	return fmt.Sprintf("%.2f %%", min(float64(int(hundredths)), 9999)/100)
}

// orDash stands for what is not known.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// requestText is a line's request.
func requestText(l *control.Line) string {
	return strings.TrimSpace(l.Method + " " + l.Path)
}

// statusText is a line's status, if it has one.
func statusText(l *control.Line) string {
	if l.Status == 0 {
		return ""
	}
	return fmt.Sprint(l.Status)
}

// reasonText writes who and why, behind something else.
func reasonText(reason, by string) string {
	switch {
	case reason == "" && by == "":
		return ""
	case reason == "":
		return " (" + by + ")"
	case by == "":
		return " (" + reason + ")"
	}
	return " (" + by + ": " + reason + ")"
}

// commas joins names.
func commas(names []string) string { return strings.Join(names, ", ") }
