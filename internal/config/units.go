package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

type durationUnit struct {
	name string
	size time.Duration
}

// durationUnits are the units of durations, longest first.
func durationUnits() []durationUnit {
	return []durationUnit{{"w", week}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
}

var errDuration = errors.New(`must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`)

// ParseDuration reads a duration as the configuration writes it: whole
// numbers with the units w, d, h, m and s, the longer unit first, each at
// most once ("60s", "1h30m", "7d").
func ParseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, errDuration
	}
	var total time.Duration
	units := durationUnits()
	for s != "" {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		if digits == 0 || digits == len(s) {
			return 0, errDuration
		}
		for len(units) > 0 && units[0].name != s[digits:digits+1] {
			units = units[1:]
		}
		if len(units) == 0 {
			return 0, errDuration
		}
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		if err != nil || n > int64((math.MaxInt64-total)/units[0].size) {
			return 0, errors.New("is longer than 292 years")
		}
		total += time.Duration(n) * units[0].size
		s, units = s[digits+1:], units[1:]
	}
	return total, nil
}

// FormatDuration writes d, which must not be negative, as ParseDuration reads
// it: whole seconds, with weeks only if nothing else is needed.
func FormatDuration(d time.Duration) string {
	d = d.Truncate(time.Second)
	if d <= 0 {
		return "0s"
	}
	if d%week == 0 {
		return strconv.FormatInt(int64(d/week), 10) + "w"
	}
	var b strings.Builder
	for _, u := range durationUnits()[1:] {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// FormatLadder writes the lengths of bans by offence: "1h, 6h, then 1d".
func FormatLadder(steps []time.Duration) string {
	var b strings.Builder
	for i, d := range steps {
		switch {
		case i == 0:
		case i == len(steps)-1:
			b.WriteString(", then ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(FormatDuration(d))
	}
	return b.String()
}

type sizeUnit struct {
	name string
	size int64
}

// sizeUnits are the units of sizes: binary ones first, and the larger first.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	}
}

var errSize = errors.New(`must be a size like "64MiB" (units KiB, MiB, GiB, kB, MB, GB), or a whole number of bytes`)

// parseSize reads a size in bytes: a whole number and a unit, without a space
// between them.
func parseSize(s string) (int64, error) {
	for _, u := range sizeUnits() {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return 0, errSize
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > math.MaxInt64/u.size {
			return 0, errors.New("is larger than any machine's memory")
		}
		return n * u.size, nil
	}
	return 0, errSize
}

// formatSize writes a size as parseSize reads it, or as a plain number if no
// unit divides it.
func formatSize(n int64) string {
	for _, u := range sizeUnits() {
		if n > 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
