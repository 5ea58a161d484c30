package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Offences are counted, and forgotten, by the times of the lines, and each
// decision tells the length of its own ban.
func TestLadder(t *testing.T) {
	var log bytes.Buffer
	start := time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC)
	for _, at := range []time.Duration{0, time.Hour, 7*time.Hour - time.Second, 7 * time.Hour, 31 * time.Hour, 54 * time.Hour, 79 * time.Hour} {
		fmt.Fprintf(&log, "203.0.113.9 - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", start.Add(at).Format("02/Jan/2006:15:04:05 -0700"))
	}
	cfg := parse(t, `
[logs.site]
files = "/a.log"
[jails.web]
limit = 0
window = "60s"
ban = ["1h", "6h", "23h"]
remember = "1d"
`)
	var got []string
	for _, d := range decisions(t, Options{Config: cfg, Files: []string{"-"}, In: &log}) {
		got = append(got, fmt.Sprintf("line %d: %d for %ds", d.Line, d.Offence, d.Ban))
	}
	want := "[line 1: 1 for 3600s line 2: 2 for 21600s line 4: 3 for 82800s line 5: 1 for 3600s line 6: 2 for 21600s line 7: 1 for 3600s]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

// One history for all jails, which counts as long as the top level says.
func TestSharedHistory(t *testing.T) {
	cfg := parse(t, `
shared_history = true
remember = "2h"
[logs.site]
files = "/a.log"
[defaults]
limit = 0
window = "60s"
ban = ["1m", "2m", "3m"]
[jails.a]
where = { path = "/a" }
[jails.b]
where = { path = "/b" }
`)
	var log bytes.Buffer
	start := time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC)
	for i, path := range []string{"a", "b", "a"} {
		at := start.Add(time.Duration(i*i) * time.Hour) // 10, 11 and 14 o'clock
		fmt.Fprintf(&log, "203.0.113.9 - - [%s] \"GET /%s HTTP/1.1\" 200 5 \"-\" \"x\"\n", at.Format("02/Jan/2006:15:04:05 -0700"), path)
	}
	got := ""
	for _, d := range decisions(t, Options{Config: cfg, Files: []string{"-"}, In: &log}) {
		got += fmt.Sprintf("%s: %d for %ds, ", d.Jail, d.Offence, d.Ban)
	}
	if want := "a: 1 for 60s, b: 2 for 120s, a: 1 for 60s, "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestHostNamesAreNotResolved(t *testing.T) {
	cfg := parse(t, "allow = [\"a.example\", \"B.example.\"]\n[logs.site]\nfiles = \"/a.log\"\n[jails.web]\nlimit = 0\nwindow = \"60s\"\nban = \"1h\"\n")
	var notes bytes.Buffer
	err := Run(context.Background(), Options{Config: cfg, Files: []string{"-"}, In: strings.NewReader(""), Out: io.Discard, Notes: &notes, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := notes.String(), "not resolved in a replay, so not allowed: a.example, b.example\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
