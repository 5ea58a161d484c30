package source

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Copies: what copytruncate, compression and editors leave is another file with
// the content of one that was read. Lines that were read must not come again,
// and what was not read of a file that is gone may still be in its copy.

// alike is how many bytes of a beginning tell a copy from another file, of
// files whose names are related.
const alike = 16

// loss is what became of a file that was truncated or rewritten: up to where
// it was read, and how many bytes more it had held.
type loss struct {
	tail  *tail
	at    Position
	bytes int64
}

// superseded is a stored position that can be forgotten as soon as that of the
// copy that is read instead is known.
type superseded struct {
	Position
	by *tail
}

// loss hands a loss to the follower, and waits until it has been dealt with.
func (r *follower) loss(ctx context.Context, l loss) {
	select {
	case r.lost <- l:
	case <-ctx.Done():
	}
}

// recover looks for a copy of what a truncated file held, and reads its rest.
func (r *follower) recover(ctx context.Context, out chan<- *Batch, l loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.at.Offset == 0 || l.at.HeadLen < alike {
		return
	}
	if r.readCopy(ctx, out, l.tail.name, l.at, false) != "" {
		l.tail.gaps.Add(-l.bytes)
		r.counts.gapBytes.Add(-l.bytes)
	}
}

// findRest does the same for a file that was truncated while nobody looked.
func (r *follower) findRest(ctx context.Context, out chan<- *Batch, id identity, path string) {
	for _, s := range r.memory.byID[id] {
		if s.Path == path && !s.finished && s.HeadLen >= alike {
			r.readCopy(ctx, out, path, s.Position, false)
		}
	}
}

// readCopy looks for a copy of the file that was followed as path, of which at
// was the last position, and reads what is behind that. gone says that the file
// itself is no more: its position is forgotten then, and path itself may be a
// copy. It returns the name of the copy, or "".
func (r *follower) readCopy(ctx context.Context, out chan<- *Batch, path string, at Position, gone bool) string {
	for _, sibling := range related(path) {
		switch {
		case !gone && sibling == path:
		case filepath.Ext(sibling) == ".gz":
			if r.unpack(ctx, out, path, sibling, at, gone) {
				return sibling
			}
		case compressed(sibling):
		default:
			found, by := r.readPlainCopy(ctx, out, path, sibling, at)
			if found && gone {
				r.superseded = append(r.superseded, superseded{at, by})
			}
			if found {
				return sibling
			}
		}
	}
	return ""
}

func (r *follower) readPlainCopy(ctx context.Context, out chan<- *Batch, path, sibling string, at Position) (found bool, by *tail) {
	f, err := r.openSafely(sibling)
	if err != nil {
		return false, nil
	}
	defer f.Close() //nolint:errcheck // only read
	fi, err := f.Stat()
	if err != nil {
		return false, nil
	}
	id, err := identify(fi)
	if err != nil || id == at.identity() || r.tails[id] != nil {
		return false, nil
	}
	if known := r.memory.byID[id]; len(known) > 0 && !known[0].copied {
		return false, nil // its own story
	}
	if ok, err := headAgrees(f, fi.Size(), at); err != nil || !ok {
		return false, nil
	}
	if sibling == path || fi.Size() == at.Offset {
		return true, nil
	}
	if err := r.open(ctx, out, path, sibling, false, &beginning{at.Offset, true}); err != nil {
		r.log.Error("cannot open copy of log"+openHint(err), slog.String("path", sibling), slog.Any("err", err))
		return false, nil
	}
	return true, r.tails[id]
}

// related lists the files beside path that have its name and more, and path
// itself, newest first: what a rotated or rewritten file is called.
func related(path string) []string {
	dirs := []string{path}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		dirs = append(dirs, target)
	}
	var out []string
	times := make(map[string]int64)
	for _, p := range dirs {
		dir, base := filepath.Split(p)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), base) || !e.Type().IsRegular() {
				continue
			}
			if fi, err := e.Info(); err == nil {
				out = append(out, dir+e.Name())
				times[dir+e.Name()] = fi.ModTime().UnixNano()
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(times[b], times[a]) })
	return out
}

