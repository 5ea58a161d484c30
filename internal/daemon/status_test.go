package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
)

// wantProblems checks kinds and places, in order.
func wantProblems(t *testing.T, s *control.Status, want ...string) {
	t.Helper()
	got := []string{}
	for _, p := range s.Problems {
		got = append(got, p.Kind+" "+p.Where)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") || s.Healthy != (len(want) == 0) {
		t.Errorf("healthy: %v, problems %q, want %q", s.Healthy, s.Problems, want)
	}
}

func problem(s *control.Status, kind string) string {
	for _, p := range s.Problems {
		if p.Kind == kind {
			return p.Text
		}
	}
	return ""
}

// What is counted, from the lines to the kernel.
func TestStatusCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced+`
[deny]
agents = ["sqlmap"]
ban = "1d"
`), func(o *Options) { o.Version = "1.2.3" })
	wantProblems(t, l.status())
	s.requests("203.0.113.1", 5)
	s.requests("127.0.0.1", 3)
	s.requests("203.0.113.3", 1)
	s.write(strings.ReplaceAll(line("203.0.113.2", time.Now()), `"x"`, `"sqlmap"`), "garbage\n")
	s.write(line("203.0.113.4", time.Now()), line("203.0.113.4", time.Now().Add(-time.Hour)))
	l.counted(13)
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.1/32") && l.firewall.holds("203.0.113.2/32") })
	st := l.status()
	wantProblems(t, st)
	if st.Version != "1.2.3" || st.PID != os.Getpid() || st.Bans != 2 || st.Started.IsZero() || st.Now.Before(st.Started) || st.Config.Path != l.path {
		t.Errorf("%+v", st)
	}
	if len(st.Jails) != 2 {
		t.Fatalf("jails %+v", st.Jails)
	}
	web, deny := st.Jails[0], st.Jails[1]
	if web.Name != "web" || web.Mode != control.ModeEnforce || web.Limit != 2 || web.Window != 60 || web.Matched == 0 || web.Decisions != 2 || web.Refused != 1 || web.Bans != 1 || web.LastBan.IsZero() || fmt.Sprint(web.Ban, web.Actions, web.Logs) != "[3600] [firewall] [site]" {
		t.Errorf("web: %+v", web)
	}
	if deny.Name != detector.DenyName || deny.Decisions != 1 || deny.Refused != 0 || deny.Bans != 1 {
		t.Errorf("deny: %+v", deny)
	}
	log := st.Logs[0]
	if log.Lines != 13 || log.Unparsed != 1 || log.Late != 1 || log.Bytes == 0 || log.Behind != 0 || log.Blind || log.Format != "combined" || log.LastLine.IsZero() || log.LastEvent.IsZero() {
		t.Errorf("log: %+v", log)
	}
	steps := uint64(0)
	for _, n := range log.Steps {
		steps += n
	}
	if steps != 13 || log.Steps[detector.StepBanned.String()] != 2 {
		t.Errorf("steps %v, want 13 lines in all, two of them of who is banned", log.Steps)
	}
	if len(log.Files) != 1 || log.Files[0].Path != s.log || log.Files[0].State != string(source.Following) || log.Files[0].Offset != int64(log.Bytes) {
		t.Errorf("files %+v", log.Files)
	}
	if len(st.Actions) != 1 || st.Actions[0].Name != "firewall" || st.Actions[0].Desired != 2 || st.Actions[0].Failing || st.Actions[0].LastPass.IsZero() {
		t.Errorf("actions %+v", st.Actions)
	}
	used := map[string]int64{}
	for _, b := range st.Budgets {
		used[b.Name] = b.Used
		if b.Limit <= 0 || b.Unit == "" {
			t.Errorf("budget %+v", b)
		}
	}
	if len(used) != 4 || used["bans"] != 2 || used["offences"] != 2 || used["memory of windows"] == 0 || used["pardons"] != 0 {
		t.Errorf("budgets %v", used)
	}
	l.stop()
}

// Everything wrong at once is told, the worst first.
func TestEveryProblem(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, unix.Mkfifo(s.log+".pipe", 0o600))
	check(t, os.WriteFile(s.state, nil, 0o600)) // where the folder should be
	text := "max_bans = 1\n" + strings.Replace(s.config(enforced), `access.log"`, `access.log*"`, 1)
	l := newLive(t, s, text, func(o *Options) { o.Source.LastGood, o.Source.Problems = true, []string{"jails.toml:1: bad"} })
	l.firewall.set(func(f *fakeFirewall) { f.err = errors.New("no table") })
	s.requests("203.0.113.1", 3)
	s.write(strings.Repeat("garbage\n", enoughLines+10))
	l.counted(3 + enoughLines + 10)
	_, err := l.client.Hold(t.Context(), control.HoldRequest{Jail: "web", For: 3600, Reason: "release"})
	check(t, err)
	wait(t, "both to fail", func() bool { return strings.Count(fmt.Sprint(l.status().Problems), "{failing") == 3 })
	st := l.status()
	wantProblems(t, st, "failing state file", "failing action firewall", "failing log site", "blind log site", "config "+l.path, "held jail web", "full bans")
	for kind, text := range map[string]string{
		"blind": "most lines don't parse as combined", "held": "it only observes, until 20", "full": "1 of 1 targets are used", "config": "see tailban check",
	} {
		if got := problem(st, kind); !strings.Contains(got, text) {
			t.Errorf("%s: %q, want …%s…", kind, got, text)
		}
	}
	if got := st.Problems[1]; !strings.Contains(got.Text, "no table") || got.Since.IsZero() {
		t.Errorf("of the action: %+v", got)
	}
	if got := st.Problems[2].Text; got != s.log+".pipe can't be read: not a regular file but a named pipe" {
		t.Errorf("of the log: %q", got)
	}
	if h := st.Jails[0].Held; h == nil || h.Reason != "release" || h.By == "" || st.Jails[0].Mode != control.ModeHeld {
		t.Errorf("the jail: %+v", st.Jails[0])
	}
	if len(st.Config.Problems) != 1 {
		t.Errorf("the configuration: %+v", st.Config)
	}

	// And each ends.
	l.firewall.set(func(f *fakeFirewall) { f.err = nil })
	check(t, os.Remove(s.log+".pipe"))
	check(t, os.Remove(s.state))
	s.requests("203.0.113.7", 2*enoughLines)
	_, err = l.client.Unban(t.Context(), control.UnbanRequest{All: true})
	check(t, err)
	_, err = l.client.Hold(t.Context(), control.HoldRequest{Jail: "web", Resume: true})
	check(t, err)
	_, err = l.client.Reload(t.Context())
	check(t, err)
	wait(t, "health", func() bool {
		if l.status().Healthy {
			return true
		}
		_, err := l.client.Unban(t.Context(), control.UnbanRequest{All: true}) // as the lines come
		return err != nil
	})
	l.stop()
}

