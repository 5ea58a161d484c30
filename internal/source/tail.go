package source

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// State is what is being done about one name or file.
type State string

const (
	Following State = "following" // open, and has its name
	Renamed   State = "renamed"   // open and still read; its name is gone or another file's
	Deleted   State = "deleted"   // likewise, and it has no other name
	Waiting   State = "waiting"   // nothing there yet
	Failing   State = "failing"   // there, but it can't be opened or read
	Refused   State = "refused"   // there, but not read: strangers can write to it, there are too many, it holds no lines
)

// hold is how a tail and the follower agree on when to let a file go. Only the
// follower moves between held, nameless and succeeded; only the tail moves from
// succeeded to released, so a file that gets its name back at that moment is
// either kept or clearly finished.
type hold = int32

const (
	held      hold = iota // it has its name
	nameless              // its name is nobody's: its writer has nowhere else to write
	succeeded             // its name is another file's
	released
)

const (
	pollFast = 10 * time.Millisecond

	// deafAfter is how often in a row polling must find what inotify should
	// have told before a watch is given up.
	deafAfter = 3

	sayEvery = time.Minute // for messages that a writer can provoke at will
)

// seen is how far a file has been read, and how it begins.
type seen struct {
	at   Position
	head []byte
}

// tail follows one open file until it is finished.
type tail struct {
	name   string // whose file it is; another name may lead to it by now
	file   *File
	f      *os.File
	r      *reader
	log    *slog.Logger
	counts *counts
	poll   time.Duration
	grace  time.Duration
	moved  func()      // tells the follower to look at names now
	wanted func() bool // whether another log would read the file
	notify bool        // use inotify

	hold       atomic.Int32
	read       atomic.Int64
	lines      atomic.Int64
	offset     atomic.Int64
	gaps       atomic.Int64
	zeros      atomic.Int64
	last       atomic.Int64 // when a line was read, Unix nanoseconds
	since      atomic.Int64 // since when something is left to read, likewise; 0: nothing is
	watching   atomic.Bool
	watchTried atomic.Bool
	unwatched  atomic.Pointer[string] // why inotify can't be had for it
	polled     atomic.Bool            // inotify doesn't wake it, or no longer
	trouble    atomic.Pointer[string] // why reading fails
	known      atomic.Bool            // its first batch has been taken

	covered atomic.Bool // a glob leads to it under another name
	giveWay atomic.Bool // it is to be let go at once, if it was deleted

	sent *Position            // with what was taken last; nil: nothing was yet
	now  atomic.Pointer[seen] // with what was sent last, or is about to be
	lost func(context.Context, loss) bool

	blocked atomic.Pointer[string] // why what is in the file isn't read
	unlike  bool                   // it was said that the file doesn't look like a log
	counted bool                   // a gap was counted for what is left out at the moment

	announced chan struct{}     // closed when known
	after     []<-chan struct{} // what to wait for before the first batch: that of a copy with the rest of what the file was, that of the file before it; each may be nil

	wake    chan struct{}
	watch   *fdWatch
	heard   bool      // inotify tells of what happens, as far as is known
	end     time.Time // until when what is left of a deleted file is offered after a stop
	cutOff  bool      // a batch could not be sent before a stop
	missed  int       // ticks in a row that found what no wake-up announced
	grown   time.Time // when the file last changed, or lost its name
	lastGap time.Time // when a gap was last said
}

// run reads until the file is finished (true) or ctx is done (false). It leaves
// the file open.
func (t *tail) run(ctx context.Context, out chan<- *Batch) bool {
	t.startWatch()
	t.grown = time.Now()
	if !waitAll(ctx, t.after) || !t.send(ctx, out, t.r.announce()) {
		return false
	}
	t.known.Store(true)
	close(t.announced)
	timer := time.NewTimer(t.poll)
	defer timer.Stop()
	phase := t.hold.Load()
	for woken := true; ; {
		if !t.drain(ctx, out, woken) {
			t.leave(out)
			return false
		}
		if now := t.hold.Load(); now != phase {
			phase, t.grown = now, time.Now()
		}
		if t.letGo() {
			return t.finish(ctx, out)
		}
		timer.Reset(t.pause())
		select {
		case <-ctx.Done():
			t.leave(out)
			return false
		case <-t.wake:
			woken, t.missed = true, 0
		case <-timer.C:
			woken = false
		}
	}
}

