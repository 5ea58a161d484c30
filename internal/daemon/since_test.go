package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/state"
)

// appended writes lines to a file, which it makes if need be.
func appended(t testing.TB, path string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	check(t, err)
	_, err = f.WriteString(strings.Join(lines, ""))
	check(t, err)
	check(t, f.Close())
}

// counted waits until a child has counted n lines.
func (s *siteFiles) counted(n uint64) {
	s.Helper()
	client := control.NewClient(s.runtime())
	wait(s, fmt.Sprintf("%d lines to be counted", n), func() bool {
		st, err := client.Status(context.Background())
		return err == nil && st.Logs[0].Lines >= n
	})
}

// killed ends a child at once, when all that it has counted is stored.
func (s *siteFiles) killed(c *child) {
	s.Helper()
	client := control.NewClient(s.runtime())
	_, err := client.Allow(context.Background(), control.AllowRequest{Target: pfx("198.51.100.1/32"), For: 3600})
	check(s, err) // it was stored before the answer came, and all before it
	check(s, c.cmd.Process.Kill())
	_ = c.wait() // it was killed
}

// What happened to a log between the last snapshot of the windows and a kill:
// the windows go on as if there had been none. The snapshot has one request of
// the first client, and three are too many.
func TestKilledSinceTheSnapshot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(s *siteFiles)           // the first start
		since  func(s *siteFiles, c *child) // the snapshot
		killed func(s *siteFiles)           // the kill
		client string                       // who asks once more then
		banned int                          // whether that is too much
	}{
		{name: "a link moved on to another file", client: "203.0.113.1", banned: 1,
			before: func(s *siteFiles) {
				check(s, os.Mkdir(filepath.Join(s.dir, "days"), 0o755))
				s.relink("29")
			},
			since: func(s *siteFiles, c *child) {
				s.requests("203.0.113.1", 1)
				s.counted(2)
				s.relink("30")
				wait(s, "the next file", func() bool { return len(c.journal.said("reading log")) == 2 })
				s.requests("203.0.113.2", 1)
				s.counted(3)
			},
		},
		{name: "stored anew by an editor", client: "203.0.113.1",
			since: func(s *siteFiles, c *child) {
				s.requests("203.0.113.3", 1)
				s.counted(2)
				data, err := os.ReadFile(s.log)
				check(s, err)
				check(s, os.WriteFile(s.log+".new", data, 0o644))
				check(s, os.Rename(s.log+".new", s.log)) // as sed -i does
				wait(s, "the new file", func() bool { return len(c.journal.said("reading log")) == 2 })
				s.requests("203.0.113.2", 1)
				s.counted(3)
			},
		},
		{name: "another pattern", client: "203.0.113.7", banned: 1,
			before: func(s *siteFiles) {
				old := time.Now().Add(-30 * time.Minute)
				appended(s, s.log+".b", strings.Repeat(line("203.0.113.7", old), 3), line("203.0.113.5", old.Add(time.Minute)))
			},
			since: func(s *siteFiles, c *child) {
				path := filepath.Join(s.dir, "jails.toml")
				text, err := os.ReadFile(path)
				check(s, err)
				more := strings.Replace(string(text), "files = ", fmt.Sprintf("files = [%q, ", s.log+".b"), 1)
				more = strings.Replace(more, s.log+"\"", s.log+"\"]", 1)
				check(s, os.WriteFile(path, []byte(more), 0o600))
				check(s, c.cmd.Process.Signal(syscall.SIGHUP))
				wait(s, "the other file", func() bool { return len(c.journal.said("reading log", "path", s.log+".b")) == 1 })
				appended(s, s.log+".b", strings.Repeat(line("203.0.113.7", time.Now()), 2))
				s.counted(3)
			},
		},
		{name: "another number of the device", client: "203.0.113.1", banned: 1,
			since: func(s *siteFiles, c *child) {
				s.requests("203.0.113.1", 1)
				s.counted(2)
			},
			killed: (*siteFiles).otherDevice,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			if tt.before != nil {
				tt.before(s)
			}
			config := s.config(logOnly)
			c := s.process(config, 20*time.Second)
			c.waitSaid("reading log")
			s.requests("203.0.113.1", 1)
			wait(t, "a snapshot", func() bool {
				w, err := state.LoadWindows(filepath.Join(s.state, windowsFile))
				return err == nil && w != nil && len(w.Rule) == 1
			})
			tt.since(s, c)
			s.killed(c)
			if tt.killed != nil {
				tt.killed(s)
			}
			text, err := os.ReadFile(filepath.Join(s.dir, "jails.toml")) // it may have been reloaded
			check(t, err)
			c = s.process(string(text), 20*time.Second)
			c.waitSaid("windows go on from a snapshot")
			s.requests(tt.client, 1)
			s.requests("203.0.113.8", 3) // the last of it all
			wait(t, "all lines", func() bool { return len(c.journal.said("banned", "client", "203.0.113.8")) == 1 })
			c.stop()
			c.journal.want(t, tt.banned, "banned", "client", tt.client)
		})
	}
}

// relink makes the log a link to the file of a day, which it makes.
func (s *siteFiles) relink(day string) {
	s.Helper()
	target := filepath.Join(s.dir, "days", day+".log")
	appended(s, target)
	check(s, os.Symlink(target, s.log+".new"))
	check(s, os.Rename(s.log+".new", s.log))
}

// otherDevice has all that is stored say that files are on another device, as
// after a boot that numbers devices in another way.
func (s *siteFiles) otherDevice() {
	s.Helper()
	windows := filepath.Join(s.state, windowsFile)
	w, err := state.LoadWindows(windows)
	check(s, err)
	st, loaded, err := state.Open(filepath.Join(s.state, stateFile), time.Now())
	check(s, err)
	var u state.Update
	for _, p := range loaded.Positions {
		if isFile(&p) {
			u.ForgetPositions = append(u.ForgetPositions, p.Key())
			p.Dev += 7
			u.Positions = append(u.Positions, p)
		}
	}
	check(s, st.Commit(u))
	check(s, st.Close())
	for i := range w.Positions {
		if p := &w.Positions[i]; isFile(p) {
			p.Dev += 7
		}
	}
	check(s, state.SaveWindows(windows, w))
}
