package source

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// retryPolls is after how many looks a file that can't be opened is tried
// again.
const retryPolls = 5

// follower is one Run of a Files: it looks at names, opens what it finds and
// lets go of what has been replaced. Each open file is read by its tail in a
// goroutine of its own.
type follower struct {
	o      *FilesOptions
	pool   *pool
	counts *counts
	log    *slog.Logger
	notify bool

	memory *memory
	moved  chan struct{} // a file may have been renamed or removed
	ended  chan *tail
	lost   chan loss // what was in a file when it was truncated
	outbox []*Batch  // for run to send when it holds no lock
	wg     sync.WaitGroup

	mu     sync.Mutex // for stats; only run's goroutine writes
	names  *names
	closed map[string]*name // patterns with folders that can't be looked into

	unopened  map[string]*crowd // by what is used up
	unwatched crowd
	tails     map[identity]*tail

	marked     bool              // the patterns have been said to be followed
	unmarked   []string          // but for these
	superseded []superseded      // stored positions of files whose copies are read
	past       map[string][]seen // by name, of files that were truncated
	elsewhere  map[Position]bool // stored positions whose files have other names since
	unpackers  []*unpacker
	unpacking  map[identity]bool          // compressed files that are being read, by what they were
	before     map[string]<-chan struct{} // by name, closed when the last file is known that came and went while nobody looked

	deleted    []*tail   // open files without a name; nil: not known in this scan
	quietSince time.Time // when a name last changed

	stirred  chan struct{}      // holds a token when something has happened in a folder
	folders  map[string]*folder // that are watched
	watched  bool               // all of them are, and inotify tells all of them
	calm     bool               // there is nothing to wait for but news, which is told
	scanned  time.Time          // when names were last looked at, and how long that took
	scanTook time.Duration
	scanBy   time.Time       // until when names are to be looked at, as something happens in their folders; zero: nothing does
	globbed  time.Time       // when the globs were last looked at
	said     map[string]bool // patterns of which was said that they match nothing, or are none
}

func newFollower(f *Files, notify bool) *follower {
	memory := newMemory(f.o.Log, f.o.Resume)
	return &follower{
		memory: memory, lost: make(chan loss),
		o: &f.o, pool: &f.pool, counts: &f.counts, log: f.o.Logger, notify: notify,
		moved:     make(chan struct{}, 1),
		stirred:   make(chan struct{}, 1),
		folders:   make(map[string]*folder),
		ended:     make(chan *tail),
		names:     newNames(f.o.Patterns, memory.marked),
		tails:     make(map[identity]*tail),
		past:      make(map[string][]seen),
		elsewhere: make(map[Position]bool),
		unpacking: make(map[identity]bool),
		before:    make(map[string]<-chan struct{}),
		said:      make(map[string]bool),
		closed:    make(map[string]*name),
		unopened:  make(map[string]*crowd),
	}
}

// run returns when ctx is done and all tails have ended.
func (r *follower) run(ctx context.Context, out chan<- *Batch) {
	defer r.wg.Wait()
	defer r.unwatchFolders()
	r.scan(ctx, out, true)
	r.flush(ctx, out)
	timer := time.NewTimer(r.o.Poll)
	defer timer.Stop()
	for {
		timer.Reset(r.pause())
		select {
		case <-ctx.Done():
			return
		case <-r.heed():
			r.stir(time.Now())
			continue
		case t := <-r.ended:
			r.forget(t)
		case l := <-r.lost:
			known := r.recover(ctx, out, l)
			r.flush(ctx, out)
			l.known <- known
		case <-r.moved:
			r.quietSince = time.Now()
			r.scan(ctx, out, false)
		case <-timer.C:
			r.scan(ctx, out, false)
		}
		r.flush(ctx, out)
	}
}