// drain sends all there is. It returns false if ctx is done.
func (t *tail) drain(ctx context.Context, out chan<- *Batch, woken bool) bool {
	for first := true; ; first = false {
		state, grown, err := t.r.refresh()
		if grown {
			t.grown = time.Now()
			if first && !woken {
				t.doubtWatch()
			}
		}
		moved := state != intact
		if moved {
			t.gap(state)
			if !t.lost(ctx, loss{t, *t.now.Load(), t.r.lost, make(chan (<-chan struct{}), 1)}) {
				return false
			}
			err = t.r.restart()
		} else if err == nil {
			moved, err = t.r.resync()
		}
		if moved && !t.send(ctx, out, t.r.announce()) {
			return false
		}
		var b *Batch
		more := false
		if err == nil {
			b, more, err = t.r.read()
		}
		t.report(err)
		left := t.leftOut()
		t.judge()
		if (left || t.r.tainted != t.sent.Exposed) && !t.send(ctx, out, t.r.announce()) {
			return false
		}
		if b != nil {
			t.since.CompareAndSwap(0, time.Now().UnixNano())
			if !t.send(ctx, out, b) {
				return false
			}
		}
		t.account()
		if !more || ctx.Err() != nil {
			return ctx.Err() == nil
		}
	}
}

// account makes what the reader has seen known to stats.
func (t *tail) account() {
	t.offset.Store(t.r.offset)
	t.gaps.Add(t.r.lost)
	t.counts.gapBytes.Add(t.r.lost)
	t.zeros.Add(t.r.zeros)
	t.counts.zeros.Add(t.r.zeros)
	t.counts.cut.Add(t.r.dropped)
	t.r.lost, t.r.zeros, t.r.dropped = 0, 0, 0
	// Whether the last line of a deleted file will be completed shows when it is
	// let go.
	if t.r.behind() == 0 || t.r.gone && t.r.size <= t.r.offset+t.r.scanned {
		t.since.Store(0)
	} else {
		t.since.CompareAndSwap(0, time.Now().UnixNano())
	}
}

func (t *tail) send(ctx context.Context, out chan<- *Batch, b *Batch) bool {
	n, next := int64(len(b.Data)), b.Next // b is not ours once it is sent
	lines, at := b.lines(), b.Position
	if b.Cut {
		t.counts.cut.Add(1)
	}
	now := &seen{at, t.r.head.clone(t.now.Load())}
	t.now.Store(now)
	if !t.hand(ctx, out, b) {
		b.Done()
		return false
	}
	t.sent = &now.at
	t.read.Add(n)
	t.counts.bytes.Add(n)
	t.offset.Store(next)
	if n > 0 {
		t.lines.Add(lines)
		t.counts.lines.Add(lines)
		t.last.Store(time.Now().UnixNano())
	}
	return true
}

// letGo decides whether the file is finished.
func (t *tail) letGo() bool {
	h := t.hold.Load()
	due := time.Since(t.grown) >= t.grace && (h == succeeded || h == nameless && (t.r.gone || t.wanted()))
	return (due || t.r.gone && t.giveWay.Load()) && t.hold.CompareAndSwap(h, released)
}

// finish sends what came in since the last look, and the final batch.
func (t *tail) finish(ctx context.Context, out chan<- *Batch) bool {
	if !t.drain(ctx, out, true) {
		return false
	}
	b, err := t.r.last()
	t.report(err)
	if t.covered.Load() {
		b.Final, b.Position.Done = false, true
	}
	if !t.send(ctx, out, b) {
		return false
	}
	what := "rotated"
	if t.r.gone {
		what = "deleted"
	}
	t.log.Info("finished with "+what+" file", slog.Int64("size", b.Next))
	return true
}

