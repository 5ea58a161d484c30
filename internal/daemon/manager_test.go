package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// toldManager keeps what a service manager was told.
type toldManager struct {
	mu    sync.Mutex
	lines []string
}

func (m *toldManager) manager(watchdog time.Duration) Manager {
	return Manager{Watchdog: watchdog, Tell: func(assignments string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lines = append(m.lines, strings.Split(assignments, "\n")...)
	}}
}

// took returns what was told since the last call.
func (m *toldManager) took() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := m.lines
	m.lines = nil
	return lines
}

// wedgeable runs the engine of a rig, and tells its manager. Its state is stored on a
// disk, once its writer is run.
func wedgeable(t *testing.T, to *toldManager, watchdog time.Duration, disk stuckDisk) (r *rig, batches chan *source.Batch, questions chan question) {
	r = newRig(t, start{config: web, actions: []string{"firewall"}})
	r.daemon.Manager = to.manager(watchdog)
	r.daemon.writer = state.NewWriter(disk, slog.New(slog.NewTextHandler(io.Discard, nil)), state.Clock(time.Now))
	ctx, cancel := context.WithCancel(t.Context())
	batches, questions = make(chan *source.Batch), make(chan question)
	parts := []*part{
		startPart(ctx, func(ctx context.Context) { r.loop(ctx, batches, questions) }),
		startPart(ctx, r.daemon.keepTelling),
	}
	t.Cleanup(func() { cancel(); <-allOf(parts) })
	return r, batches, questions
}

// The engine's goroutine feeds the watchdog, and nothing else does: while it is
// wedged there is no word, and afterwards there is again.
func TestOnlyTheEngineFeedsTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m toldManager
		_, _, questions := wedgeable(t, &m, 30*time.Second, nil)
		fed := func(want int, what string) {
			t.Helper()
			synctest.Wait()
			lines := slices.DeleteFunc(m.took(), func(l string) bool { return l != "WATCHDOG=1" })
			if len(lines) != want {
				t.Errorf("%s: fed %d times, want %d", what, len(lines), want)
			}
		}
		fed(1, "at the start")
		time.Sleep(5 * time.Minute)
		fed(30, "in five minutes at rest")

		release := make(chan struct{})
		q := question{func(*engine, time.Time) { <-release }, make(chan struct{})}
		questions <- q
		time.Sleep(5 * time.Minute)
		fed(0, "while the engine is wedged")
		close(release)
		<-q.done
		time.Sleep(20 * time.Second)
		fed(4, "when it goes on")
	})
}

// The line says what there is and how much comes, and is told only if it has
// changed.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m toldManager
		r, batches, _ := wedgeable(t, &m, 0, nil)
		told := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := m.took(); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		told("STATUS=0 bans; 1 log")
		time.Sleep(time.Hour)
		told()

		r.now = time.Now()
		batches <- r.lines(line("192.0.2.1", r.now), line("192.0.2.1", r.now))
		time.Sleep(tellEvery)
		told("STATUS=1 ban, 3.0 new a minute; 1 log, 0.1 lines a second")
		time.Sleep(tellEvery)
		told("STATUS=1 ban; 1 log")

		r.daemon.hub.begins(time.Now(), "action firewall: failing", "")
		r.daemon.hub.begins(time.Now(), "action firewall: overdue", "")
		r.daemon.hub.begins(time.Now(), "log more: silent", "")
		time.Sleep(tellEvery)
		told("STATUS=1 ban; 1 log; in trouble, see tailban status: action firewall, log more")
		r.daemon.hub.begins(time.Now(), "list bots: waits", "")
		r.daemon.hub.begins(time.Now(), "log other: silent", "")
		time.Sleep(tellEvery)
		told("STATUS=1 ban; 1 log; in trouble, see tailban status: action firewall, list bots, log more, 1 more")
	})
}

// stuckDisk lets nothing through until it is closed.
type stuckDisk chan struct{}

func (c stuckDisk) Commit(state.Update) error { <-c; return nil }

