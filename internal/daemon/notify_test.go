package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/notify"
)

// inbox is an endpoint that keeps what it gets.
type inbox struct {
	*httptest.Server
	mu       sync.Mutex
	messages []notify.JSON
	answer   func(http.ResponseWriter, *http.Request) // instead of taking them; nil: all are taken
	asked    int
}

func newInbox(t *testing.T) *inbox {
	b := &inbox{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		answer := b.answer
		b.asked++
		b.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		var m notify.JSON
		if err != nil || json.Unmarshal(body, &m) != nil {
			t.Errorf("%v: %s", err, body)
		}
		b.mu.Lock()
		if !slices.ContainsFunc(b.messages, func(x notify.JSON) bool { return x.ID == m.ID }) {
			b.messages = append(b.messages, m)
		}
		b.mu.Unlock()
	}))
	t.Cleanup(b.Close)
	return b
}

// told lists what has been told, as "KIND TARGET".
func (b *inbox) told() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		for _, e := range m.Events {
			all = append(all, strings.TrimSpace(string(e.Kind)+" "+e.Target))
		}
	}
	return all
}

func (b *inbox) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// table is one that posts there, with more keys.
func (b *inbox) table(name, more string) string {
	return fmt.Sprintf("[notify.%s]\nurl = %q\ninterval = \"1s\"\n%s\n", name, b.URL+"/x", more)
}

