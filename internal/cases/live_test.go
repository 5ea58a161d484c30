package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/daemon"
	"github.com/tailban/tailban/internal/syncbuf"
)

// patience is for what takes milliseconds; a busy machine needs more.
const patience = 30 * time.Second

// place is a folder with logs, and what a daemon keeps between its lives.
type place struct {
	*testing.T
	logs, own string
}

func newPlace(t *testing.T) *place {
	return &place{t, t.TempDir(), t.TempDir()}
}

func (p *place) path(name string) string { return filepath.Join(p.logs, name) }

// check ends the test if there is an error.
func (p *place) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// add appends to a file, which it makes if it is missing.
func (p *place) add(name string, text ...string) {
	p.Helper()
	f, err := os.OpenFile(p.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	p.check(err)
	_, err = f.WriteString(strings.Join(text, ""))
	p.check(err)
	p.check(f.Close())
}

func (p *place) rename(from, to string) {
	p.Helper()
	p.check(os.Rename(p.path(from), p.path(to)))
}

// failed is a line of the combined format, of a request that failed just now.
func failed(client, path string) string {
	return fmt.Sprintf("%s - - [%s] \"POST %s HTTP/1.1\" 401 0 \"-\" \"x\"\n", client, time.Now().Format("02/Jan/2006:15:04:05 -0700"), path)
}

// live is a daemon that runs.
type live struct {
	*place
	client *control.Client
	cancel context.CancelFunc
	done   chan error
	said   spoken
}

// spoken is a daemon's own log, a JSON object a line.
type spoken struct{ syncbuf.Buffer }

// start runs a daemon that reads some files, named relative to the place, and
// counts failures: more than limit ban. more is what the log has besides.
func (p *place) start(files, more string, limit int, ban string) *live {
	p.Helper()
	text := fmt.Sprintf("state_dir = %q\nruntime_dir = %q\n[logs.a]\nfiles = %q\nfrom = \"start\"\n", filepath.Join(p.own, "state"), filepath.Join(p.own, "run"), p.path(files)) +
		more + fmt.Sprintf(`
[jails.failures]
where = { status = 401, not = { path = "/static/*" } }
limit = %d
window = "10m"
ban = %s
[actions.report]
type = "log"
`, limit, ban)
	c, err := config.Parse("jails.toml", []byte(text), nil)
	p.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	l := &live{place: p, client: control.NewClient(c.RuntimeDir), cancel: cancel, done: make(chan error, 1)}
	ready := make(chan struct{})
	o := daemon.Options{
		Config: c, Log: slog.New(slog.NewJSONHandler(&l.said, nil)), Host: "here",
		Manager: daemon.Manager{Tell: func(assignments string) {
			if assignments == "READY=1" {
				close(ready)
			}
		}},
	}
	go func() {
		l.done <- daemon.Run(ctx, o)
		close(l.done)
	}()
	p.Cleanup(func() {
		cancel()
		<-l.done
		if p.Failed() {
			p.Logf("the daemon said:\n%s", &l.said)
		}
	})
	select {
	case <-ready:
	case err := <-l.done:
		p.Fatalf("the daemon did not start: %v", err)
	}
	return l
}

// stop ends the daemon as SIGTERM would.
func (l *live) stop() {
	l.Helper()
	l.cancel()
	l.check(<-l.done)
}

// until asks for the status again and again until it is as wanted.
func (l *live) until(what string, ok func(*control.Status) bool) {
	l.Helper()
	end := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := l.client.Status(l.Context())
		if err == nil && ok(s) {
			return
		}
		select {
		case <-end:
			l.Fatalf("waited in vain for %s: %+v, %v", what, s, err)
		case err := <-l.done:
			l.Fatalf("the daemon has stopped: %v", err)
		case <-tick.C:
		}
	}
}

// untilCounted waits until so many failures have been counted, those of the
// banned left out, and checks that so many lines were read for it.
func (l *live) untilCounted(failures, lines uint64) {
	l.Helper()
	var read uint64
	l.until(fmt.Sprintf("%d failures to be counted", failures), func(s *control.Status) bool {
		read = s.Logs[0].Lines
		return s.Jails[0].Matched >= failures
	})
	if read != lines {
		l.Errorf("%d lines were read, want %d", read, lines)
	}
}

// untilFollowed waits until a file is read, to its end.
func (l *live) untilFollowed(path string) {
	l.Helper()
	l.until(path+" to be read", func(s *control.Status) bool {
		for _, f := range s.Logs[0].Files {
			if f.Path == path {
				return f.State == "following" && f.Behind == 0
			}
		}
		return false
	})
}

// bans are those in force, by target.
func (l *live) bans() map[string]control.Ban {
	l.Helper()
	b, err := l.client.Bans(l.Context(), control.BansQuery{})
	l.check(err)
	out := map[string]control.Ban{}
	for _, x := range b.Bans {
		out[x.Target.String()] = x
	}
	return out
}

// wants waits until so many targets are banned, and checks that these are.
func (l *live) wants(targets ...string) {
	l.Helper()
	l.until("the bans of "+strings.Join(targets, ", "), func(s *control.Status) bool { return s.Bans >= len(targets) })
	got := l.bans()
	for _, x := range targets {
		if _, yes := got[x]; !yes {
			l.Errorf("%s is not banned", x)
		}
	}
	if len(got) != len(targets) {
		l.Errorf("banned are %v, want %v", got, targets)
	}
}

// warnings are what the daemon has said that is no mere information.
func (l *live) warnings() (out []string) {
	l.Helper()
	for text := range strings.Lines(l.said.String()) {
		var r struct{ Level, Msg string }
		l.check(json.Unmarshal([]byte(text), &r))
		if r.Level != slog.LevelInfo.String() {
			out = append(out, r.Msg)
		}
	}
	return out
}
