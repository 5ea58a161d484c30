package config

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFormatLadder(t *testing.T) {
	for _, tt := range []struct {
		steps []time.Duration
		want  string
	}{
		{[]time.Duration{time.Hour}, "1h"},
		{[]time.Duration{time.Hour, 6 * time.Hour}, "1h, then 6h"},
		{[]time.Duration{time.Hour, 6 * time.Hour, day}, "1h, 6h, then 1d"},
	} {
		if got := FormatLadder(tt.steps); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.steps, got, tt.want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "60s": time.Minute, "090s": 90 * time.Second, "1m": time.Minute,
		"1h30m": 90 * time.Minute, "1h5s": time.Hour + 5*time.Second, "1d": 24 * time.Hour, "2w": 336 * time.Hour,
		"1w1d1h1m1s": 7*24*time.Hour + 25*time.Hour + 61*time.Second, "9223372036s": 9223372036 * time.Second,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "s", "60", "1", "-1s", "+1s", "1.5h", "1 h", " 1h", "1h ", "1m1h", "1s1s", "1y", "1ms", "1us", "1H", "h1", "1hm", "1h30",
		"9223372037s", "15251w", "99999999999999999999s", "15250w9999999h", "1µ", "１s",
	} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("%q: %v, want an error", s, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -time.Hour: "0s", 999 * time.Millisecond: "0s", 1500 * time.Millisecond: "1s", time.Minute: "1m", 90 * time.Minute: "1h30m",
		7 * 24 * time.Hour: "1w", 8 * 24 * time.Hour: "8d", 365 * 24 * time.Hour: "365d", 24*time.Hour + time.Second: "1d1s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d")).Truncate(time.Second)
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v became %q, and that %v, %v", d, FormatDuration(d), got, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"60s", "1h30m", "2w", "", "9223372037s", "1m1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 || d%time.Second != 0 {
			t.Errorf("%q is %v", s, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Errorf("%q is %v, written %q is %v, %v", s, d, FormatDuration(d), again, err)
		}
	})
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0KiB": 0, "1KiB": 1024, "64MiB": 64 << 20, "2GiB": 2 << 30, "1kB": 1000, "5MB": 5e6, "1GB": 1e9, "8589934591GiB": 8589934591 << 30,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "1", "B", "1B", "KiB", "1 KiB", "-1KiB", "+1KiB", "1.5MiB", "1kib", "1KB", "1TiB", "1KiBKiB", "8589934592GiB", "99999999999999999999kB",
	} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q: %d, want an error", s, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64MiB", "1kB", "", "8589934592GiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("%q is %d", s, n)
		}
		if n%1000 != 0 && n%1024 != 0 {
			t.Errorf("%q is %d, which no unit divides", s, n)
		}
		if n == 0 {
			return // written as a plain number
		}
		if again, err := parseSize(formatSize(n)); err != nil || again != n {
			t.Errorf("%q is %d, written %q is %d, %v", s, n, formatSize(n), again, err)
		}
	})
}