// A commit that never comes back is told apart: the engine goes on, and what is in
// trouble is the state file.
func TestHungDiskIsNoWedgedEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m toldManager
		hung := make(stuckDisk)
		r, _, _ := wedgeable(t, &m, tellEvery, hung)
		writer := startPart(t.Context(), func(ctx context.Context) { _ = r.daemon.writer.Run(ctx) })
		r.daemon.writer.Put(state.Update{Unbans: []netip.Prefix{pfx("192.0.2.1/32")}})
		if text, _ := r.daemon.stateTrouble(time.Now()); text != "" {
			t.Errorf("at once it is said: %s", text)
		}
		time.Sleep(tellEvery + time.Second)
		synctest.Wait()
		got := m.took()
		if !slices.Contains(got, "STATUS=0 bans; 1 log; in trouble, see tailban status: state file") {
			t.Errorf("told %q", got)
		}
		if n := len(slices.DeleteFunc(got, func(l string) bool { return l != "WATCHDOG=1" })); n != 4 {
			t.Errorf("the watchdog was fed %d times, want 4", n)
		}
		text, since := r.daemon.stateTrouble(time.Now())
		if text != "1 changes wait for the disk, which doesn't answer: a restart would forget them" || time.Since(since) != tellEvery+time.Second {
			t.Errorf("the status says %q since %v", text, since)
		}
		writer.cancel()
		close(hung)
		<-writer.done
	})
}

// A start that takes long asks for more time, but not for ever.
func TestLongStartAsksForTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m toldManager
		d := newDaemon(Options{Config: parse(t, web), Log: (&journal{}).logger(), Manager: m.manager(0)})
		d.starting.begin(t.Context(), d)
		time.Sleep(startQuiet - time.Second)
		if got := m.took(); got != nil {
			t.Errorf("at once it told %q", got)
		}
		d.starting.is("reading what is stored")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.took(); !slices.Equal(got, []string{"STATUS=still starting: reading what is stored", "EXTEND_TIMEOUT_USEC=30000000"}) {
			t.Errorf("told %q", got)
		}
		time.Sleep(startLimit)
		if n := len(m.took()) / 2; n != int(startLimit/startQuiet)-1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(startLimit)
		if got := m.took(); got != nil {
			t.Errorf("in the end it told %q", got)
		}
		d.starting.over()

		d.starting.begin(t.Context(), d)
		d.starting.over()
		time.Sleep(startLimit)
		if got := m.took(); got != nil {
			t.Errorf("after the start it told %q", got)
		}
	})
}

// A service manager is told of a start, of reloads, good or bad, and of the stop.
func TestManagerIsTold(t *testing.T) {
	t.Parallel()
	var m toldManager
	s := newSite(t, t.TempDir())
	r := startReloadable(t, s, s.config(logOnly), func(ctx context.Context, o Options) error {
		o.Manager = m.manager(0)
		return Run(ctx, o)
	})
	words := func() (words []string) { // without what varies
		for _, l := range m.took() {
			if w, _, _ := strings.Cut(l, "="); w != "STATUS" && !strings.HasPrefix(l, "EXTEND") {
				words = append(words, w)
			}
		}
		return words
	}
	all := []string{}
	wait(t, "it to be ready", func() bool { all = append(all, words()...); return slices.Contains(all, "READY") })
	_, err := r.client.Reload(t.Context())
	check(t, err)
	if got := words(); !slices.Equal(got, []string{"RELOADING", "MONOTONIC_USEC", "READY"}) {
		t.Errorf("of a reload it told %q", got)
	}
	r.rewrite("nonsense")
	if _, err := r.client.Reload(t.Context()); err == nil {
		t.Error("nonsense was taken")
	}
	if got := words(); !slices.Equal(got, []string{"RELOADING", "MONOTONIC_USEC", "READY"}) {
		t.Errorf("of a reload that fails it told %q", got)
	}
	r.stop()
	if got := words(); !slices.Equal(got, []string{"STOPPING"}) {
		t.Errorf("of the stop it told %q", got)
	}
}
