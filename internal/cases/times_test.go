package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/parser"
)

// event reads one line with the first log of a configuration.
func event(t *testing.T, conf, line string) (*config.Config, parser.Event) {
	t.Helper()
	c, err := config.Parse("jails.toml", []byte(conf), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Logs[0].Parser()
	if err != nil {
		t.Fatal(err)
	}
	var ev parser.Event
	if err := f.Parse([]byte(line), false, &ev); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return c, ev
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// Times are read to the last digit, and with their zone.
func nanosecondsAndZone(t *testing.T) {
	conf := failures("format = \"json\"\nfields = { peer = \"ip\", time = \"at\" }", "1")
	for written, want := range map[string]string{
		"2026-03-12T08:00:01.123456789Z": "2026-03-12T08:00:01.123456789Z",
		"2026-03-12T09:00:02.5+01:00":    "2026-03-12T08:00:02.5Z",
	} {
		if _, ev := event(t, conf, fmt.Sprintf(`{"ip":"203.0.113.7","at":%q}`, written)); clock(ev.Time) != want {
			t.Errorf("%s is read as %s", written, clock(ev.Time))
		}
	}
}

const denver = "format = '%h %l %u [%{%Y-%m-%d %H:%M:%S}t] \"%r\" %>s'\ntimezone = \"America/Denver\""

// A time without a zone has that of its log, and a ban begins when it is made.
func localTime(t *testing.T) {
	const line = `203.0.113.228 - - [2026-03-04 18:02:47] "POST /login HTTP/1.1" 401`
	c, ev := event(t, failures(denver, "0"), line)
	if got := clock(ev.Time); got != "2026-03-05T01:02:47Z" {
		t.Errorf("read as %s", got)
	}
	f, err := c.Logs[0].Parser()
	if err != nil {
		t.Fatal(err)
	}
	e := detector.NewEngine(detector.Options{Jails: c.Jails})
	now := ev.Time + int64(time.Second)
	v := e.Line(e.Log("a", f), []byte(line), false, detector.Line{}, now)
	if len(v.Decisions) != 1 || v.Decisions[0].Until != now+int64(time.Hour) {
		t.Errorf("decisions %+v, want one until an hour after %d", v.Decisions, now)
	}
	// Without a zone such a format is refused, and never taken for UTC.
	refuses(t, failures(strings.Split(denver, "\n")[0], "0"), `jails.toml:4: logs.a.format = "%h %l %u [%{%Y-%m-%d %H:%M:%S}t] \"%r\" %>s": %{%Y-%m-%d %H:%M:%S}t: this time has no offset from UTC; add %z to it, or set the log's timezone`)
}

// When the clocks are set back, the lines go on where they were.
func clockSetBack(t *testing.T) {
	var b strings.Builder
	for _, at := range []string{"2026-11-01 01:59:50", "2026-11-01 01:00:10", "2026-11-01 01:00:12"} {
		fmt.Fprintf(&b, "203.0.113.13 - - [%s] \"POST /login HTTP/1.1\" 401\n", at)
	}
	o := run(t, failures(denver, "2"), b.String())
	o.wants(t, "203.0.113.13/32")
}

// A long request is logged at its end with the time of its beginning.
func lateLine(t *testing.T) {
	line := func(at string) string {
		return `203.0.113.114 - - [12/Mar/2026:` + at + ` +0200] "POST /login HTTP/1.1" 401 1 "-" "x"` + "\n"
	}
	o := run(t, failures("", "2"), line("00:04:50")+line("00:05:20")+line("00:00:22"))
	o.wants(t, "203.0.113.114/32")
	if len(o.warnings) > 0 {
		t.Errorf("warnings %q", o.warnings)
	}
}

// The day stands where the format says.
func dayBeforeMonth(t *testing.T) {
	conf := failures("format = '%h %l %u [%{%d.%m.%Y, %H:%M:%S}t] \"%r\" %>s'\ntimezone = \"Europe/Berlin\"", "0")
	if _, ev := event(t, conf, `203.0.113.167 - Dez [10.12.2026, 07:15:09] "GET / HTTP/1.1" 401`); clock(ev.Time) != "2026-12-10T06:15:09Z" {
		t.Errorf("read as %s", clock(ev.Time))
	}
}
