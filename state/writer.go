package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Defaults of a [Writer].
const (
	DefaultPositionInterval = time.Second
	DefaultShutdownTimeout  = 15 * time.Second

	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
	slowCommit = 10 * time.Second
)

// ErrHung means that a commit did not come back in time. It may still be
// under way, so closing the store would wait for it as well.
var ErrHung = errors.New("the disk does not answer")

// Committer makes an update durable as a whole, or returns an error and may
// be given the same update, or a later one that includes it, again. It may
// take any time. A [Writer] makes one call at a time, and the update is the
// callee's until it returns. [Store] is one.
type Committer interface {
	Commit(u Update) error
}

// Option changes a default of a [Writer].
type Option func(*Writer)

// PositionInterval sets how far apart commits without bans are at least.
func PositionInterval(d time.Duration) Option {
	return func(w *Writer) { w.interval = d }
}

// ShutdownTimeout sets how long Run goes on after its context has ended.
func ShutdownTimeout(d time.Duration) Option {
	return func(w *Writer) { w.shutdown = d }
}

// Clock sets where the writer reads the time for WriterStats.Oldest. Without
// it, it reads none.
func Clock(now func() time.Time) Option {
	return func(w *Writer) { w.now = now }
}

// Writer gathers updates and commits them in groups, so that whoever puts
// them never waits for the disk.
//
// Each commit holds everything that was put before it: no update is ever on
// disk without all that were put earlier, nor in part. What waits is bounded
// by the number of different targets, jails × targets and files, twice at
// most (once more for what is being committed); the caller bounds those.
type Writer struct {
	to       Committer
	log      *slog.Logger
	interval time.Duration
	shutdown time.Duration
	now      func() time.Time
	wake     chan struct{} // holds one token if there is news

	mu      sync.Mutex
	waiting *pending
	flying  *pending // being committed, or nil
	stats   WriterStats

	puts, taken, durable uint64        // calls of Put: made, taken off, and committed
	landed               chan struct{} // closed when the next commit has come back
}

// WriterStats is how a writer is doing.
type WriterStats struct {
	Commits  uint64    // that succeeded
	Failures uint64    // commits that returned an error
	Refused  uint64    // parts of updates that no commit could ever store, left out
	Pending  int       // records not yet durable
	Oldest   time.Time // when the oldest of those came, see [Clock]; zero if there is none
	Failing  bool      // the latest commit failed
}

// NewWriter returns a writer that commits to one place, once Run is called.
func NewWriter(to Committer, log *slog.Logger, opts ...Option) *Writer {
	w := &Writer{
		to:       to,
		log:      log,
		interval: DefaultPositionInterval,
		shutdown: DefaultShutdownTimeout,
		now:      func() time.Time { return time.Time{} },
		wake:     make(chan struct{}, 1),
		waiting:  newPending(),
		landed:   make(chan struct{}),
	}
	for _, o := range opts {
		o(w)
	}
	return w
}

// Put takes an update over into what waits, replacing older values of the
// same keys. It does no I/O except for one log line if it has to refuse a
// part that can't be stored (an invalid target, a ban without owners), keeps
// nothing of what it was given, and is safe for concurrent use, before, while
// and after Run runs.
func (w *Writer) Put(u Update) {
	w.mu.Lock()
	if w.waiting.len() == 0 {
		w.waiting.since = w.now()
	}
	w.puts++
	refused, why := w.waiting.add(&u)
	w.stats.Refused += uint64(refused)
	w.mu.Unlock()

	if refused > 0 {
		w.log.Error("update can't be stored", slog.Int("refused", refused), slog.Any("err", why))
	}
	select {
	case w.wake <- struct{}{}:
	default: // Run will look anyway
	}
}

// Flush waits until everything that was put before is durable. It makes nothing
// of that happen sooner: positions alone wait for their interval. The error is
// that of ctx.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	upTo := w.puts
	w.mu.Unlock()
	for {
		w.mu.Lock()
		done, landed := w.durable >= upTo || w.waiting.len() == 0 && w.flying == nil, w.landed
		w.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-landed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the state file: %w", context.Cause(ctx))
		}
	}
}

