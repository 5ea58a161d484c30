package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/source"
)

// Two logs lead to one file: each line counts once, for the log that names it,
// and the other shows that. A reload that takes the file from that one gives it
// to the other, which goes on behind what was counted.
func TestOneFileOfTwoLogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	text := func(named string) string {
		all := filepath.Join(s.dir, "*.log")
		return fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n[logs.all]\nfiles = %q\n[logs.site]\nfiles = %q\n", s.state, s.runtime(), all, named) + enforced
	}
	l := newLive(t, s, text(s.log), nil)
	s.requests("203.0.113.1", 2)
	l.counted(2)
	wait(t, "the other log to say so", func() bool { return strings.Contains(problem(l.status(), "failing"), "read for log site") })
	st := l.status()
	if f := st.Logs[0].Files; len(f) != 1 || f[0].State != string(source.Refused) || f[0].Path != s.log || st.Logs[1].Lines != 2 {
		t.Errorf("logs %+v", st.Logs)
	}
	if l.firewall.holds("203.0.113.1/32") {
		t.Error("two requests were counted as three")
	}
	l.rewrite(text(filepath.Join(s.dir, "other.txt")))
	if _, err := l.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, "the other log to take it", func() bool { return l.status().Logs[0].Files[0].State == string(source.Following) })
	s.requests("203.0.113.1", 1)
	wait(t, "the ban", func() bool { return l.firewall.holds("203.0.113.1/32") })
	if got := l.status().Logs[0].Lines; got != 1 {
		t.Errorf("log all has %d lines, want the one since the reload", got)
	}
	l.stop()
}
