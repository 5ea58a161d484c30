package parser

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func berlin(t testing.TB) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("no time zone data: %v", err)
	}
	return loc
}

// formOf compiles an Apache time, perhaps of several directives.
func formOf(t testing.TB, spec string, zone *time.Location) *timeForm {
	t.Helper()
	f, err := New("%h "+spec, Options{Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return f.(*compiled).time
}

func TestTimeForms(t *testing.T) {
	zone := berlin(t)
	iso := func() *timeForm { f := isoForm(); f.local = newLocalClock(zone, time.Time{}); return f }
	tests := []struct {
		name string
		form *timeForm
		in   string
		want string // RFC 3339; empty: refused
	}{
		{"ISO", iso(), "2026-11-29T12:39:01+01:00", "2026-11-29T11:39:01Z"},
		{"ISO, offset without colon", iso(), "2026-11-29T12:39:01-0330", "2026-11-29T16:09:01Z"},
		{"ISO, hours only", iso(), "2026-11-29T12:39:01+01", "2026-11-29T11:39:01Z"},
		{"ISO, Z and nanoseconds", iso(), "2026-11-29T11:39:01.123456789Z", "2026-11-29T11:39:01.123456789Z"},
		{"ISO, finer than nanoseconds", iso(), "2026-11-29T11:39:01.1234567899Z", "2026-11-29T11:39:01.123456789Z"},
		{"ISO, comma and blank", iso(), "2026-11-29 12:39:01,5", "2026-11-29T11:39:01.5Z"},
		{"ISO, repeated hour: the first", iso(), "2026-10-25T02:30:00", "2026-10-25T00:30:00Z"},
		{"ISO, skipped hour", iso(), "2026-03-29T02:30:00", "2026-03-29T01:30:00Z"},
		{"ISO, leap second", iso(), "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
		{"ISO, no zone", isoForm(), "2026-11-29T12:39:01", ""},
		{"ISO, bad date", iso(), "2026-13-45T99:99:99Z", ""},
		{"ISO, date only", iso(), "2026-11-29", ""},
		{"ISO, dot without decimals", iso(), "2026-11-29T11:39:01.Z", ""},
		{"ISO, text behind", iso(), "2026-11-29T11:39:01Zx", ""},
		{"ISO, year out of range", iso(), "9999-11-29T11:39:01Z", ""},
		{"ISO, bad offset", iso(), "2026-11-29T11:39:01+24:00", ""},
		{"seconds", epochForm(1e9), "1795952341", "2026-11-29T11:39:01Z"},
		{"seconds with decimals", epochForm(1e9), "1795952341.25", "2026-11-29T11:39:01.25Z"},
		{"milliseconds", epochForm(1e6), "1795952341250", "2026-11-29T11:39:01.25Z"},
		{"microseconds", epochForm(1e3), "1795952341250001", "2026-11-29T11:39:01.250001Z"},
		{"seconds, milliseconds given", epochForm(1e9), "1795952341250", ""},
		{"too many digits", epochForm(1e9), "9999999999999999999999", ""},
		{"no digits", epochForm(1e9), "-", ""},
		{"dot only", epochForm(1e9), "1.", ""},
		{"two dots", epochForm(1e9), "1.2.3", ""},
		{"negative", epochForm(1e9), "-1", ""},
		{"CLF in brackets", bracketForm(), "[29/Nov/2026:16:51:36 -0330]", "2026-11-29T20:21:36Z"},
		{"CLF in other brackets", bracketForm(), "(29/Nov/2026:16:51:36 -0330)", ""},
		{"CLF, short", clfForm(), "29/Nov/2026:16:51:36", ""},
		{"strftime", formOf(t, "%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t", nil), "29/Nov/2026:12:39:01.250 +0100", "2026-11-29T11:39:01.25Z"},
		{"strftime with a zone", formOf(t, "%{%a %h %e %T %y}t", zone), "Sun Nov  9 12:39:01 26", "2026-11-09T11:39:01Z"},
		{"strftime, last century", formOf(t, "%{%D %R:%S %z}t", nil), "11/29/99 12:39:01 +0000", "1999-11-29T12:39:01Z"},
		{"strftime, bad month", formOf(t, "%{%d/%b/%Y %T}t", zone), "29/Nix/2026 12:39:01", ""},
		{"strftime, bad weekday", formOf(t, "%{%a %F %T}t", zone), "S1n 2026-11-29 12:39:01", ""},
		{"strftime, short", formOf(t, "%{%F %T}t", zone), "2026-11-29 12:39:0", ""},
		{"strftime, long", formOf(t, "%{%F %T}t", zone), "2026-11-29 12:39:011", ""},
		{"strftime, other separator", formOf(t, "%{%F %T}t", zone), "2026-11-29T12:39:01", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the second time from memory
				got := ""
				if ns, ok := tt.form.parse([]byte(tt.in)); ok {
					got = time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
				}
				if got != tt.want {
					t.Errorf("%q = %q, want %q", tt.in, got, tt.want)
				}
			}
		})
	}
}

// Times that can mean several instants follow the log they are in.
func TestLocalTimes(t *testing.T) {
	zone := berlin(t)
	iso := func(now time.Time) *timeForm { f := isoForm(); f.local = newLocalClock(zone, now); return f }
	noYear := func(now string) *timeForm {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		f, err := New("%h %{%b %e %T}t", Options{Zone: zone, Now: at})
		if err != nil {
			t.Fatal(err)
		}
		return f.(*compiled).time
	}
	utc, err := New("%h %{%b %e %T %z}t", Options{Now: time.Unix(1798759804, 0)}) // 2026-12-31T23:30:04Z
	if err != nil {
		t.Fatal(err)
	}
	offset, err := New("%h %{%b %e %T %z}t", Options{Now: time.Unix(1795952400, 0)}) // 2026-11-29T11:40:00Z
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		form  *timeForm
		texts []string // read one after the other
		want  string   // of the last
	}{
		{"twice, going on", iso(time.Time{}), []string{"2026-10-25T02:59:59", "2026-10-25T02:00:00"}, "2026-10-25T01:00:00Z"},
		{"twice, a little back", iso(time.Time{}), []string{"2026-10-25T02:59:59", "2026-10-25T02:00:00", "2026-10-25T02:59:58"}, "2026-10-25T00:59:58Z"},
		{"twice, a gap in the second", iso(time.Time{}), []string{"2026-10-25T02:55:00", "2026-10-25T02:05:00", "2026-10-25T02:45:00"}, "2026-10-25T01:45:00Z"},
		{"twice, a long gap in the second", iso(time.Time{}), []string{"2026-10-25T02:15:00", "2026-10-25T02:00:00", "2026-10-25T02:49:00"}, "2026-10-25T01:49:00Z"},
		{"twice, ten minutes late", iso(time.Time{}), []string{"2026-10-25T02:40:00", "2026-10-25T02:30:00"}, "2026-10-25T00:30:00Z"},
		{"twice, eleven minutes back", iso(time.Time{}), []string{"2026-10-25T02:41:00", "2026-10-25T02:30:00"}, "2026-10-25T01:30:00Z"},
		{"twice, from behind", iso(time.Time{}), []string{"2026-10-25T03:00:00", "2026-10-25T02:30:00"}, "2026-10-25T01:30:00Z"},
		{"twice, now in the first", iso(time.Unix(1792888205, 0)), []string{"2026-10-25T02:30:00"}, "2026-10-25T00:30:00Z"},
		{"twice, now in the second", iso(time.Unix(1792891805, 0)), []string{"2026-10-25T02:30:00"}, "2026-10-25T01:30:00Z"},
		{"twice, now in the second, text of the first", iso(time.Unix(1792891805, 0)), []string{"2026-10-25T02:45:00"}, "2026-10-25T00:45:00Z"},
		{"an offset decides", iso(time.Time{}), []string{"2026-10-25T02:59:59", "2026-10-25T02:00:00+02:00"}, "2026-10-25T00:00:00Z"},
		{"no year", noYear("2026-11-29T11:40:00Z"), []string{"Nov 29 12:39:01"}, "2026-11-29T11:39:01Z"},
		{"no year, the last", noYear("2027-01-01T00:00:05Z"), []string{"Dec 31 23:59:58"}, "2026-12-31T22:59:58Z"},
		{"no year, a slow clock", noYear("2026-12-31T22:59:58Z"), []string{"Jan  1 00:00:00"}, "2026-12-31T23:00:00Z"},
		{"no year, two days ahead", noYear("2026-12-30T12:00:00Z"), []string{"Jan  1 12:00:00"}, "2026-01-01T11:00:00Z"},
		{"no year, into the next", noYear("2026-11-29T11:40:00Z"), []string{"Nov 29 12:39:01", "Dec 31 23:59:59", "Jan  1 00:00:00"}, "2026-12-31T23:00:00Z"},
		{"no year, three years on", noYear("2026-11-29T11:40:00Z"),
			[]string{"Nov 29 12:00:00", "Apr  1 12:00:00", "Aug  1 12:00:00", "Dec  1 12:00:00", "Apr  1 12:00:00", "Aug  1 12:00:00", "Dec  1 12:00:00", "Feb 29 12:00:00"}, "2028-02-29T11:00:00Z"},
		{"no year, a little back", noYear("2027-01-01T00:00:05Z"), []string{"Jan  1 00:00:00", "Dec 31 23:59:59"}, "2026-12-31T22:59:59Z"},
		{"no year, leap day", noYear("2026-03-01T00:00:00Z"), []string{"Feb 29 12:00:00"}, "2024-02-29T11:00:00Z"},
		{"no year, not a date", noYear("2026-03-01T00:00:00Z"), []string{"Feb 30 12:00:00"}, ""},
		{"no year, twice", noYear("2026-11-29T11:40:00Z"), []string{"Oct 25 02:59:59", "Oct 25 02:00:00"}, "2026-10-25T01:00:00Z"},
		{"no year, with an offset, going on", offset.(*compiled).time, []string{"Nov 29 11:30:00 +0000", "Dec 31 23:59:59 +0000", "Jan  1 00:30:00 +0100", "Jan  1 00:30:00 +0000"}, "2027-01-01T00:30:00Z"},
		{"no year, with an offset", utc.(*compiled).time, []string{"Jan  1 00:30:00 +0100"}, "2026-12-31T23:30:00Z"},
		{"noon", formOf(t, "%{%F %r}t", zone), []string{"2026-11-29 12:39:01 PM"}, "2026-11-29T11:39:01Z"},
		{"midnight", formOf(t, "%{%F %l:%M:%S%P}t", zone), []string{"2026-11-29 12:39:01am"}, "2026-11-28T23:39:01Z"},
		{"evening", formOf(t, "%{%F %l:%M:%S%P}t", zone), []string{"2026-11-29  9:39:01pm"}, "2026-11-29T20:39:01Z"},
		{"no hour of twelve", formOf(t, "%{%F %r}t", zone), []string{"2026-11-29 00:39:01 AM"}, ""},
		{"no half of the day", formOf(t, "%{%F %r}t", zone), []string{"2026-11-29 10:39:01 XM"}, ""},
	} {
		got := ""
		for _, text := range tt.texts {
			for range 2 { // the second time from memory
				got = ""
				if ns, ok := tt.form.parse([]byte(text)); ok {
					got = time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %q", tt.name, got, tt.want)
		}
	}
}

// Forms of several directives, written by the standard library, read back.
func TestStrftimeReadsBack(t *testing.T) {
	pairs := map[string]string{
		"%{%Y-%m-%dT%H:%M:%S%z}t":               "2006-01-02T15:04:05-0700",
		"%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t":  "02/Jan/2006:15:04:05.000000 -0700",
		"%{end:%a, %e %h %y}t %{end:%R:%S %z}t": "Mon, _2 Jan 06 15:04:05 -0700",
		"%{%D}t@%{%T}t.%{msec_frac}t|%{%z}t":    "01/02/06@15:04:05.000|-0700",
		"%{begin:%F %%%t}t %{%H:%M:%S %z%%}t":   "2006-01-02 %\t 15:04:05 -0700%",
	}
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.IntRange(-12*4, 14*4).Draw(t, "quarters") * 900
		at := time.Unix(rapid.Int64Range(0, 3e9).Draw(t, "s"), 0).Add(time.Duration(rapid.IntRange(0, 999).Draw(t, "ms")) * time.Millisecond).
			In(time.FixedZone("", offset))
		for spec, layout := range pairs {
			text := at.Format(layout)
			want, err := time.Parse(layout, text) // less than at: some lack decimals
			if err != nil {
				t.Fatal(err)
			}
			f, err := New("%h "+spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if ns, ok := f.(*compiled).time.parse([]byte(text)); !ok || ns != want.UnixNano() {
				t.Fatalf("%s: %q = %v, %v; want %v", spec, text, time.Unix(0, ns).UTC(), ok, want.UTC())
			}
		}
	})
}

// The standard library is the oracle where it accepts a text.
func FuzzISO(f *testing.F) {
	for _, s := range []string{"2026-11-29T12:39:01+01:00", "2026-11-29 11:39:01,123Z", "2026-11-29T11:39:01.5-0330", "2016-12-31T23:59:60Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ns, ok := parseISO([]byte(s), nil)
		want, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || want.Year() <= 1900 || want.Year() >= 2200 || s[13] != ':' || strings.HasSuffix(s, ":60") {
			return // ours takes other forms; the library also hours of one digit and offsets of 60 minutes
		}
		if _, offset := want.Zone(); offset <= -24*3600 || offset >= 24*3600 {
			return
		}
		if !ok || ns != want.UnixNano() {
			t.Fatalf("%q = %v, %v; want %v", s, time.Unix(0, ns).UTC(), ok, want.UTC())
		}
	})
}
