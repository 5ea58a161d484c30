package daemon

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/control"
)

const crossing = "crossed the limit"

// wantEvidence checks that there are so many lines, in the order of the log,
// and that only the last has crossed the limit.
func wantEvidence(t *testing.T, x *control.Explanation, n int) {
	t.Helper()
	if len(x.Evidence) != n {
		t.Fatalf("%d lines are shown, want %d: %+v", len(x.Evidence), n, x.Evidence)
	}
	for i, line := range x.Evidence {
		if last := i == n-1; (line.Step == crossing) != last || i > 0 && line.Offset <= x.Evidence[i-1].Offset {
			t.Errorf("line %d: %+v", i, line)
		}
	}
}

// The lines that led to a ban are looked up in the log, and show nothing that
// is the user's own.
func TestEvidence(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	s.write(line("203.0.113.1", time.Now().Add(-5*time.Minute))) // long before
	s.write(strings.Repeat(request("203.0.113.1", "POST", "/sign-in?password=secret"), 5), request("203.0.113.2", "GET", "/"))
	l.counted(7)
	x := l.explain("203.0.113.1")
	wantEvidence(t, x, 3) // the two after the ban led to nothing
	if e := x.Evidence[2]; e.Method != "POST" || e.Path != "/sign-in" || e.Status != 401 || e.Agent != "curl/8" || e.File != s.log ||
		e.Client.String() != "203.0.113.1" || strings.Join(e.Jails, " ") != "web" || e.Offset != x.Bans[0].Owners[0].Offset {
		t.Errorf("the crossing line: %+v", e)
	}
	if len(x.Seen) != 1 || x.Seen[0].Lines != 6 || x.Seen[0].Partial || x.Seen[0].Steps["counted"] != 6 || x.Seen[0].First.IsZero() {
		t.Errorf("seen %+v", x.Seen)
	}
	text, err := json.Marshal(x)
	check(t, err)
	for _, own := range []string{"secret", "password", "alice", "referer"} {
		if strings.Contains(string(text), own) {
			t.Errorf("%q is shown: %s", own, text)
		}
	}
	x = l.explain("203.0.113.2") // not banned: its latest lines
	if len(x.Evidence) != 1 || x.Evidence[0].Step != "counted" {
		t.Errorf("of who is not banned: %+v", x.Evidence)
	}
	l.stop()
}

// Two jails ban at one line, a third one line later: each line is shown once.
func TestEvidenceOfSeveralJails(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(`
[defaults]
window = "60s"
ban = "1h"
mode = "observe"
[jails.one]
limit = 2
[jails.two]
limit = 2
[jails.three]
limit = 3
[actions.firewall]
type = "log"
`), nil)
	s.requests("203.0.113.1", 4)
	l.counted(4)
	x := l.explain("203.0.113.1")
	var crossed, shown []int64
	for _, e := range x.Evidence {
		shown = append(shown, e.Offset)
		if e.Step == crossing {
			crossed = append(crossed, e.Offset)
		}
	}
	if len(shown) != 4 || len(crossed) != 2 {
		t.Errorf("shown are lines at %v, of which those at %v crossed a limit; want four, of which two", shown, crossed)
	}
	l.stop()
}

// A log that was renamed is found by its inode, and no line is seen twice.
func TestEvidenceInARotatedFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	s.requests("203.0.113.1", 3)
	l.counted(3)
	check(t, os.Rename(s.log, s.log+".1"))
	check(t, os.WriteFile(s.log, nil, 0o644))
	s.requests("203.0.113.1", 2)
	l.counted(5)
	x := l.explain("203.0.113.1")
	wantEvidence(t, x, 3)
	if got := x.Evidence[2].File; got != s.log+".1" {
		t.Errorf("the crossing line is in %s", got)
	}
	if x.Seen[0].Lines != 5 {
		t.Errorf("%d lines were seen, want each of five once", x.Seen[0].Lines)
	}
	l.stop()
}

// Lines that can't be looked up any more are no reason not to answer.
func TestEvidenceThatIsGone(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, path string){
		"removed":   func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"truncated": func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) },
		"a pipe": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, unix.Mkfifo(path, 0o644))
		},
		"a folder": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Mkdir(path, 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			l := newLive(t, s, s.config(enforced), nil)
			s.requests("203.0.113.1", 3)
			l.counted(3)
			lose(t, s.log)
			x := l.explain("203.0.113.1")
			if x.Conclusion != control.Banned || len(x.Evidence) != 0 || len(x.Notes) != 1 ||
				!strings.Contains(x.Notes[0], s.log+", where 203.0.113.1 crossed the limit") || !strings.Contains(x.Notes[0], "is gone or compressed") {
				t.Errorf("%s, evidence %+v, notes %q", x.Conclusion, x.Evidence, x.Notes)
			}
			l.stop()
		})
	}
}

// A ban that only a state file knows, decided by a jail that is gone, at a
// line of a log that is gone.
func TestEvidenceOfTheForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(`
[jails.old]
limit = 2
window = "60s"
ban = "1h"
[actions.firewall]
type = "log"
`), nil)
	s.requests("203.0.113.1", 3)
	l.counted(3)
	check(t, os.Rename(s.log, s.log+".old"))
	l.stop()
	other := &siteFiles{t, s.dir, s.log + ".other", s.state}
	check(t, os.WriteFile(other.log, nil, 0o644))
	l = newLive(t, other, other.config(enforced), nil)
	if x := l.explain("203.0.113.1"); x.Conclusion != control.Banned || len(x.Evidence) != 0 {
		t.Errorf("%s, evidence %+v", x.Conclusion, x.Evidence)
	}
	l.stop()
}

// Several logs: what each shows, and the line that crossed in its own.
func TestEvidenceInSeveralLogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	second := s.dir + "/second.log"
	check(t, os.WriteFile(second, nil, 0o644))
	l := newLive(t, s, s.config("[logs.second]\nfiles = \""+second+"\"\n"+enforced), nil)
	wait(t, "both logs", func() bool { return len(l.journal.said("reading log")) == 2 })
	s.requests("203.0.113.1", 1)
	l.counted(1)
	other := &siteFiles{t, s.dir, second, s.state}
	other.requests("203.0.113.1", 2)
	l.counted(3)
	x := l.explain("203.0.113.1")
	if len(x.Seen) != 2 || x.Seen[0].Log != "site" || x.Seen[0].Lines != 1 || x.Seen[1].Log != "second" || x.Seen[1].Lines != 2 {
		t.Errorf("seen %+v", x.Seen)
	}
	wantEvidence(t, x, 2)
	if e := x.Evidence[1]; e.Log != "second" || e.File != second {
		t.Errorf("the crossing line: %+v", e)
	}
	l.stop()
}
