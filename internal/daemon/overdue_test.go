package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

// A ban that is over and that its action can't take out is a problem, an alarm,
// and in what is said of the address, until it is out.
func TestOverdueBanIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	stuck := filepath.Join(s.dir, "stuck")
	check(t, os.WriteFile(stuck, nil, 0o600))
	l := newLiveWith(t, s, s.config(`
[jails.web]
limit = 0
window = "60s"
ban = "1s"
[actions.router]
type = "command"
ban = ["/bin/true"]
unban = ["/bin/sh", "-c", "test ! -e `+stuck+` || exec sh -c 'echo busy; exit 4'"]
`), nil, nil)
	events, err := l.client.Follow(t.Context())
	check(t, err)
	next := func(kind string) string {
		t.Helper()
		for ev := range events {
			if ev.Kind == kind {
				return ev.Reason
			}
		}
		t.Fatal("no more events")
		return ""
	}
	s.requests("203.0.113.1", 1)
	const why = "unban 203.0.113.1/32: /bin/sh: exit status 4: busy"
	if got, want := next("alarm"), "action router: 1 ban is over, and can't be taken out: "+why; got != want {
		t.Errorf("the alarm is %q, want %q", got, want)
	}
	st := l.status()
	if a := &st.Actions[0]; a.Failing || a.Programs == nil || a.Programs.Runs < 2 || a.Programs.Failures < 1 || a.Overdue != 1 || a.OverdueErr != why || a.OverdueSince.IsZero() {
		t.Errorf("the action is shown as %+v", a)
	}
	if len(st.Problems) != 1 || st.Healthy || st.Problems[0].Kind != "overdue" || st.Problems[0].Where != "action router" ||
		st.Problems[0].Text != "1 ban is over, and can't be taken out: "+why || st.Problems[0].Since.IsZero() {
		t.Errorf("problems are %+v", st.Problems)
	}
	const holds = "; but action router still holds 203.0.113.1, a ban that is over, as it can't be taken out: /bin/sh: exit status 4: busy"
	if x := l.explain("203.0.113.1"); x.Conclusion == control.Banned || !strings.HasSuffix(x.Text, holds) ||
		len(x.Overdue) != 1 || x.Overdue[0].Action != "router" || x.Overdue[0].Target != pfx("203.0.113.1/32") {
		t.Errorf("explained as %s: %q, %+v", x.Conclusion, x.Text, x.Overdue)
	}
	if x := l.explain("203.0.113.2"); strings.Contains(x.Text, "router") || len(x.Overdue) != 0 {
		t.Errorf("another address is explained as %q", x.Text)
	}
	check(t, os.Remove(stuck))
	if got := next("recover"); got != "action router: no ban is enforced beyond its end any longer" {
		t.Errorf("recovered with %q", got)
	}
	if st := l.status(); !st.Healthy || st.Actions[0].Overdue != 0 {
		t.Errorf("problems are %+v", st.Problems)
	}
	if x := l.explain("203.0.113.1"); strings.Contains(x.Text, "router") {
		t.Errorf("explained as %q", x.Text)
	}
}

// What can't be taken out is overdue after a reload that changes the action, too:
// it is tried again, and over when that succeeds.
func TestOverdueBanOutlivesReload(t *testing.T) {
	t.Parallel()
	f, b, s := newFolder(t), newInbox(t), newSite(t, t.TempDir())
	f.program("unban", "exit 4")
	text := func(keys ...string) string {
		return strings.Replace(atFirst, "1h", "1s", 1) + f.action("f", nil, keys...) + b.table("ops", "")
	}
	r := newReloadableAt(t, s, s.config(text()))
	status := func() *control.Status {
		st, err := r.client.Status(t.Context())
		check(t, err)
		return st
	}
	r.requests("198.51.100.1", 1)
	wait(t, "the alarm", func() bool { return countOf(b, "alarm") == 1 })
	for _, timeout := range []string{"8s", "9s"} {
		r.reload(text(`timeout = "` + timeout + `"`))
		pass := status().Actions[0].LastPass
		wait(t, "another comparison", func() bool { now := status().Actions[0].LastPass; return !now.IsZero() && now.After(pass) })
		if st := status(); st.Healthy || st.Actions[0].Overdue != 1 || !f.holds("198.51.100.1") {
			t.Errorf("timeout %s: healthy %t, %+v", timeout, st.Healthy, st.Actions[0])
		}
	}
	if told := r.journal.said("no ban is enforced beyond its end any longer"); len(told) > 0 || countOf(b, "recover") > 0 {
		t.Errorf("said %v, told %v", told, b.told())
	}
	f.program("unban", `rm -f "$1/$2"`)
	wait(t, "its end", func() bool { return countOf(b, "recover") == 1 && status().Healthy })
	r.stop()
}