// A ban, what is done by hand and an action's failure are told; another start
// tells nothing of what is as it was.
func TestNotifications(t *testing.T) {
	t.Parallel()
	b, s := newInbox(t), newSite(t, t.TempDir())
	text := s.config(enforced) + b.table("ops", "") + b.table("quiet", `events = ["reload"]`)
	l := newLive(t, s, text, nil)
	s.write(fmt.Sprintf("203.0.113.7 - - [%s] \"GET /secret-path?token=1 HTTP/1.1\" 200 5 \"-\" \"evil-agent\"\n", time.Now().Format("02/Jan/2006:15:04:05 -0700")))
	s.requests("203.0.113.7", 2)
	wait(t, "the ban to be told", func() bool { return slices.Contains(b.told(), "ban 203.0.113.7/32") })
	b.mu.Lock()
	m := b.messages[0]
	b.mu.Unlock()
	if e := m.Events[0]; m.Host != "here" || m.Notifier != "ops" || e.Jail != "web" || e.Count != 3 || e.Window != 60 || e.Until.IsZero() {
		t.Errorf("told: %+v", m)
	}
	if text := fmt.Sprintf("%+v", m); strings.Contains(text, "secret-path") || strings.Contains(text, "evil-agent") {
		t.Errorf("what strangers wrote is told: %s", text)
	}
	_, err := l.client.Unban(t.Context(), control.UnbanRequest{Target: pfx("203.0.113.7/32"), Reason: "known"})
	check(t, err)
	l.firewall.set(func(f *fakeFirewall) { f.err = errors.New("broken") })
	s.requests("203.0.113.8", 3)
	wait(t, "the failure to be told", func() bool { return slices.Contains(b.told(), "alarm") })
	l.firewall.set(func(f *fakeFirewall) { f.err = nil })
	wait(t, "the end of it to be told", func() bool { return slices.Contains(b.told(), "recover") })
	for _, want := range []string{"unban 203.0.113.7/32", "ban 203.0.113.8/32"} {
		if !slices.Contains(b.told(), want) {
			t.Errorf("%q is not told: %v", want, b.told())
		}
	}
	st, err := l.client.Status(t.Context())
	check(t, err)
	if len(st.Notify) != 2 || st.Notify[0].Name != "ops" || st.Notify[0].Sent == 0 || st.Notify[0].Failing || st.Notify[1].Sent != 0 || !st.Healthy {
		t.Errorf("status: %+v, problems %v", st.Notify, st.Problems)
	}
	l.stop()

	before := b.requests()
	l = newLive(t, s, text, nil)
	wait(t, "the ban to be back", func() bool { return l.firewall.holds("203.0.113.8/32") })
	s.requests("203.0.113.9", 3)
	wait(t, "the next ban to be told", func() bool { return slices.Contains(b.told(), "ban 203.0.113.9/32") })
	l.stop()
	if got := b.requests() - before; got != 1 {
		t.Errorf("%d messages after another start, want that of the new ban: %v", got, b.told())
	}
	if n := count(b.told(), "ban 203.0.113.8/32"); n != 1 {
		t.Errorf("the ban from before is told %d times", n)
	}
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

// An alarm is told once, however often the daemon starts and the configuration is
// read, and its end is told, too, whoever finds it over.
func TestAlarmsAreToldOnce(t *testing.T) {
	t.Parallel()
	b, s := newInbox(t), newSite(t, t.TempDir())
	text := s.config(enforced) + b.table("ops", `events = ["alarm", "recover"]`)
	broken := func(f *fakeFirewall) { f.err = errors.New("broken") }
	unparsed := strings.Repeat("what is this?\n", 150)

	start := func(err error) *live {
		firewall := &fakeFirewall{bans: map[netip.Prefix]time.Time{}, err: err}
		l := newLiveWith(t, s, text, map[string]actions.Action{"firewall": firewall}, nil)
		l.firewall = firewall
		return l
	}
	failing := func(l *live) {
		t.Helper()
		wait(t, "the action to fail", func() bool {
			st, err := l.client.Status(t.Context())
			return err == nil && len(st.Actions) == 1 && st.Actions[0].Failing
		})
	}
	told := func(want ...string) {
		t.Helper()
		wait(t, "what is told", func() bool { return len(b.told()) >= len(want) })
		if got := b.told(); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	}

	l := start(nil)
	l.firewall.set(broken)
	s.requests("203.0.113.1", 3)
	failing(l)
	s.write(unparsed)
	wait(t, "the log to be blind", func() bool { st, err := l.client.Status(t.Context()); return err == nil && st.Logs[0].Blind })
	told("alarm", "alarm")
	l.stop()

	l = start(errors.New("broken"))
	failing(l)
	s.write(unparsed)
	wait(t, "the log to be blind", func() bool { st, err := l.client.Status(t.Context()); return err == nil && st.Logs[0].Blind })
	l.stop() // which tells all there is
	told("alarm", "alarm")

	l = start(nil)
	told("alarm", "alarm", "recover") // of the action
	s.write(strings.Repeat(line("203.0.113.2", time.Now().Add(-time.Hour)), 150))
	l.counted(150)
	_, err := l.client.Status(t.Context())
	check(t, err)
	told("alarm", "alarm", "recover", "recover")
	l.stop()

	l = start(nil)
	l.firewall.set(broken)
	s.requests("203.0.113.3", 3)
	told("alarm", "alarm", "recover", "recover", "alarm")
	l.stop()
}

// A notifier that a reload mends tells what the one before could not.
func TestReloadMendsNotifier(t *testing.T) {
	t.Parallel()
	bad, good, s := newInbox(t), newInbox(t), newSite(t, t.TempDir())
	bad.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	l := newLive(t, s, s.config(enforced)+bad.table("ops", ""), nil)
	s.requests("203.0.113.1", 3)
	wait(t, "the notifier to fail", func() bool { st, err := l.client.Status(t.Context()); return err == nil && st.Notify[0].Failing })
	l.rewrite(s.config(enforced) + good.table("ops", ""))
	_, err := l.client.Reload(t.Context())
	check(t, err)
	wait(t, "what waited to be told", func() bool { return slices.Equal(good.told(), []string{"ban 203.0.113.1/32"}) })

	// One that is gone says what it leaves.
	l.rewrite(s.config(enforced) + bad.table("ops", ""))
	_, err = l.client.Reload(t.Context())
	check(t, err)
	s.requests("203.0.113.2", 3)
	wait(t, "the notifier to fail", func() bool { st, err := l.client.Status(t.Context()); return err == nil && st.Notify[0].Failing })
	l.rewrite(s.config(enforced))
	_, err = l.client.Reload(t.Context())
	check(t, err)
	wait(t, "that to be said", func() bool { return len(l.journal.said("events were not told", "events", 1)) == 1 })
	l.stop()
}

// What has been told before a crash is not told again, though its lines are read
// again.
func TestCrashTellsNothingTwice(t *testing.T) {
	t.Parallel()
	b, s := newInbox(t), newSite(t, t.TempDir())
	text := s.config(logOnly) + b.table("ops", "")
	c := s.process(text, time.Hour)
	wait(t, "the log to be read", func() bool { return len(c.journal.said("reading log")) > 0 })
	for i := range 5 {
		s.requests(fmt.Sprintf("203.0.113.%d", i), 3)
	}
	wait(t, "the bans to be told", func() bool { return len(b.told()) == 5 })
	check(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
	c.ended = true
	c = s.process(text, time.Hour)
	wait(t, "the log to be read", func() bool { return len(c.journal.said("reading log")) > 0 })
	s.requests("203.0.113.99", 3)
	wait(t, "the next ban to be told", func() bool { return slices.Contains(b.told(), "ban 203.0.113.99/32") })
	c.stop()
	if got := b.told(); len(got) != 6 {
		t.Errorf("told: %v", got)
	}
}

// Whoever doesn't answer, or not well, costs nobody else anything: not bans, not
// the other notifiers, not the stop.
func TestBadEndpointsAreTheirOwnProblem(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	good, slow, resets, redirects := newInbox(t), newInbox(t), newInbox(t), newInbox(t)
	slow.answer = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}
	resets.answer = func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	redirects.answer = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good.URL, http.StatusFound) }
	s := newSite(t, t.TempDir())
	text := s.config(enforced)
	for name, b := range map[string]*inbox{"good": good, "slow": slow, "resets": resets, "redirects": redirects} {
		text += b.table(name, "")
	}
	text += "[notify.gone]\nurl_file = \"/nowhere/url\"\n"
	l := newLive(t, s, text, nil)
	for i := range 50 {
		s.requests(fmt.Sprintf("203.0.113.%d", i), 3)
	}
	wait(t, "the bans", func() bool { return l.firewall.holds("203.0.113.49/32") })
	wait(t, "the bans to be told", func() bool { return len(good.told()) > 0 })
	var st *control.Status
	wait(t, "the others to fail", func() bool {
		var err error
		st, err = l.client.Status(t.Context())
		check(t, err)
		failing := 0
		for _, n := range st.Notify {
			if n.Failing {
				failing++
			}
		}
		return failing == 3 && slow.requests() > 0 // which is still hanging
	})
	if !st.Healthy {
		t.Errorf("problems: %v", st.Problems)
	}
	for _, n := range st.Notify {
		want, bad := map[string]string{"resets": "EOF", "redirects": "redirects are not followed", "gone": "/nowhere/url"}[n.Name]
		if n.Failing != bad || !strings.Contains(n.Err, want) || strings.Contains(n.Err, "/x") {
			t.Errorf("%s: %q, want %q", n.Name, n.Err, want)
		}
		if n.Failing && n.Waiting < 50 {
			t.Errorf("%s: %d events wait", n.Name, n.Waiting)
		}
	}
	begin := time.Now()
	l.stop()
	if took := time.Since(begin); took > notifyPatience {
		t.Errorf("the stop took %v", took)
	}
	l.journal.want(t, 0, "going on without what hangs")
}

