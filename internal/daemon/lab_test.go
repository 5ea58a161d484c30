package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/internal/syncbuf"
	"github.com/tailban/tailban/state"
)

const patience = 20 * time.Second

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("jails.toml", []byte(text), nil)
	check(t, err)
	return c
}

// line is a request in the combined format.
func line(client string, at time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
}

// journal is our own log, as JSON. It is an io.Writer for one handler or one
// process.
type journal struct{ syncbuf.Buffer }

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type record map[string]any

// said returns the records of a message whose attributes have the given
// values: key, value, key, value, …
func (j *journal) said(msg string, attrs ...any) (found []record) {
	for text := range strings.Lines(j.String()) {
		var r record
		if json.Unmarshal([]byte(text), &r) != nil || r["msg"] != msg {
			continue
		}
		fits := true
		for i := 0; i < len(attrs); i += 2 {
			fits = fits && fmt.Sprint(r[attrs[i].(string)]) == fmt.Sprint(attrs[i+1])
		}
		if fits {
			found = append(found, r)
		}
	}
	return found
}

// want checks how often something was said.
func (j *journal) want(t testing.TB, n int, msg string, attrs ...any) {
	t.Helper()
	if got := len(j.said(msg, attrs...)); got != n {
		t.Errorf("%q with %v was said %d times, want %d:\n%s", msg, attrs, got, n, j)
	}
}

// wait looks every few milliseconds whether ok holds.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

// fakeAction records what the engine wants of an action.
type fakeAction struct {
	until   map[netip.Prefix]time.Time
	sets    int
	deleted []netip.Prefix
}

func (f *fakeAction) Set(target netip.Prefix, until time.Time) {
	f.sets++
	f.until[target] = until
}

func (f *fakeAction) Delete(target netip.Prefix) {
	f.deleted = append(f.deleted, target)
	delete(f.until, target)
}

// listing is an action that lists what it holds.
type listing struct {
	actions.Action
	entries []actions.Entry
}

func (l listing) List(context.Context) ([]actions.Entry, error) { return slices.Clone(l.entries), nil }

// rig is an engine with its surroundings recorded.
type rig struct {
	*testing.T
	*engine
	daemon  *daemon
	journal *journal
	action  map[string]*fakeAction
	puts    []state.Update
	now     time.Time
	file    *source.File
	offset  int64
}

// start is what the daemon finds when it starts.
type start struct {
	config  string
	actions []string // in use
	loaded  state.Loaded
	adopted []netip.Prefix
	holds   map[string][]actions.Entry // what actions hold, by name
	windows *state.Windows
	look    looker // nil: files that are made up are there
}

// site is the log of all configurations here.
const site = "[logs.site]\nfiles = \"/var/log/site.log\"\n"

func newRig(t *testing.T, s start) *rig {
	t.Helper()
	r := &rig{
		T: t, journal: &journal{}, action: map[string]*fakeAction{}, now: time.Now(),
		file: &source.File{Log: "site", Path: "/var/log/site.log", Dev: 1, Ino: 2},
	}
	c := parse(t, s.config)
	d := newDaemon(Options{Config: c, Log: r.journal.logger(), Host: "here"})
	d.loaded, d.store, d.adopted = &s.loaded, newStore("/nonexistent", r.journal.logger()), map[netip.Prefix]bool{}
	d.windows = s.windows
	c.StateDir = t.TempDir()
	d.look = s.look
	if d.look == nil {
		d.look = lookMadeUp
	}
	d.loadAllowances(s.loaded.Allowances)
	d.loadHosts()
	for _, target := range s.adopted {
		d.adopted[target] = true
	}
	for name, entries := range s.holds {
		d.adoptFrom(t.Context(), &enforcer{name: name, action: listing{entries: entries}})
	}
	e, err := newEngine(d, func(u state.Update) { r.puts = append(r.puts, u) })
	check(t, err)
	for _, name := range s.actions {
		r.action[name] = &fakeAction{until: map[netip.Prefix]time.Time{}}
		e.reconciler[name] = r.action[name]
		e.enforcing[name] = true
	}
	r.engine, r.daemon = e, d
	e.restore(d)
	return r
}

// lookMadeUp finds real files, and those that are made up.
func lookMadeUp(p *state.Position, n int64) ([]byte, int64, string, bool) {
	head, size, path, ok := lookFor(p, n)
	return head, size, path, ok || p.HeadLen == 0
}

// lines makes the next batch of the file.
func (r *rig) lines(lines ...string) *source.Batch {
	data := strings.Join(lines, "")
	b := &source.Batch{
		File: r.file, Data: []byte(data), Offset: r.offset, Next: r.offset + int64(len(data)),
		Position: source.Position{
			Log: r.file.Log, Path: r.file.Path, Dev: r.file.Dev, Ino: r.file.Ino, Offset: r.offset + int64(len(data)),
		},
	}
	r.offset = b.Next
	return b
}

// requests is one batch of requests now, one per client.
func (r *rig) requests(clients ...string) {
	var lines []string
	for _, c := range clients {
		lines = append(lines, line(c, r.now))
	}
	r.batch(r.lines(lines...), r.now)
}

// took returns and forgets what was handed over since it was last called.
func (r *rig) took() []state.Update {
	puts := r.puts
	r.puts = nil
	return puts
}

// one is took where a single update is expected.
func (r *rig) one() state.Update {
	r.Helper()
	puts := r.took()
	if len(puts) != 1 {
		r.Fatalf("%d updates were handed over, want 1: %+v", len(puts), puts)
	}
	return puts[0]
}

// targets lists an update's bans.
func targets(u state.Update) string {
	var out []string
	for i := range u.Bans {
		out = append(out, u.Bans[i].Target.String())
	}
	return strings.Join(out, " ")
}

// held is a ban as the state file holds it.
func held(target string, since time.Time, length time.Duration, jail string, actions ...string) state.Ban {
	since = since.Round(0) // a file knows no monotonic time
	p := pfx(target)
	return state.Ban{Target: p, Origin: "here", Owners: []state.Owner{{
		Jail: jail, Client: p.Addr(), Since: since, Until: since.Add(length), Actions: actions,
		Offence: 1, Count: 1, Event: since, Line: state.LineID{Dev: 1, Ino: 2, Offset: 99},
	}}}
}