// copied reports whether a file that a glob has found, and that nothing is
// known of, is a copy of one that is read under the name that it was made of
// (or may become one: it is empty yet). If so it is remembered as read.
func (r *follower) copied(n *name, l look) bool {
	if known := r.memory.byID[l.id]; len(known) > 0 {
		return false
	}
	original := r.names.original(n.path)
	if original == "" || !n.settled {
		return false
	}
	if l.size == 0 {
		return true
	}
	f, err := r.openSafely(n.path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	if id, err := identify(fi); err != nil || id != l.id {
		return false
	}
	for _, p := range r.positionsOf(original) {
		if p.HeadLen < alike || p.identity() == l.id {
			continue
		}
		same, err := hashAgrees(f, 0, p.HeadLen, p.Head)
		if err != nil || !same {
			continue
		}
		p = Position{Log: r.o.Log, Path: n.path, Dev: l.id.dev, Ino: l.id.ino, Offset: fi.Size(), Head: p.Head, HeadLen: p.HeadLen, Done: true}
		r.memory.put(l.id, start{Position: p, finished: true, copied: true})
		r.memory.done[l.id] = p
		r.tell(p, false)
		r.log.Info("not reading a copy of a log", slog.String("path", n.path), slog.String("of", original))
		return true
	}
	return false
}

// positionsOf lists the last known positions of the files that have, or had,
// a name.
func (r *follower) positionsOf(path string) []Position {
	out := append([]Position(nil), r.memory.byPath[path]...)
	for _, t := range r.tails {
		if t.name != path {
			continue
		}
		for _, p := range []*Position{t.at.Load(), t.before.Load()} {
			if p != nil {
				out = append(out, *p)
			}
		}
	}
	return out
}

// rewritten reports whether a file that is new under a name holds what its
// predecessor held, as one that an editor has stored, and up to where.
func (r *follower) rewritten(f *os.File, size int64, path string, at *Position) bool {
	found := false
	for _, p := range r.positionsOf(path) {
		if p.HeadLen < convincing || p.Offset < at.Offset {
			continue
		}
		if ok, err := headAgrees(f, size, p); err == nil && ok {
			*at, found = p, true
		}
	}
	return found
}

// covered reports whether one of the names leads to the file.
func covered(looks map[string]look, id identity) bool {
	for _, l := range looks {
		if l.err == nil && l.id == id {
			return true
		}
	}
	return false
}

// forgetGone forgets the finished files that no name leads to any more, and
// keeps up with copies that are still being made.
func (r *follower) forgetGone(looks map[string]look) {
	if len(r.memory.done) == 0 {
		return
	}
	there := make(map[identity]int64, len(looks))
	for _, l := range looks {
		if l.err == nil {
			there[l.id] = l.size
		}
	}
	for id, p := range r.memory.done {
		size, ok := there[id]
		switch {
		case r.tails[id] != nil: // it has grown since, and tells its position itself
			delete(r.memory.done, id)
		case !ok && readable(filepath.Dir(p.Path)):
			delete(r.memory.done, id)
			r.memory.drop(id)
			r.tell(p, true)
		case size > p.Offset && r.memory.copied(id):
			p.Offset = size
			r.memory.done[id] = p
			r.tell(p, false)
		}
	}
}

// readable says no for a folder that can't be looked into at the moment.
func readable(dir string) bool {
	err := unix.Access(dir, unix.R_OK|unix.X_OK)
	return err == nil || missing(err)
}

// supersede forgets the positions of files whose copies are read by now.
func (r *follower) supersede() {
	kept := r.superseded[:0]
	for _, s := range r.superseded {
		if !r.marked || s.by != nil && !s.by.known.Load() {
			kept = append(kept, s)
			continue
		}
		r.tell(s.Position, true)
	}
	r.superseded = kept
}
