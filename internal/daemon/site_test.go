package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// siteFiles are a log, a state folder and a configuration on disk.
type siteFiles struct {
	testing.TB
	dir, log, state string
}

func newSite(t testing.TB, dir string) *siteFiles {
	t.Helper()
	s := &siteFiles{t, dir, filepath.Join(dir, "access.log"), filepath.Join(dir, "state")}
	check(t, os.WriteFile(s.log, nil, 0o644))
	return s
}

// config is a configuration for this site; more is what follows.
func (s *siteFiles) config(more string) string {
	return fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n[logs.site]\nfiles = %q\n", s.state, s.runtime(), s.log) + more
}

// runtime is where the control sockets are.
func (s *siteFiles) runtime() string { return filepath.Join(s.dir, "run") }

// logOnly has the third request banned, and nothing enforced.
const logOnly = `
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[actions.report]
type = "log"
`

// write appends to the log.
func (s *siteFiles) write(lines ...string) {
	s.Helper()
	f, err := os.OpenFile(s.log, os.O_APPEND|os.O_WRONLY, 0)
	check(s, err)
	_, err = f.WriteString(strings.Join(lines, ""))
	check(s, err)
	check(s, f.Close())
}

// requests appends n requests of a client.
func (s *siteFiles) requests(client string, n int) {
	s.Helper()
	s.write(strings.Repeat(line(client, time.Now()), n))
}

// stored reads the state file of a daemon that has stopped.
func (s *siteFiles) stored() *state.Loaded {
	s.Helper()
	st, loaded, err := state.Open(filepath.Join(s.state, stateFile), time.Now())
	check(s, err)
	check(s, st.Close())
	return loaded
}

// running is a daemon in this process.
type running struct {
	testing.TB
	journal *journal
	cancel  context.CancelFunc
	done    chan error
}

// run starts a daemon and waits until it reads the log.
func (s *siteFiles) run(config string) *running {
	s.Helper()
	r := s.start(config, Run)
	wait(s, "the log to be read", func() bool { return len(r.journal.said("reading log")) > 0 })
	return r
}

func (s *siteFiles) start(config string, run func(context.Context, Options) error) *running {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{s.TB, &journal{}, cancel, make(chan error, 1)}
	o := Options{Config: parse(s, config), Log: r.journal.logger(), Host: "here"}
	go func() {
		r.done <- run(ctx, o)
		close(r.done)
	}()
	s.Cleanup(func() {
		cancel()
		<-r.done
		if s.Failed() {
			s.Logf("the daemon said:\n%s", r.journal)
		}
	})
	return r
}

// stop ends the daemon as SIGTERM would.
func (r *running) stop() {
	r.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.Errorf("Run returned %v, want nil as it was cancelled", err)
	}
}

func (r *running) waitBanned(client string) {
	r.Helper()
	wait(r, "the ban of "+client, func() bool { return len(r.journal.said("banned", "client", client)) > 0 })
}

func (r *running) waitEnforced(client string) {
	r.Helper()
	wait(r, "the ban of "+client+" at the action", func() bool {
		return len(r.journal.said("ban", "target", client+"/32")) > 0
	})
}
