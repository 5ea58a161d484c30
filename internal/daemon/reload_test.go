package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// reloadable is a daemon that reads its configuration from a file.
type reloadable struct {
	*siteFiles
	*running
	path   string
	client *control.Client
}

func newReloadableAt(t *testing.T, s *siteFiles, text string) *reloadable {
	return startReloadable(t, s, text, Run)
}

func startReloadable(t *testing.T, s *siteFiles, text string, run func(context.Context, Options) error) *reloadable {
	r := &reloadable{siteFiles: s, path: filepath.Join(s.dir, "jails.toml"), client: control.NewClient(s.runtime())}
	r.rewrite(text)
	r.running = s.start(text, func(ctx context.Context, o Options) error {
		o.Load = func() (*config.Config, error) { return config.Load(r.path, nil) }
		o.Source = control.ConfigStatus{Path: r.path}
		return run(ctx, o)
	})
	wait(t, "the log to be read, and reloads to be taken", func() bool {
		return len(r.journal.said("reading log")) > 0 && len(r.journal.said("running")) > 0
	})
	return r
}

func (r *reloadable) rewrite(text string) {
	r.siteFiles.Helper()
	check(r.siteFiles, os.WriteFile(r.path, []byte(text), 0o600))
}

// While lines stream in, the configuration is reloaded a hundred times. The
// jail that stays as it is bans at the very line at which it would have without
// that, whether the reading of the log went on or began anew each time.
func TestReloadUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const (
		reloads = 100
		limit   = 20_000
	)
	s := newSite(t, t.TempDir())
	text := func(i int) string {
		files := fmt.Sprintf("%q", s.log)
		if i%3 == 0 { // other files: the log is read anew
			files = fmt.Sprintf("[%q, %q]", s.log, filepath.Join(s.dir, "other.log"))
		}
		return fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n[logs.site]\nfiles = %s\n", s.state, s.runtime(), files) + fmt.Sprintf(`
[jails.steady]
limit = %d
window = "24h"
ban = "1h"
[jails.other]
limit = %d
window = "60s"
ban = "1h"
[actions.report]
type = "log"
`, limit, 50_000+i)
	}
	r := newReloadableAt(t, s, text(0))
	written := make(chan struct{})
	one := line("203.0.113.1", time.Now())
	go func() { // as fast as the reloads go on
		defer close(written)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for n := 0; n < limit; n += 20 {
			s.write(strings.Repeat(one, 20))
			<-tick.C
		}
	}()
	for i := 1; i <= reloads; i++ {
		r.rewrite(text(i))
		got, err := r.client.Reload(t.Context())
		check(t, err)
		if len(got.Changes) == 0 {
			t.Fatalf("reload %d changed nothing", i)
		}
	}
	<-written
	if n := len(r.journal.said("banned")); n != 0 {
		t.Fatalf("banned %d times at the limit", n)
	}
	s.write(one)
	wait(t, "the ban", func() bool { return len(r.journal.said("banned", "jail", "steady")) == 1 })
	r.journal.want(t, 1, "banned", "jail", "steady", "offset", float64(limit*len(one)))
	st, err := r.client.Status(t.Context())
	check(t, err)
	if st.Logs[0].Lines != limit+1 || st.Jails[0].Matched != limit+1 {
		t.Errorf("%d lines were counted, %d matched, want %d", st.Logs[0].Lines, st.Jails[0].Matched, limit+1)
	}
	r.stop()
}

// A file with problems changes nothing; the answer lists them.
func TestReloadOfABadFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(logOnly))
	s.requests("203.0.113.1", 2)
	r.rewrite(s.config(strings.Replace(logOnly, "limit = 2", "limits = 2", 1)))
	_, err := r.client.Reload(t.Context())
	refusedAs(t, err, control.CodeConfig, "nothing has changed")
	if e := err.(*control.Error); len(e.Problems) != 2 || !strings.Contains(e.Problems[0], "jails.toml:") {
		t.Errorf("problems: %q", e.Problems)
	}
	s.requests("203.0.113.1", 1)
	r.waitBanned("203.0.113.1")
	r.stop()
}

// A changed limit counts from the next line on, with what was counted before.
func TestReloadOfALimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(strings.Replace(logOnly, "limit = 2", "limit = 100", 1)))
	s.requests("203.0.113.1", 5)
	wait(t, "the lines to be counted", func() bool {
		st, err := r.client.Status(t.Context())
		return err == nil && st.Logs[0].Lines == 5
	})
	r.rewrite(s.config(logOnly))
	got, err := r.client.Reload(t.Context())
	check(t, err)
	if len(got.Changes) != 1 || got.Changes[0] != "jails.web: limit 100 → 2" {
		t.Errorf("changes: %q", got.Changes)
	}
	s.requests("203.0.113.1", 1)
	r.waitBanned("203.0.113.1")
	got, err = r.client.Reload(t.Context())
	check(t, err)
	if len(got.Changes) != 0 {
		t.Errorf("the same file again changes %q", got.Changes)
	}
	r.stop()
}

// Logs come and go.
func TestReloadOfLogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := newReloadableAt(t, s, s.config(logOnly))
	second := filepath.Join(s.dir, "second.log")
	check(t, os.WriteFile(second, nil, 0o644))
	r.rewrite(s.config(fmt.Sprintf("[logs.second]\nfiles = %q\n", second) + strings.Replace(logOnly, "[jails.web]", "[jails.web]\nlog = [\"site\", \"second\"]", 1)))
	_, err := r.client.Reload(t.Context())
	check(t, err)
	wait(t, "the second log to be read", func() bool { return len(r.journal.said("reading log", "log", "second")) > 0 })
	s.requests("203.0.113.1", 1)
	check(t, os.WriteFile(second, []byte(strings.Repeat(line("203.0.113.1", time.Now()), 2)), 0o644))
	r.waitBanned("203.0.113.1")

	r.rewrite(s.config(logOnly))
	got, err := r.client.Reload(t.Context())
	check(t, err)
	if strings.Join(got.Changes, ", ") != "logs.second: gone" {
		t.Errorf("changes: %q", got.Changes)
	}
	check(t, os.WriteFile(second, []byte(strings.Repeat(line("203.0.113.2", time.Now()), 9)), 0o644))
	s.requests("203.0.113.3", 3)
	r.waitBanned("203.0.113.3")
	r.journal.want(t, 0, "banned", "client", "203.0.113.2")
	r.stop()
}

// A log is taken out of the configuration and put back: it is read on from where it
// had been counted, also when the daemon was started anew meanwhile. After a week
// that is forgotten.
func TestLogTakenOutAndPutBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	other := filepath.Join(s.dir, "other.log")
	check(t, os.WriteFile(other, nil, 0o644))
	text := func(logs ...string) string {
		out := fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n[logs.other]\nfiles = %q\n", s.state, s.runtime(), other)
		if len(logs) > 1 {
			out += fmt.Sprintf("[logs.site]\nfiles = %q\n", s.log)
		}
		return out + strings.Replace(logOnly, "[jails.web]", "[jails.web]\nlog = [\""+strings.Join(logs, "\", \"")+"\"]", 1)
	}
	with, without := text("other", "site"), text("other")
	r := newReloadableAt(t, s, with)
	reload := func(text string) {
		r.rewrite(text)
		_, err := r.client.Reload(context.Background())
		check(t, err)
	}
	from := func(n int) int64 {
		var all []record
		wait(t, "the log to be read", func() bool {
			all = r.journal.said("reading log", "path", s.log)
			return len(all) == n
		})
		return int64(all[n-1]["from"].(float64))
	}
	from(1)
	s.requests("203.0.113.1", 3)
	r.waitBanned("203.0.113.1")
	size, err := os.Stat(s.log)
	check(t, err)
	reload(without)
	reload(with)
	if got := from(2); got != size.Size() {
		t.Errorf("put back, it is read from %d, want %d", got, size.Size())
	}
	reload(without)
	r.stop()
	r = newReloadableAt(t, s, without)
	reload(with)
	if got := from(1); got != size.Size() {
		t.Errorf("put back after a restart, it is read from %d, want %d", got, size.Size())
	}
	reload(without)
	r.stop()

	kept := newRig(t, start{config: web, loaded: state.Loaded{Positions: s.stored().Positions}}) // without the other
	has := func(log string) bool {
		return len(kept.positionsOf([]string{log})) > 0
	}
	for _, tt := range []struct {
		after time.Duration
		kept  bool
	}{{goneFor - time.Minute, true}, {goneFor + time.Minute, false}} {
		kept.forgetGone(kept.now.Add(tt.after))
		if has("other") != tt.kept || !has("site") {
			t.Errorf("after %v: kept are %v", tt.after, kept.positions)
		}
	}
}