// flush sends what was left to be told, without the lock: whoever takes it may
// be slow, and stats must not wait for that.
func (r *follower) flush(ctx context.Context, out chan<- *Batch) {
	for _, b := range r.outbox {
		id := b.File.identity()
		if _, done := r.memory.done[id]; b.Final && (done || r.tails[id] != nil) {
			continue // its number is that of a file met since
		}
		if !b.Final && !wait(ctx, r.displaced(id)) {
			return
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
	r.outbox = nil
}

// pause is how long to wait for news before looking at the names again: not
// long after a rename, since the successor is about to appear.
func (r *follower) pause() time.Duration {
	d := r.patience()
	if !r.scanBy.IsZero() {
		d = max(0, min(d, time.Until(r.scanBy)))
	}
	return d
}

// patience is pause if nothing is known to happen in the folders.
func (r *follower) patience() time.Duration {
	if d := backoff(time.Since(r.quietSince), r.o.Poll); d < r.o.Poll {
		return d
	}
	if r.calm {
		return nextTick(calmPolls * r.o.Poll)
	}
	return nextTick(r.o.Poll)
}

// scan looks at all names once.
func (r *follower) scan(ctx context.Context, out chan<- *Batch, starting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func(begin time.Time) {
		r.scanned = time.Now()
		r.scanTook = r.scanned.Sub(begin)
	}(time.Now())
	r.scanBy = time.Time{}
	r.deleted = nil
	expand := time.Since(r.globbed) >= globEvery
	if expand {
		r.globbed = time.Now()
		r.watched = r.watchFolders() // first: what comes after the look is told
		r.expand()
	}
	looks := make(map[string]look, len(r.names.byPath))
	for path := range r.names.byPath {
		looks[path] = lookAt(path)
	}
	var inPlace map[string][]Position
	if starting {
		inPlace = r.resumeRotated(ctx, out, looks, r.memory.byPath)
	}
	var unopened []string
	for path, l := range looks {
		if l.err == nil && r.tails[l.id] == nil {
			unopened = append(unopened, path)
			continue
		}
		r.follow(ctx, out, r.names.byPath[path], l)
	}
	slices.Sort(unopened) // of several names of one file the plainest is followed
	for _, path := range unopened {
		r.follow(ctx, out, r.names.byPath[path], looks[path])
	}
	if starting {
		r.resumeMoved(ctx, out, inPlace)
	}
	for _, t := range r.tails {
		r.setHold(t, looks)
	}
	if expand { // a file may have been met before the globs have found it
		r.forgetGone(looks)
	}
	r.supersede(looks)
	r.mark()
	r.sayCrowds()
	r.calm = r.watched && r.settled()
}

// settled reports whether there is nothing to wait for but news.
func (r *follower) settled() bool {
	if !r.marked || len(r.unmarked) > 0 || len(r.outbox) > 0 {
		return false
	}
	for _, n := range r.names.byPath {
		if n.state != Following {
			return false
		}
	}
	for _, t := range r.tails {
		if t.hold.Load() != held {
			return false
		}
	}
	return true
}

// expand evaluates the globs and says, once each, what is wrong with them.
func (r *follower) expand() {
	for _, g := range r.names.expand() {
		switch {
		case errors.Is(g.err, fs.ErrPermission):
			n := r.closed[g.pattern]
			if n == nil {
				n = &name{path: g.pattern, glob: true}
				r.closed[g.pattern] = n
			}
			r.complain(n, g.err)
			continue
		case g.err != nil && !r.said[g.pattern]:
			r.log.Error("pattern is not followed", slog.Any("err", g.err))
		case g.err == nil && g.paths == 0 && r.names.leads(g.pattern):
			continue // its folder can't be read at the moment
		case g.err == nil && g.paths == 0 && !r.said[g.pattern]:
			r.log.Warn("no file matches the pattern, waiting for one", slog.String("pattern", g.pattern))
		}
		if r.said[g.pattern] = r.said[g.pattern] || g.err != nil || g.paths == 0; r.closed[g.pattern] != nil {
			delete(r.closed, g.pattern)
			r.log.Info("all folders of the pattern can be looked into again", slog.String("pattern", g.pattern))
		}
	}
}

// look is what a name leads to: a regular file, or an error.
type look struct {
	id   identity
	size int64
	time time.Time // of the last change
	err  error
}

func lookAt(path string) look {
	fi, err := os.Stat(path)
	if err != nil {
		return look{err: nowhere(path, err)}
	}
	id, err := identify(fi)
	return look{id: id, size: fi.Size(), time: fi.ModTime(), err: err}
}

// follow opens the file that n leads to, unless it is open or finished.
func (r *follower) follow(ctx context.Context, out chan<- *Batch, n *name, l look) {
	if l.err != nil {
		n.settled = n.settled || !errors.Is(l.err, fs.ErrPermission)
		if missing(l.err) {
			n.suspect = identity{}
		}
		if !r.vanished(n, l.err) {
			r.complain(n, l.err)
		}
		return
	}
	if r.tails[l.id] != nil || n.glob && (r.read(n.path, l) || r.copied(n, l)) {
		n.settled = true
		r.content(n)
		return
	}
	if owner := r.o.Claims.owner(n.path, r.o.Log); owner != "" {
		r.complain(n, &shared{owner})
		r.giveUp(l.id)
		return
	}
	if n.trouble != "" && time.Now().Before(n.retry) {
		return
	}
	err := r.open(ctx, out, n.path, n.path, !n.settled, nil)
	if err == nil {
		n.settled = true
		r.content(n)
		return
	}
	if r.vanished(n, err) || errors.Is(err, errMakingRoom) {
		return
	}
	r.complain(n, err)
	n.retry = time.Now().Add(retryPolls * r.o.Poll)
	if bad := new(insecure); errors.As(err, &bad) {
		n.suspect = l.id // what strangers may have written is not read later, either
		r.rememberExposed(n.path, l)
		return
	}
	if other := new(shared); errors.As(err, &other) {
		return // to go on where that log stops
	}
	if !n.settled && !missing(err) {
		r.rememberStart(n.path, l)
	}
	n.settled = true
}

// giveUp forgets where a file is read on that belongs to another log now, which
// knows that as well.
func (r *follower) giveUp(id identity) {
	for _, s := range r.memory.byID[id] {
		if !s.finished {
			r.forgetPosition(s.Position)
		}
	}
	r.memory.drop(id)
}

// rememberStart notes where a file ended at the start that can't be opened yet.
func (r *follower) rememberStart(path string, l look) {
	if r.o.FromStart || len(r.memory.byID[l.id]) > 0 || len(r.memory.byPath[path]) > 0 {
		return
	}
	p := Position{Log: r.o.Log, Path: path, Dev: l.id.dev, Ino: l.id.ino, Offset: l.size}
	r.memory.put(l.id, start{Position: p})
	r.tell(p, false)
}

// setHold tells a tail what has become of its name.
func (r *follower) setHold(t *tail, looks map[string]look) {
	l, ok := looks[t.name]
	if !ok {
		l = lookAt(t.name)
	}
	next := held
	switch {
	case missing(l.err):
		next = nameless
	case l.err == nil && l.id != t.file.identity() && !r.known(t.name, l):
		if !r.unread(t.name) || !t.unlinked() {
			return // a stop now must not leave us without either position
		}
		next = nameless // nobody waits for the position of what isn't read
	case l.err == nil && l.id != t.file.identity():
		next = succeeded
		t.covered.Store(covered(looks, t.file.identity()))
	case l.err != nil:
		return // can't tell
	}
	was := t.hold.Load()
	if was == next || was == released || !t.hold.CompareAndSwap(was, next) {
		return
	}
	if was == held {
		r.quietSince = time.Now()
	}
	nudge(t.wake)
}

// unread reports whether what a name leads to isn't read, and may never be.
func (r *follower) unread(path string) bool {
	n := r.names.byPath[path]
	return n != nil && (n.state == Refused || n.state == Failing)
}

// known reports whether the position of a file has been handed on.
func (r *follower) known(path string, l look) bool {
	if t := r.tails[l.id]; t != nil {
		return t.known.Load()
	}
	return r.read(path, l)
}

// forget takes a finished tail off the list.
func (r *follower) forget(t *tail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := t.file.identity()
	delete(r.tails, id)
	p := t.r.position()
	r.memory.put(id, start{Position: p, finished: true})
	if t.covered.Load() {
		p.Done = true
		r.memory.done[id] = p
	}
}

func (r *follower) hasTail(path string) bool {
	for _, t := range r.tails {
		if t.name == path {
			return true
		}
	}
	return false
}

// stats may be called from any goroutine.
func (r *follower) stats() (s []FileStats, polled int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := make(map[string]bool, len(r.tails))
	for _, t := range r.tails {
		s = append(s, t.stats())
		open[t.name] = true
		if t.polled.Load() {
			polled++
		}
	}
	for _, n := range r.names.byPath {
		if n.state != Following && (n.state != Waiting || !open[n.path]) {
			s = append(s, FileStats{Path: n.path, State: n.state, Err: n.trouble})
		}
	}
	for _, n := range r.closed {
		s = append(s, FileStats{Path: n.path, State: n.state, Err: n.trouble})
	}
	return s, polled
}
