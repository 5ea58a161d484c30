package parser

import (
	"testing"
	"time"
)

const goCLF = "02/Jan/2006:15:04:05 -0700"

func TestCLFTime(t *testing.T) {
	for in, want := range map[string]string{
		"29/Nov/2026:16:51:36 -0330": "2026-11-29T20:21:36Z",
		"30/Nov/2026:01:52:44 +0530": "2026-11-29T20:22:44Z",
		"29/Feb/2024:00:00:00 +0000": "2024-02-29T00:00:00Z",
		"01/Jan/1970:00:00:00 +0000": "1970-01-01T00:00:00Z",
		"31/Dec/2016:23:59:60 +0000": "2017-01-01T00:00:00Z",
		"01/Jan/1969:23:00:00 +0000": "1969-01-01T23:00:00Z",
		"29/Feb/2023:00:00:00 +0000": "",
		"31/Apr/2024:00:00:00 +0000": "",
		"00/Apr/2024:00:00:00 +0000": "",
		"29/nov/2026:16:51:36 -0330": "",
		"29/Nov/2026:24:00:00 +0000": "",
		"29/Nov/2026:16:60:00 +0000": "",
		"29/Nov/2026:16:51:61 +0000": "",
		"29/Nov/2026:16:51:36 00000": "",
		"29/Nov/2026 16:51:36 +0000": "",
		"29/Nov/9999:16:51:36 +0000": "",
		"-9/Nov/2026:16:51:36 +0000": "",
	} {
		var c clfClock
		for range 2 { // the second time from memory
			ns, ok := c.parse([]byte(in))
			if !ok {
				if want != "" {
					t.Errorf("%q refused, want %s", in, want)
				}
				continue
			}
			if got := time.Unix(0, ns).UTC().Format(time.RFC3339); got != want {
				t.Errorf("%q = %s, want %q", in, got, want)
			}
		}
	}
}

// The standard library is the oracle wherever it accepts a text; it knows no
// leap seconds, and our years are bounded.
func FuzzCLFTime(f *testing.F) {
	f.Add("29/Nov/2026:16:51:36 -0330")
	f.Add("29/Feb/2024:00:00:00 +0000")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) != clfTimeLen {
			return
		}
		ns, ok := parseCLFTime([]byte(s))
		want, err := time.Parse(goCLF, s)
		if !ok {
			// Format back: the library takes months in any case.
			if err == nil && want.Format(goCLF) == s && want.Year() > 1900 && want.Year() < 2200 {
				t.Fatalf("%q refused, want %v", s, want)
			}
			return
		}
		if err != nil {
			if s[18:20] != "60" {
				t.Fatalf("%q accepted as %v, want %v", s, time.Unix(0, ns), err)
			}
			return
		}
		if want.UnixNano() != ns {
			t.Fatalf("%q = %v, want %v", s, time.Unix(0, ns).UTC(), want.UTC())
		}
	})
}

func TestDaysSinceEpoch(t *testing.T) {
	day := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	for day.Year() <= 2200 {
		y, m, d := day.Date()
		if got, want := daysSinceEpoch(y, int(m), d), int(day.Unix()/86400); day.Unix()%86400 == 0 && got != want {
			t.Fatalf("%v: %d, want %d", day, got, want)
		}
		if d == 1 {
			if got, want := daysIn(y, int(m)), day.AddDate(0, 1, -1).Day(); got != want {
				t.Fatalf("%v has %d days, want %d", day, got, want)
			}
		}
		day = day.AddDate(0, 0, 1)
	}
}
