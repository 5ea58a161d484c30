package parser

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// datedText is a written time, in the form that a format has for it.
type datedText struct {
	text string
	// form is nginx's variable, Apache's directives, or "json:" and a time_form.
	form string
	utc  bool // the log's zone is UTC, as the text says

	refused string // the end of the error, if the form or the text is refused
	why     string
}

// collectedDates is every text of the collection.
var collectedDates = []datedText{
	{text: "29/Nov/2026:12:39:01 +0100", form: "$time_local"},
	{text: "29/Nov/2026:12:39:01", form: "%{%d/%b/%Y:%T}t"},
	{text: "29/Nov/2026 12:39:01 +0100", form: "%{%d/%b/%Y %T %z}t"},
	{text: "29/Nov/2026:17:09:01 +0530", form: "$time_local"},
	{text: "29/Nov/2026:08:09:01 -0330", form: "$time_local"},
	{text: "29/Nov/2026:17:24:01 +0545", form: "%{%d/%b/%Y:%H:%M:%S %z}t"},
	{text: "28/Nov/2026:23:39:01 -1200", form: "$time_local"},
	{text: "2026-11-29T12:39:01+01:00", form: "$time_iso8601"},
	{text: "2026-11-29T12:39:01+0100", form: "%{%Y-%m-%dT%H:%M:%S%z}t"},
	{text: "2026-11-29T12:39:01+01", form: "json:rfc3339"},
	{text: "2026-11-29T11:39:01Z", form: "%{%FT%TZ}t", utc: true},
	{text: "2026-11-29 11:39:01 UTC", form: "%{%F %T UTC}t", utc: true},
	{text: "2026-11-29 12:39:01 +0100", form: "%{%F %T %z}t"},
	{text: "2026-11-29T12:39:01", form: "%{%FT%T}t"},
	{text: "2026-11-29 12:39:01", form: "%{%F %T}t"},
	{text: "2026/11/29 12:39:01", form: "%{%Y/%m/%d %T}t"},
	{text: "2026.11.29 12:39:01", form: "%{%Y.%m.%d %T}t"},
	{text: "20261129T123901", form: "%{%Y%m%dT%H%M%S}t"},
	{text: "20261129 123901", form: "%{%Y%m%d %H%M%S}t"},
	{text: "261129 12:39:01", form: "%{%y%m%d %T}t"},
	{text: "29-Nov-2026 12:39:01", form: "%{%d-%b-%Y %T}t"},
	{text: "29-11-2026 12:39:01", form: "%{%d-%m-%Y %T}t"},
	{text: "29/11/2026 12:39:01", form: "%{%d/%m/%Y %T}t"},
	{text: "11/29/2026:12:39:01", form: "%{%m/%d/%Y:%T}t"},
	{text: "29 Nov 2026 12:39:01", form: "%{%d %b %Y %T}t"},
	{text: "Nov 29 12:39:01", form: "%{%b %e %T}t"},
	{text: "Nov 29 2026 12:39:01", form: "%{%b %d %Y %T}t"},
	{text: "Sun Nov 29 12:39:01 2026", form: "%{%c}t"},
	{text: "Sun Nov 29 12:39:01", form: "%{%a %b %d %T}t"},
	{text: "Sun, 29 Nov 2026 11:39:01 GMT", form: "%{%a, %d %b %Y %T GMT}t", utc: true},
	{text: "Nov 29, 2026 12:39:01 PM", form: "%{%b %d, %Y %r}t"},
	{text: "1795952341", form: "%{sec}t"},
	{text: "[1795952341]", form: "[%{sec}t]"},
	{text: "audit(1795952341.000:987)", form: "json:", refused: "malformed time", why: "the kernel's audit log, no web server's"},
	{text: "@400000006b0c0edf00000000", form: "json:", refused: "malformed time", why: "TAI64N: of multilog, no web server's"},
	{text: "29/Nov/2026:12:39:01.250", form: "%{%d/%b/%Y:%T}t.%{msec_frac}t"},
	{text: "29/Nov/2026:12:39:01.250 +0100", form: "%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t"},
	{text: "2026-11-29T11:39:01.123Z", form: "json:rfc3339"},
	{text: "2026-11-29T11:39:01.123456Z", form: "%{%FT%T}t.%{usec_frac}tZ", utc: true},
	{text: "2026-11-29T11:39:01.1Z", form: "json:rfc3339"},
	{text: "2026-11-29 12:39:01,123", form: "%{%F %T}t,%{msec_frac}t"},
	{text: "2026-11-29T12:39:01.5+01:00", form: "json:"},
	{text: "Nov 29 12:39:01.123456", form: "%{%b %e %T}t.%{usec_frac}t"},
	{text: "Sun Nov 29 12:39:01.250000 2026", form: "%{%a %b %d %T}t.%{usec_frac}t %{%Y}t"},
	{text: "1795952341.250", form: "$msec"},
	{text: "1795952341250", form: "%{msec}t"},
	{text: "1795952341250000", form: "%{usec}t"},
	{text: "1795952341250000000", form: "json:ns"},
	{text: "2026-11-29T11:39:01.123456789Z", form: "json:rfc3339"},
	{text: "Nov  9 12:39:01", form: "%{%b %e %T}t"},
	{text: "Nov 9 12:39:01", form: "%{%b %-d %T}t", refused: "this piece of a time cannot be read; use the letter alone, as in %d or %e", why: "its length varies"},
	{text: "Dec 31 23:59:58", form: "%{%b %e %T}t"},
	{text: "Jan  1 00:30:00", form: "%{%b %e %T}t"},
	{text: "Feb 29 12:00:00", form: "%{%b %e %T}t"},
	{text: "2026-10-25 02:30:00", form: "%{%F %T}t"},
	{text: "25/Oct/2026:02:30:00 +0200", form: "$time_local"},
	{text: "2026-03-29 02:30:00", form: "%{%F %T}t"},
	{text: "2016-12-31T23:59:60Z", form: "json:"},
	{text: "24/Nov/2026:24:00:00 +0000", form: "$time_local", refused: "malformed time", why: "there is no hour 24"},
	{text: "-", form: "$time_local", refused: "malformed time", why: "no time"},
	{text: "[]", form: "%t", refused: "malformed time", why: "no time"},
	{text: "", form: "$time_iso8601", refused: "malformed time", why: "no time"},
	{text: "2026-13-45T99:99:99Z", form: "json:", refused: "malformed time", why: "no date"},
	{text: "00/Jan/1900:00:00:00", form: "%{%d/%b/%Y:%T}t", refused: "malformed time", why: "no day 0"},
	{text: "0000-12-30 00:00:00", form: "%{%F %T}t", refused: "malformed time", why: "no year of ours"},
	{text: "123456789", form: "%{sec}t", refused: "malformed time", why: "1973: a count of something else"},
	{text: "9999999999999999999999", form: "%{sec}t", refused: "malformed time", why: "beyond all times"},
	{text: "29/Nov/20261:12:39:01", form: "%{%d/%b/%Y:%T}t", refused: "malformed time", why: "no year of ours"},
}

