package source

import (
	"context"
	"errors"
	"log/slog"
	"os"
)

var errTooMany = errors.New("too many files are open for this log (does the pattern cover more than logs?)")

// beginning is where to begin in a file. align says that it may be inside of a
// line.
type beginning struct {
	offset  int64
	align   bool
	between bool            // the file came and went while nobody looked: its successors wait for it
	lost    bool            // it was replaced or truncated while nobody looked
	after   <-chan struct{} // what to wait for before the first batch, or nil
	found   *Position       // what the file agreed with, or nil
	left    int64           // up to where strangers may have written it
}

// open opens path as the file of a followed name and starts its tail, at the
// given place or, if that is nil, where begin says.
func (r *follower) open(ctx context.Context, out chan<- *Batch, followed, path string, starting bool, at *beginning) error {
	if len(r.tails) >= r.o.MaxFiles {
		return r.makeRoom(errTooMany)
	}
	f, err := r.openSafely(path)
	if exhausted(err) {
		return r.makeRoom(err)
	}
	if err != nil {
		return err
	}
	id, err := r.claim(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t, err := r.newTail(ctx, out, f, followed, path, starting, at)
	if err != nil || t == nil {
		if r.tails[id] == nil {
			r.o.Claims.release(id, nil)
		}
		return errors.Join(err, f.Close())
	}
	r.tails[t.file.identity()] = t
	r.wg.Go(func() {
		// Closed last: its number may be another file's then, at once.
		defer t.close()
		defer func() { r.o.Claims.release(id, t.sent) }()
		if !t.run(ctx, out) {
			return
		}
		select {
		case r.ended <- t:
		case <-ctx.Done():
		}
	})
	return nil
}

// claim makes an open file one of ours, unless it is read for another log.
func (r *follower) claim(f *os.File) (identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	id, err := identify(fi)
	if err != nil {
		return id, err
	}
	owner, left := r.o.Claims.take(id, r.o.Log)
	if owner != "" {
		return id, &shared{owner}
	}
	if left != nil && len(r.memory.byID[id]) == 0 {
		p := *left
		p.Log, p.Done = r.o.Log, false
		r.memory.put(id, start{Position: p})
	}
	return id, nil
}

// newTail decides where to begin in an open file. It returns nil if the file
// turns out to be open already.
func (r *follower) newTail(ctx context.Context, out chan<- *Batch, f *os.File, followed, path string, starting bool, at *beginning) (*tail, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	id, err := identify(fi)
	if err != nil || r.tails[id] != nil {
		return nil, err
	}
	if at == nil {
		b, err := r.begin(ctx, out, f, id, fi.Size(), followed, starting)
		if err != nil {
			return nil, err
		}
		at = &b
	}
	from := at.offset
	file := &File{Log: r.o.Log, Path: path, Dev: id.dev, Ino: id.ino}
	rd, err := newReader(f, file, followed, from, at.align, r.o.MaxLine, r.o.Container, r.pool)
	if err != nil {
		return nil, err
	}
	rd.vet, rd.leftTo = !r.o.AllowInsecure, at.left
	if at.found != nil {
		rd.begun = from - min(max(at.found.Read, 0), from)
		// A copy is found by what stood there, so that must be what was loaded.
		if again, err := f.Stat(); err != nil {
			return nil, err
		} else if ok, err := headAgrees(f, again.Size(), *at.found); err != nil {
			return nil, err
		} else if !ok { // truncated since
			return r.newTail(ctx, out, f, followed, path, starting, nil)
		}
	}
	renumbered, err := r.memory.renumber(f, id, fi.Size(), followed, at.lost)
	if err != nil {
		return nil, err
	}
	r.memory.drop(id)
	log := r.log.With(slog.String("path", path))
	log.Info("reading log", slog.Int64("from", from), slog.Int64("size", fi.Size()))
	t := &tail{
		name: followed, file: file, f: f, r: rd, log: log, counts: r.counts,
		poll: r.o.Poll, grace: r.o.Grace, notify: r.notify,
		wanted: func() bool { return r.o.Claims.isWanted(id) },
		moved:  func() { nudge(r.moved) }, lost: r.loss, wake: make(chan struct{}, 1), announced: make(chan struct{}),
		after: []<-chan struct{}{at.after, r.displaced(id), r.before[followed]},
	}
	for _, p := range renumbered { // else a later one would be taken for it when the number is back

		r.superseded = append(r.superseded, superseded{p, t.announced})
	}
	if at.between {
		r.before[followed] = t.announced
	}
	t.offset.Store(from)
	return t, nil
}

// begin decides where to begin in an open file that is met for the first time,
// or again. align says that the offset may be inside of a line.
func (r *follower) begin(ctx context.Context, out chan<- *Batch, f *os.File, id identity, size int64, followed string, starting bool) (b beginning, err error) {
	n := r.names.byPath[followed]
	refused := n != nil && n.suspect == id // in this run, which was said
	if refused || r.memory.exposed(id, followed) {
		if size > 0 {
			r.counts.gaps.Add(1)
		}
		if !refused {
			r.log.Warn("log is read again, what was in it by then is left out: any user could write to it", slog.String("path", followed), slog.Int64("from", size))
		}
		return beginning{offset: size, align: true, left: size}, nil
	}
	s, ok, seen, err := r.memory.match(f, id, size, followed)
	switch {
	case err != nil:
		return b, err
	case ok:
		// Only the position of a first batch can be inside of a line, of
		// one that began before us; or that of a file let go unterminated.
		b.offset, b.align, b.found, b.left = s.Offset, !s.finished, &s.Position, min(s.Left, s.Offset)
		return b, nil
	case seen:
		b.lost, b.after = true, r.findRest(ctx, out, id, followed)
		r.counts.gaps.Add(1)
		r.log.Warn("log was replaced or truncated since it was last read, reading it from its beginning; lines may have been lost",
			slog.String("path", followed), slog.Int64("size", size))
		return b, nil
	case r.rewritten(f, size, followed, &s.Position):
		b.offset = s.Offset
		return b, nil
	case !starting || r.o.FromStart || len(r.memory.byPath[followed]) > 0:
		// Born after the start, or after the last stop.
		return b, nil
	}
	if r.o.StartAt != nil {
		return beginning{offset: min(max(r.o.StartAt(f, size), 0), size), align: true}, nil
	}
	return beginning{offset: size, align: true}, nil
}