// pause is how long to wait for a wake-up. Without inotify, and for a file that
// has lost its name, the longer nothing came the longer it is.
func (t *tail) pause() time.Duration {
	h := t.hold.Load()
	if t.watch != nil && h == held {
		if t.heard {
			return nextTick(calmPolls * t.poll)
		}
		return nextTick(t.poll)
	}
	quiet := time.Since(t.grown)
	d := backoff(quiet, t.poll)
	if h == succeeded || h == nameless && t.r.gone { // it may be due; while held it never is
		d = min(d, max(t.grace-quiet, time.Millisecond))
	}
	return d
}

// nextTick is how long it is to the next of the moments at which all that is
// quiet is looked at: each at its own would wake the process.
func nextTick(every time.Duration) time.Duration {
	return every - time.Duration(time.Now().UnixNano())%every
}

// backoff grows with the time since something happened, up to limit. The
// divisor keeps the delay of a message small compared with the silence before.
func backoff(since, limit time.Duration) time.Duration {
	return min(max(since/8, pollFast), limit)
}

// gap counts and says that what was in the file before is gone.
func (t *tail) gap(c condition) {
	t.counts.gaps.Add(1)
	if c == truncated {
		t.counts.truncated.Add(1)
	} else {
		t.counts.replaced.Add(1)
	}
	if time.Since(t.lastGap) < sayEvery {
		return
	}
	t.lastGap = time.Now()
	t.log.Warn("log was "+string(c)+" in place, reading it from its beginning; lines written just before may be lost (logrotate's copytruncate? create is safe)",
		slog.Int64("offset", t.r.offset), slog.Int64("size", t.r.size))
}

// report says once that reading fails, and once that it works again.
func (t *tail) report(err error) {
	var now *string
	if err != nil {
		t.counts.errors.Add(1)
		text := err.Error()
		now = &text
	}
	if before := t.trouble.Swap(now); (before != nil) == (now != nil) {
		return
	}
	if err != nil {
		t.log.Error("cannot read log, trying again", slog.Any("err", err))
	} else {
		t.log.Info("log can be read again")
	}
}

func (t *tail) startWatch() {
	if !t.notify {
		return
	}
	defer t.watchTried.Store(true)
	w, err := watchFD(t.f.Fd(), t.wake, t.moved)
	if err != nil {
		text := err.Error()
		t.unwatched.Store(&text) // the follower says it, of all together
		t.polled.Store(true)
		return
	}
	t.watch = w
	t.watching.Store(true)
	var st unix.Statfs_t
	t.heard = unix.Fstatfs(int(t.f.Fd()), &st) == nil && localType(int64(st.Type))
}

func (t *tail) stopWatch() {
	if t.watch == nil {
		return
	}
	t.watching.Store(false)
	t.watch.close()
	t.watch = nil
}

// doubtWatch gives a watch up that repeatedly told nothing.
func (t *tail) doubtWatch() {
	if t.watch == nil {
		return
	}
	t.heard = false
	if t.missed++; t.missed < deafAfter {
		return
	}
	t.log.Info("inotify does not report changes of this log, polling it (is it on a network file system, or followed twice?)")
	t.polled.Store(true)
	t.stopWatch()
}

// close ends the watch before the descriptor: its number may be used again at
// once.
func (t *tail) close() {
	t.stopWatch()
	if err := t.f.Close(); err != nil {
		t.log.Warn("close log", slog.Any("err", err))
	}
}

// stats may be called from any goroutine.
func (t *tail) stats() FileStats {
	s := FileStats{
		Path: t.name, Opened: t.file.Path, Dev: t.file.Dev, Ino: t.file.Ino, Read: t.read.Load(), Offset: t.offset.Load(),
		State: Following, Watching: t.watching.Load(), Lines: t.lines.Load(),
		Gaps: t.gaps.Load(), Zeros: t.zeros.Load(), Last: moment(t.last.Load()), Since: moment(t.since.Load()),
	}
	switch text := t.trouble.Load(); {
	case text != nil:
		s.State, s.Err = Failing, *text
	case t.blocked.Load() != nil:
		s.State, s.Err = Refused, *t.blocked.Load()
	case t.unlinked():
		s.State = Deleted
	case t.hold.Load() != held:
		s.State = Renamed
	}
	if fi, err := t.f.Stat(); err == nil {
		s.Behind = max(fi.Size()-s.Offset, 0)
	}
	return s
}

func moment(nano int64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, nano)
}
