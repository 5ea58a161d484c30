package parser

import (
	"math/big"
	"testing"
	"time"
)

func TestJSONTime(t *testing.T) {
	for _, tt := range []struct{ form, text, want string }{ // text as it stands in the line
		{"", `1772701201`, "2026-03-05T09:00:01Z"},
		{"", `"1772701201"`, "2026-03-05T09:00:01Z"},
		{"", `1772701201.25`, "2026-03-05T09:00:01.25Z"},
		{"", `"1772701201.123456789"`, "2026-03-05T09:00:01.123456789Z"},
		{"", `1772701201.12345678999`, "2026-03-05T09:00:01.123456789Z"},
		{"", `1772701201500`, "2026-03-05T09:00:01.5Z"},
		{"", `1772701201500.25`, "2026-03-05T09:00:01.50025Z"},
		{"", `1772701201500000`, "2026-03-05T09:00:01.5Z"},
		{"", `1772701201500000000`, "2026-03-05T09:00:01.5Z"},
		{"", `"2026-03-05T10:00:01+01:00"`, "2026-03-05T09:00:01Z"},
		{"", `"2026-03-05T10:00:01.250+0100"`, "2026-03-05T09:00:01.25Z"},
		{"", `"2026-03-05 09:00:01.123456789Z"`, "2026-03-05T09:00:01.123456789Z"},
		{"", `"05/Mar/2026:10:00:01 +0100"`, "2026-03-05T09:00:01Z"},
		{"epoch", `0`, ""},           // before 2000: a count of something else,
		{"epoch", `99999999999`, ""}, // seconds beyond 2200
		{"epoch", `946684799`, ""},
		{"epoch", `946684800`, "2000-01-01T00:00:00Z"},
		{"epoch", `946684800000`, "2000-01-01T00:00:00Z"},
		{"epoch", `946684800000000`, "2000-01-01T00:00:00Z"},
		{"epoch", `946684800000000000`, "2000-01-01T00:00:00Z"},
		{"s", `946684800`, "2000-01-01T00:00:00Z"},
		{"s", `7258118400`, "2200-01-01T00:00:00Z"},
		{"s", `7258118401`, ""},
		{"s", `1772701201500`, ""},
		{"ms", `946684800005`, "2000-01-01T00:00:00.005Z"},
		{"ms", `1772701201`, ""}, // seconds,
		{"us", `946684800000001.5`, "2000-01-01T00:00:00.0000015Z"},
		{"ns", `946684800000000001.9`, "2000-01-01T00:00:00.000000001Z"},
		{"ns", `7258118400000000000`, "2200-01-01T00:00:00Z"},
		{"ns", `9223372036854775808`, ""},
		{"ns", `9999999999999999999`, ""},
		{"ns", `18446744073709551617`, ""},
		{"", `-5`, ""},
		{"", `1e9`, ""},
		{"", `"5."`, ""},
		{"", `".5"`, ""},
		{"", `"5x"`, ""},
		{"", `"1.5.5"`, ""},
		{"", `""`, ""},
		{"", `null`, ""},
		{"", `true`, ""},
		{"", `"2026-03-05T10:00:01"`, ""}, // no zone: no instant
		{"rfc3339", `"2026-03-05T10:00:01"`, ""},
		{"", `"2026-02-29T10:00:01Z"`, ""},
		{"", `"05/Mar/2026:10:00:01"`, ""},
		{"", `"05/Mar/2026:10:00:01 +0100 "`, ""},
		{"", `"today"`, ""},
		{"rfc3339", `"2026-03-05T10:00:01+01:00"`, "2026-03-05T09:00:01Z"},
		{"rfc3339", `1772701201`, ""},
		{"rfc3339", `"05/Mar/2026:10:00:01 +0100"`, ""},
		{"clf", `"05/Mar/2026:10:00:01 +0100"`, "2026-03-05T09:00:01Z"},
		{"clf", `"2026-03-05T10:00:01+01:00"`, ""},
		{"s", `"2026-03-05T10:00:01+01:00"`, ""},
	} {
		f := mustJSON(t, JSONFields{Peer: "p", Time: "t", TimeForm: tt.form})
		for range 2 { // the second time from memory
			var ev Event
			got := ""
			if err := f.Parse([]byte(`{"p":"192.0.2.1","t":`+tt.text+`}`), false, &ev); err == nil {
				got = time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano)
			} else if err != errTime {
				t.Errorf("%s as %q: %v", tt.text, tt.form, err)
			}
			if got != tt.want {
				t.Errorf("%s as %q: %s, want %q", tt.text, tt.form, got, tt.want)
			}
		}
	}
}

// Exact arithmetic is the oracle for counts of every unit.
func FuzzJSONEpoch(f *testing.F) {
	f.Add("1772701201.5", uint8(0))
	f.Add("9999999999999999999", uint8(4))
	f.Add("1772701201500000000.999", uint8(0))
	units := [...]int64{1e9, 1e6, 1e3, 1}
	f.Fuzz(func(t *testing.T, s string, u uint8) {
		form := jsonTimeEpoch + jsonTimeForm(u%5)
		ns, ok := parseJSONEpoch([]byte(s), form)
		if !ok {
			return
		}
		want, isNumber := new(big.Rat).SetString(s)
		if !isNumber {
			t.Fatalf("%q accepted", s)
		}
		unit := int64(0)
		if form != jsonTimeEpoch {
			unit = units[form-jsonTimeSeconds]
		} else {
			for i, above := range [...]int64{1e11, 1e14, 1e17, 1<<63 - 1} {
				if want.Cmp(new(big.Rat).SetInt64(above)) < 0 {
					unit = units[i]
					break
				}
			}
		}
		want.Mul(want, new(big.Rat).SetInt64(unit))
		if n := new(big.Int).Quo(want.Num(), want.Denom()); !n.IsInt64() || n.Int64() != ns {
			t.Fatalf("%q in %d ns: %d, want %v", s, unit, ns, n)
		}
	})
}

// Times without their offset are those of the zone, if there is one.
func TestJSONTimeInAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ form, value, want string }{
		{"local", "2026-03-05 10:00:01.250", "2026-03-05T09:00:01.25Z"},
		{"local", "2026-07-05T10:00:01", "2026-07-05T08:00:01Z"},
		{"local", "2026-07-05T10:00:01Z", "2026-07-05T10:00:01Z"},
		{"", "2026-07-05T10:00:01,5", "2026-07-05T08:00:01.5Z"},
		{"", "05/Jul/2026:10:00:01 +0100", "2026-07-05T09:00:01Z"},
		{"rfc3339", "2026-07-05T10:00:01", "malformed time"},
		{"local", "05/Jul/2026:10:00:01 +0100", "malformed time"},
	} {
		f, err := NewJSON(JSONFields{Peer: "ip", Time: "t", TimeForm: tt.form, Zone: berlin})
		if err != nil {
			t.Fatal(err)
		}
		var ev Event
		got := ""
		if err := f.Parse([]byte(`{"ip":"192.0.2.1","t":"`+tt.value+`"}`), false, &ev); err != nil {
			got = err.Error()
		} else {
			got = time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano)
		}
		if got != tt.want {
			t.Errorf("%s as %q: %s, want %s", tt.value, tt.form, got, tt.want)
		}
	}
}
