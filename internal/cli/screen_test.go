package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tailban/tailban/internal/words"
)

// onScreen returns what f writes on a screen of some width.
func onScreen(width int, color bool, f func(*screen)) string {
	var b bytes.Buffer
	s := &screen{w: bufio.NewWriter(&b), width: width, color: color}
	f(s)
	s.flush()
	return b.String()
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	const address = "2001:db8:1111:2222:3333:4444:5555:6666"
	full := &table{head: []string{"target", "jail", "path"}, shrink: []int{1, 2}}
	full.row(address, "a-jail-with-a-long-name", "/a/long/path/to/something/that/is/not/there")
	full.row("192.0.2.1", "web", "")
	full.note("a note stays as it is, however long it may be: it is a sentence, and a terminal folds it")
	for width, want := range map[int]string{
		0: `
  target                                  jail                     path
  2001:db8:1111:2222:3333:4444:5555:6666  a-jail-with-a-long-name  /a/long/path/to/something/that/is/not/there
  192.0.2.1                               web
    a note stays as it is, however long it may be: it is a sentence, and a terminal folds it
`,
		80: `
  target                                  jail                path
  2001:db8:1111:2222:3333:4444:5555:6666  a-jail-with-a-lon…  /a/long/path/to/s…
  192.0.2.1                               web
    a note stays as it is, however long it may be: it is a sentence, and a terminal folds it
`,
		// Too narrow: names go down to eight, and addresses stay.
		20: `
  target                                  jail      path
  2001:db8:1111:2222:3333:4444:5555:6666  a-jail-…  /a/long…
  192.0.2.1                               web
    a note stays as it is, however long it may be: it is a sentence, and a terminal folds it
`,
	} {
		if diff := cmp.Diff(want, "\n"+onScreen(width, false, full.write)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

// The usual tables fit into 80 columns. What is wrong is said in sentences, which a
// terminal folds.
func TestUsualWidth(t *testing.T) {
	t.Parallel()
	out := onScreen(80, false, func(s *screen) {
		status := busyStatus()
		status.Problems = nil
		showStatus(s, status)
		showBans(s, sampleBans())
		evidenceTable(bannedExplanation().Evidence).write(s)
	})
	for _, line := range strings.Split(out, "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("too wide: %s", line)
		}
	}
}

// Colours are added, and change nothing else: columns stay where they are.
func TestColors(t *testing.T) {
	t.Parallel()
	show := func(s *screen) {
		showStatus(s, busyStatus())
		showExplanation(s, bannedExplanation())
		showLine(s, sampleLine())
	}
	without, with := onScreen(80, false, show), onScreen(80, true, show)
	if strings.Contains(without, "\x1b") {
		t.Error("colours where there must be none")
	}
	if !strings.HasPrefix(with, "\x1b[31mnot healthy\x1b[m: ") || !strings.Contains(with, "\x1b[32mworks\x1b[m") {
		t.Errorf("no colours:\n%s", with)
	}
	for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[m"} {
		with = strings.ReplaceAll(with, code, "")
	}
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("colours change the text:\n%s", diff)
	}
}

// What is no terminal gets no colours, and as many columns as it takes.
func TestScreenOfAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if s := newScreen(&Process{Out: w}); s.color || s.width != 0 {
		t.Errorf("a pipe has colours: %v, and %d columns", s.color, s.width)
	}
	if s := newScreen(&Process{Out: w, Env: []string{"COLUMNS=120", "COLUMNS=90"}}); s.width != 90 {
		t.Errorf("COLUMNS is not heard: %d", s.width)
	}
}

// JSON stays JSON of the same value, whatever text is in it.
func FuzzWriteJSON(f *testing.F) {
	for _, s := range []string{"", "plain <b>", attack, "\x7f\u0085\u2028\ufeff", "\U000e0041 🦊", `\u001b \\`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		if err := writeJSON(&b, []string{s}); err != nil {
			t.Fatal(err)
		}
		checkHarmless(t, b.String())
		var back []string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatalf("%v in %q", err, b.String())
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back[0] != want {
			t.Errorf("%q became %q", s, back[0])
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	now := at(0)
	for d, want := range map[time.Duration][2]string{ // left, ago
		-time.Second:                          {"0s", "0s ago"},
		0:                                     {"0s", "0s ago"},
		59 * time.Second:                      {"59s", "59s ago"},
		time.Hour - time.Second:               {"59m59s", "59m ago"},
		25*time.Hour + 59*time.Minute:         {"1d1h", "1d ago"},
		3*time.Hour + 5*time.Minute + 1:       {"3h5m", "3h ago"},
		7 * 24 * time.Hour:                    {"1w", "1w ago"},
		400*24*time.Hour + 5*time.Hour:        {"400d", "400d ago"},
		1999*time.Millisecond + 0*time.Second: {"1s", "1s ago"},
	} {
		if got := left(now, now.Add(d)); got != want[0] {
			t.Errorf("left %v is %s, want %s", d, got, want[0])
		}
		if got := ago(now, now.Add(-d)); got != want[1] {
			t.Errorf("%v ago is %s, want %s", d, got, want[1])
		}
	}
	if got := ago(now, time.Time{}); got != "never" {
		t.Errorf("no time is %s", got)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want string }{
		{percent(0, 0), "-"},
		{percent(0, 5), "0.00 %"},
		{percent(1, 3), "33.33 %"},
		{percent(999_999_999, 1_000_000_000), "99.99 %"}, // not all of it
		{percent(5, 5), "100 %"},
		{percent(6, 5), "100 %"},
		{percent(1<<63, 1<<63+1), "99.99 %"},
		{sizeText(0), "0 B"},
		{sizeText(1023), "1023 B"},
		{sizeText(1024), "1.0 KiB"},
		{sizeText(64 << 20), "64.0 MiB"},
		{sizeText(1 << 60), "1048576.0 TiB"},
		{words.Thousands(-1234567), "-1,234,567"},
		{words.Thousands(-123), "-123"},
		{many(uint64(1), "ban"), "1 ban"},
		{many(1_000, "ban"), "1,000 bans"},
		{amount(2_048, "bytes"), "2.0 KiB"},
		{amount(2_048, "lines"), "2,048"},
		{inWindow(11, 60), "11 in 1m"},
		{inWindow(1, 0), "at first sight"},
		{stepsText(map[string]int{"counted": 3, "unparsed": 1_000, "b new": 2, "a new": 1, "denied": 0}), "1,000 unparsed, 3 counted, 1 a new, 2 b new"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