// read reads a text in the datedText's form.
func (d *datedText) read(text string, o Options) (time.Time, error) {
	if d.utc {
		o.Zone = time.UTC
	}
	var f Format
	var err error
	line := `192.0.2.1 "` + text + `"`
	if form, ok := strings.CutPrefix(d.form, "json:"); ok {
		f, err = NewJSON(JSONFields{Peer: "a", Time: "t", TimeForm: form})
		line = fmt.Sprintf(`{"a":"192.0.2.1","t":%q}`, text)
	} else if strings.HasPrefix(d.form, "$") {
		f, err = New(`$remote_addr "`+d.form+`"`, o)
	} else {
		f, err = New(`%h "`+d.form+`"`, o)
	}
	if err != nil {
		return time.Time{}, err
	}
	var ev Event
	err = f.Parse([]byte(line), false, &ev)
	return time.Unix(0, ev.Time).UTC(), err
}

// Collected timestamps: each is read as the instant it means, in the form that
// a user would give, or refused for a reason; and no other form reads it as
// another instant.
func TestCollectedDates(t *testing.T) {
	forms := map[string]*datedText{}
	for i := range collectedDates {
		forms[collectedDates[i].text] = &collectedDates[i]
	}
	read, refused := 0, 0
	for _, line := range readLines(t, filepath.Join(corpus.Path(t, "corpus", "dates"), "dates.jsonl")) {
		var d struct {
			Text, Zone, Note string
			Now              time.Time
			UTC              *time.Time
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(d.Zone)
		if err != nil {
			t.Skipf("no time zone data: %v", err)
		}
		o := Options{Zone: zone, Now: d.Now}
		right := func(at time.Time) bool {
			// The collection has microseconds.
			return d.UTC != nil && at.Truncate(time.Microsecond).Equal(*d.UTC)
		}
		form := forms[d.Text]
		if form == nil {
			t.Errorf("%q is not in the list", d.Text)
			continue
		}
		at, err := form.read(d.Text, o)
		switch {
		case form.refused != "":
			refused++
			if err == nil || !strings.HasSuffix(err.Error(), form.refused) {
				t.Errorf("%q as %s (%s): %v, %v, want %s", d.Text, form.form, form.why, at, err, form.refused)
			}
		case err != nil || !right(at):
			t.Errorf("%q as %s: %v, %v, want %v (%s)", d.Text, form.form, at, err, d.UTC, d.Note)
		default:
			read++
		}
		if strings.HasPrefix(d.Note, "nanoseconds") && at.Nanosecond() != 123456789 {
			t.Errorf("%q: %v", d.Text, at)
		}
		for i := range collectedDates {
			other := &collectedDates[i]
			if at, err := other.read(d.Text, o); err == nil && !right(at) {
				t.Errorf("%q as %s: %v, want %v or none", d.Text, other.form, at, d.UTC)
			}
		}
	}
	t.Logf("%d texts read, %d refused", read, refused)
}