func TestJudge(t *testing.T) {
	following := []control.FileStatus{{State: string(source.Following)}}
	good := func() *control.Status {
		return &control.Status{
			Problems: []control.Problem{},
			Logs:     []control.LogStatus{{Name: "site", Format: "nginx", Files: following}},
			Actions:  []control.ActionStatus{{Name: "firewall", Since: time.Unix(1, 0)}},
			Jails:    []control.JailStatus{{Name: "web", Mode: control.ModeObserve}},
			Budgets:  []control.Budget{{Name: "bans", Unit: "targets", Used: 9, Limit: 10}},
		}
	}
	for name, c := range map[string]struct {
		change func(*control.Status)
		want   []string
	}{
		"nothing":         {func(*control.Status) {}, nil},
		"renamed is read": {func(s *control.Status) { s.Logs[0].Files = []control.FileStatus{{State: string(source.Renamed)}} }, nil},
		"deleted is read": {func(s *control.Status) { s.Logs[0].Files = []control.FileStatus{{State: string(source.Deleted)}} }, nil},
		"no file":         {func(s *control.Status) { s.Logs[0].Files = nil }, []string{"blind log site"}},
		"waiting":         {func(s *control.Status) { s.Logs[0].Files = []control.FileStatus{{State: string(source.Waiting)}} }, []string{"blind log site"}},
		"one of two waits": {func(s *control.Status) {
			s.Logs[0].Files = append([]control.FileStatus{{State: string(source.Waiting)}}, following...)
		}, nil},
		"many that fail alike": {func(s *control.Status) {
			for _, f := range []struct{ path, err string }{{"a", "too many open files"}, {"b", "too many open files"}, {"c", "permission denied"}, {"d", "too many open files"}} {
				s.Logs[0].Files = append(s.Logs[0].Files, control.FileStatus{Path: f.path, State: string(source.Failing), Err: f.err})
			}
		}, []string{"failing log site", "failing log site"}},
		"a little behind":    {func(s *control.Status) { s.Logs[0].Behind = farBehind - 1 }, nil},
		"behind":             {func(s *control.Status) { s.Logs[0].Behind = farBehind }, []string{"behind log site"}},
		"full":               {func(s *control.Status) { s.Budgets[0].Used = 10 }, []string{"full bans"}},
		"blind comes before": {func(s *control.Status) { s.Logs[0].Behind, s.Logs[0].Blind = farBehind, true }, []string{"blind log site", "behind log site"}},
		"last good":          {func(s *control.Status) { s.Config.LastGood, s.Config.Path = true, "jails.toml" }, []string{"config jails.toml"}},
	} {
		s := good()
		c.change(s)
		judge(s, nil, nil)
		t.Run(name, func(t *testing.T) { wantProblems(t, s, c.want...) })
	}
}

// What is no file is not spoken of as one, and trouble that is told is not told
// twice.
func TestJudgeWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		file   control.FileStatus
		stream bool
		want   string // the only problem's text; "": none
	}{
		"a file that fails":   {control.FileStatus{Path: "/l/a", State: string(source.Failing), Err: "permission denied"}, false, "/l/a can't be read: permission denied"},
		"a file that waits":   {control.FileStatus{Path: "/l/a", State: string(source.Waiting)}, false, "there is no file to read"},
		"a stream":            {control.FileStatus{Path: "stdin", State: string(source.Following)}, true, ""},
		"a stream that fails": {control.FileStatus{Path: "journal:x.service", State: string(source.Failing), Err: "no journalctl"}, true, "journal:x.service can't be read: no journalctl"},
		"a pipe that waits":   {control.FileStatus{Path: "fifo:/p", State: string(source.Waiting), Err: "open: no such file or directory"}, true, "fifo:/p isn't there yet: open: no such file or directory"},
		"a stream that ended": {control.FileStatus{Path: "stdin", State: string(source.Ended)}, true, "stdin has ended, no more lines will come"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &control.Status{Logs: []control.LogStatus{{Name: "u", Files: []control.FileStatus{c.file}}}}
			judge(s, nil, map[string]bool{"u": c.stream})
			switch {
			case c.want == "" && len(s.Problems) > 0:
				t.Errorf("got %+v, want none", s.Problems)
			case c.want != "" && (len(s.Problems) != 1 || s.Problems[0].Text != c.want):
				t.Errorf("got %+v, want %q", s.Problems, c.want)
			}
		})
	}
}
