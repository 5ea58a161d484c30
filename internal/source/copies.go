package source

import (
	"bytes"
	"cmp"
	"context"
	"io"
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

// loss is what became of a file that was truncated or rewritten: how far it had
// been read, and how many bytes more it was known to hold.
type loss struct {
	tail *tail
	seen
	bytes int64
	known chan (<-chan struct{}) // gets what is closed when the position of a copy is known
}

// maxPast is how many former contents of one name are remembered. Copies of them
// are met as often as patterns are looked at.
const maxPast = 64

// loss hands a loss to the follower, and waits until the position of a copy is
// known: only then may that of the file, with which the copy would be found, be
// another. It returns false if ctx is done first.
func (r *follower) loss(ctx context.Context, l loss) bool {
	select {
	case r.lost <- l:
	case <-ctx.Done():
		return false
	}
	select {
	case known := <-l.known:
		return wait(ctx, known)
	case <-ctx.Done():
		return false
	}
}

// recover looks for a copy of what a truncated file held, and reads its rest.
// It returns what to wait for until its position is known, or nil.
func (r *follower) recover(ctx context.Context, out chan<- *Batch, l loss) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.at.HeadLen < alike {
		return nil
	}
	past := append(r.past[l.tail.name], l.seen)
	r.past[l.tail.name] = past[max(0, len(past)-maxPast):]
	name, known := r.readCopy(ctx, out, l.tail.name, l.at, beside)
	if name == "" {
		return nil
	}
	l.tail.gaps.Add(-l.bytes)
	r.counts.gapBytes.Add(-l.bytes)
	return known
}

// findRest does the same for a file that was truncated while nobody looked, or
// has the number of one that was read and has been compressed since: then others
// may have come and gone as well.
func (r *follower) findRest(ctx context.Context, out chan<- *Batch, id identity, path string) <-chan struct{} {
	for _, s := range r.memory.candidates(id, path) {
		if s.Path == path && !s.finished && s.HeadLen >= alike {
			name, known := r.readCopy(ctx, out, path, s.Position, beside)
			if name != "" {
				r.readBetween(ctx, out, path, name)
			}
			if known != nil {
				return known
			}
		}
	}
	return nil
}

// among says where to look for a copy.
type among int

const (
	beside     among = iota // the file goes on under its name
	packedOnly              // it is gone, and its position is forgotten in favour of the copy's
	plainToo                // likewise; the file under its name can be a copy as well
)

// readCopy looks for a copy of the file that was followed as path, of which at
// was the last position, and reads what is behind that. It returns the name of the copy, or "", and what is closed when its
// position is known, or nil if nothing is left to read.
func (r *follower) readCopy(ctx context.Context, out chan<- *Batch, path string, at Position, where among) (name string, known <-chan struct{}) {
	if at.HeadLen < alike {
		return "", nil
	}
	for _, sibling := range related(path) {
		found := false
		switch {
		case where == beside && sibling == path:
		case filepath.Ext(sibling) == ".gz":
			found, known = r.unpack(ctx, out, path, sibling, at)
		case where != packedOnly && !compressed(sibling):
			found, known = r.readPlainCopy(ctx, out, path, sibling, at)
		}
		if found && where != beside {
			r.superseded = append(r.superseded, superseded{at, known})
		}
		if found {
			return sibling, known
		}
	}
	return "", nil
}

func (r *follower) readPlainCopy(ctx context.Context, out chan<- *Batch, path, sibling string, at Position) (found bool, known <-chan struct{}) {
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
	if !r.memory.copied(id) && r.ownStory(f, fi.Size(), id) {
		return false, nil
	}
	if sibling == path {
		return r.storedAnew(f, fi.Size(), path, at), nil
	}
	if ok, err := headAgrees(f, fi.Size(), at); err != nil || !ok {
		return false, nil
	}
	if fi.Size() == at.Offset {
		if r.names.covers(sibling) {
			r.remember(sibling, id, at)
		}
		return true, nil
	}
	if err := r.open(ctx, out, path, sibling, false, &beginning{offset: at.Offset, align: true}); err != nil {
		r.log.Error("cannot open copy of log"+openHint(sibling, err), slog.String("path", sibling), slog.Any("err", err))
		return false, nil
	}
	return true, r.tails[id].announced
}