// A reload begins, changes and ends the telling; who stays as they are goes on.
func TestReloadOfNotifiers(t *testing.T) {
	t.Parallel()
	first, second, s := newInbox(t), newInbox(t), newSite(t, t.TempDir())
	stays := first.table("stays", `events = ["ban"]`)
	l := newLive(t, s, s.config(enforced)+stays, nil)
	reload := func(more string) *control.ReloadResult {
		t.Helper()
		l.rewrite(s.config(enforced) + stays + more)
		r, err := l.client.Reload(t.Context())
		check(t, err)
		return r
	}
	kept := l.d.notifiers[0]
	file := filepath.Join(s.dir, "the-address-to-post-to-is-in-this-file") // too long to be shown
	check(t, os.WriteFile(file, []byte(second.URL+"\n"), 0o600))
	if r := reload(fmt.Sprintf("[notify.new]\nurl_file = %q\ninterval = \"1s\"\n", file)); !slices.Equal(r.Changes, []string{"notify.new: new"}) {
		t.Errorf("changes: %q", r.Changes)
	}
	s.requests("203.0.113.1", 3)
	wait(t, "both to be told", func() bool { return len(first.told()) == 1 && len(second.told()) == 1 })
	if r := reload(second.table("new", "")); !slices.Equal(r.Changes, []string{"notify.new: url_file changed, url changed"}) {
		t.Errorf("changes: %q", r.Changes)
	}
	s.requests("203.0.113.2", 3)
	wait(t, "both to be told", func() bool { return len(first.told()) == 2 && len(second.told()) == 2 })
	s.requests("203.0.113.3", 3)
	wait(t, "the third ban", func() bool { return l.firewall.holds("203.0.113.3/32") })
	reload("") // what it has not told yet, it tells at its end
	wait(t, "the third to be told", func() bool { return len(first.told()) == 3 && len(second.told()) == 3 })
	s.requests("203.0.113.4", 3)
	wait(t, "the fourth to be told", func() bool { return len(first.told()) == 4 })
	if got := second.told(); len(got) != 3 {
		t.Errorf("told after its end: %v", got)
	}
	if l.d.notifiers[0] != kept {
		t.Error("who stays has been begun anew")
	}
	l.stop()
}