// Stats returns how the writer is doing.
func (w *Writer) Stats() WriterStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Pending = w.waiting.len()
	if s.Pending > 0 {
		s.Oldest = w.waiting.since
	}
	if w.flying != nil {
		s.Pending += w.flying.len()
		s.Oldest = w.flying.since
	}
	return s
}

// Run commits what is put until the context ends, and then once more what is
// left. Bans and their ends are committed at once, all else at most once per
// interval. A commit that fails is made again, with what came meanwhile,
// after a growing pause; the log says when that starts and when it is over.
//
// Run returns nil if everything is durable at its end, else why it is not:
// [ErrHung] if a commit has not come back within the shutdown timeout. It is
// called once.
func (w *Writer) Run(ctx context.Context) error {
	p := newPace(w.interval)
	defer p.stop()
	for w.untilDue(ctx, p) {
		f := w.launch()
		if !w.land(ctx, f, p) {
			return w.finish(f, p)
		}
	}
	return w.finish(nil, p)
}

// untilDue waits until there is something to commit and it is time to; false
// means that the context ended first.
func (w *Writer) untilDue(ctx context.Context, p *pace) bool {
	for ctx.Err() == nil {
		w.mu.Lock()
		n, urgent := w.waiting.len(), w.waiting.urgent()
		w.mu.Unlock()
		if n > 0 && p.due(urgent) {
			return true
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-p.timer.C:
			p.rested = true
		}
	}
	return false
}

// flight is a commit under way.
type flight struct {
	records int
	done    chan error // gets one value
	err     error      // that value, once landed
}

// launch starts to commit all that waits. The goroutine ends with the commit,
// if ever: a call to a hung disk can't be taken back.
func (w *Writer) launch() *flight {
	u := w.takeOff()
	f := &flight{records: u.Len(), done: make(chan error, 1)}
	go func() { f.done <- w.to.Commit(u) }()
	return f
}

// takeOff returns all that waits, which is being committed from then on.
func (w *Writer) takeOff() Update {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying, w.waiting = w.waiting, newPending()
	w.taken = w.puts
	return w.flying.update()
}

// land waits for a commit; false means that the context ended first.
func (w *Writer) land(ctx context.Context, f *flight, p *pace) bool {
	slow := time.NewTimer(slowCommit)
	defer slow.Stop()
	for {
		select {
		case f.err = <-f.done:
			w.settle(f, p)
			return true
		case <-ctx.Done():
			return false
		case <-slow.C:
			w.log.Warn("commit takes long; is the disk hung?", slog.Int("records", f.records), slog.Duration("after", slowCommit))
		}
	}
}

// settle notes how a commit ended.
func (w *Writer) settle(f *flight, p *pace) {
	wasFailing := w.giveBack(f.err)
	switch {
	case f.err == nil && wasFailing:
		w.log.Info("commit works again", slog.Int("records", f.records), slog.Int("attempts", p.failures+1))
	case f.err != nil && !wasFailing:
		w.log.Error("commit failed; trying again until it works", slog.Int("records", f.records), slog.Any("err", f.err))
	}
	p.after(f.err)
}

// giveBack ends what takeOff began. What could not be committed goes back
// under what came since. It reports whether the commit before had failed.
func (w *Writer) giveBack(err error) (wasFailing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wasFailing = w.stats.Failing
	w.stats.Failing = err != nil
	if err == nil {
		w.stats.Commits++
		w.durable = w.taken
	} else {
		w.stats.Failures++
		w.flying.addNewer(w.waiting)
		w.waiting = w.flying
	}
	w.flying = nil
	close(w.landed)
	w.landed = make(chan struct{})
	return wasFailing
}

// finish waits for the commit under way, if any, and makes the last one.
func (w *Writer) finish(f *flight, p *pace) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.shutdown)
	defer cancel()
	if f != nil && !w.land(ctx, f, p) {
		return w.unsaved(ErrHung)
	}
	if w.Stats().Pending == 0 {
		return nil
	}
	f = w.launch()
	if !w.land(ctx, f, p) {
		return w.unsaved(ErrHung)
	}
	if f.err != nil {
		return w.unsaved(f.err)
	}
	return nil
}

func (w *Writer) unsaved(cause error) error {
	return fmt.Errorf("last commit: %d records are not saved: %w", w.Stats().Pending, cause)
}