// ownStory reports whether it is known from before where to go on in a file.
// That its number is known doesn't say so: it may have been that of another.
func (r *follower) ownStory(f *os.File, size int64, id identity) bool {
	return slices.ContainsFunc(r.memory.byID[id], func(s start) bool {
		agrees, err := headAgrees(f, size, s.Position)
		return err != nil || agrees
	})
}

// read reports whether a file has been read to its end and let go, or is a copy
// that isn't read. What was known of another file with its number is forgotten.
func (r *follower) read(path string, l look) bool {
	if len(r.memory.byID[l.id]) == 0 {
		r.finishedElsewhere(path, l)
	}
	known := r.memory.byID[l.id]
	for i := range known {
		s := &known[i]
		if !s.copied && (!s.finished || s.Offset != l.size) {
			continue
		}
		if s.verified == l {
			return true
		}
		f, err := r.openSafely(path)
		if err != nil {
			return true // can't tell yet
		}
		agrees, err := headAgrees(f, l.size, s.Position)
		id, err2 := identityOf(f)
		_ = f.Close() // only read
		if err != nil || err2 != nil || id != l.id || agrees {
			s.verified = l
			return true
		}
		r.memory.drop(l.id)
		delete(r.memory.done, l.id)
		return false
	}
	return false
}

// finishedElsewhere looks whether a file that nothing is known of is one that was
// finished with when its device had another number, and has that one forgotten.
func (r *follower) finishedElsewhere(path string, l look) {
	for id, p := range r.memory.done {
		if !p.renumbered(l.id) || !r.agrees(path, l, p) {
			continue
		}
		s := start{Position: p, finished: true, copied: r.memory.copied(id)}
		s.Dev = l.id.dev
		r.memory.put(l.id, s)
		r.memory.drop(id)
		delete(r.memory.done, id)
		r.memory.done[l.id] = s.Position
		r.tell(s.Position, false)
		r.tell(p, true)
		return
	}
}

// agrees reports whether the file that path leads to can be that of a position.
func (r *follower) agrees(path string, l look, p Position) bool {
	f, err := r.openSafely(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	id, err := identityOf(f)
	if err != nil || id != l.id {
		return false
	}
	ok, err := headAgrees(f, l.size, p)
	return err == nil && ok
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
	original := r.names.original(n.path)
	if original == "" {
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
	if id, err := identify(fi); err != nil || id != l.id || r.ownStory(f, fi.Size(), id) {
		return false
	}
	begins := make([]byte, headMax)
	k, err := f.ReadAt(begins, 0)
	if err != nil && err != io.EOF {
		return false
	}
	begins = begins[:k]
	for _, s := range r.seenAs(original) {
		if !s.begins(begins) || s.at.identity() == l.id {
			continue
		}
		if k < alike {
			return true // it can still become anything
		}
		if ok, err := headAgrees(f, fi.Size(), s.at); fi.Size() >= s.at.Offset && (err != nil || !ok) {
			continue
		}
		r.remember(n.path, l.id, Position{Offset: fi.Size(), Head: hashHead(begins), HeadLen: int64(k)})
		r.log.Info("not reading a copy of a log", slog.String("path", n.path), slog.String("of", original))
		return true
	}
	return false
}

// remember makes path a copy that is not read. That it isn't is known from its
// position, if that is no place where reading has stopped: it has no Tail.
func (r *follower) remember(path string, id identity, p Position) {
	p.Log, p.Path, p.Dev, p.Ino, p.Done = r.o.Log, path, id.dev, id.ino, true
	r.memory.put(id, start{Position: p, finished: true, copied: true})
	r.memory.done[id] = p
	r.tell(p, false)
}

// begins reports whether a file that begins with p may be a copy of what was
// seen, or the beginning of one.
func (s *seen) begins(p []byte) bool {
	if len(s.head) > 0 {
		n := min(len(p), len(s.head))
		return bytes.Equal(p[:n], s.head[:n])
	}
	n := s.at.HeadLen
	return n >= alike && n <= int64(len(p)) && hashHead(p[:n]) == s.at.Head
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
