package source

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// resumeRotated opens the files with a stored position that have lost their
// name since, under the name they have now. Those that are nowhere are counted
// as gaps and said.
// It returns those that seem to have theirs.
func (r *follower) resumeRotated(ctx context.Context, out chan<- *Batch, looks map[string]look, byPath map[string][]Position) map[string][]Position {
	dirs := make(siblings)
	inPlace := make(map[string][]Position)
	gone := make(map[string][]Position)
	newest := make(map[string]string)
	for path, stored := range byPath {
		if !r.names.covers(path) {
			continue
		}
		for _, p := range slices.Clone(stored) {
			l, ok := looks[path]
			if ok && (l.id == p.identity() || l.id.ino == p.Ino && p.HeadLen >= convincing) {
				inPlace[path] = append(inPlace[path], p) // follow looks at it more closely
				continue
			}
			if ok && l.err != nil && !missing(l.err) || r.replaced(p) {
				continue // can't tell yet, or it is open by another number
			}
			now := dirs.find(path, p.identity())
			if now != "" && !r.resume(ctx, out, path, now, p) {
				dirs = make(siblings) // it may have been renamed since
				if now = dirs.find(path, p.identity()); now != "" && !r.resume(ctx, out, path, now, p) {
					now = ""
				}
			}
			if now == "" {
				now, _ = r.readCopy(ctx, out, path, p, packedOnly)
			}
			if now == "" {
				gone[path] = append(gone[path], p)
			} else {
				r.memory.drop(p.identity())
				r.elsewhere[p] = now != backup(path)
				newest[path] = newer(newest[path], now)
			}
		}
	}
	// Then only plain copies: one can have the number of a file whose packed
	// rest is to be known first, see displaced.
	for path, missing := range gone {
		lost := 0
		for _, p := range missing {
			if r.replaced(p) {
				continue
			}
			r.memory.drop(p.identity())
			if now, _ := r.readCopy(ctx, out, path, p, plainToo); now != "" {
				r.elsewhere[p] = now != path
				newest[path] = newer(newest[path], now)
				continue
			}
			lost++
			r.forgetPosition(p)
		}
		if lost > 0 {
			delete(newest, path)
			r.counts.gaps.Add(1)
			r.log.Warn("a file read before is gone, lines may have been lost (removed, moved to another folder, or packed by something other than gzip, while stopped?)",
				slog.String("path", path), slog.Int("files", lost))
		}
	}
	for path, last := range newest {
		if len(r.memory.candidates(looks[path].id, path)) == 0 {
			r.readBetween(ctx, out, path, last)
		}
	}
	return inPlace
}

// resumeMoved does the same for files that had their name at the first look and
// had lost it when they were to be opened.
func (r *follower) resumeMoved(ctx context.Context, out chan<- *Batch, inPlace map[string][]Position) {
	moved := make(map[string][]Position)
	looks := make(map[string]look)
	for path, stored := range inPlace {
		for _, p := range stored {
			// Another file can have its number by now.
			if t := r.tails[p.identity()]; t == nil || t.name != path {
				looks[path] = lookAt(path)
				moved[path] = append(moved[path], p)
			}
		}
	}
	r.resumeRotated(ctx, out, looks, moved)
}

// newer returns the one of two files that was written to last.
func newer(a, b string) string {
	fa, err := os.Stat(a)
	if err != nil {
		return b
	}
	if fb, err := os.Stat(b); err != nil || fa.ModTime().After(fb.ModTime()) {
		return a
	}
	return b
}

// readBetween reads the files that got and lost the name path while nobody
// looked: rotated ones that are newer than the last of those that were read
// then, which is now called now. It is by the position of a later file that the
// next start takes an earlier one for read, so they are made known one after the
// other, oldest first, and before the one that has the name.
func (r *follower) readBetween(ctx context.Context, out chan<- *Batch, path, now string) {
	fi, err := os.Stat(now)
	if err != nil {
		return
	}
	for _, sibling := range slices.Backward(related(path)) {
		then, err := os.Stat(sibling)
		if err != nil || !then.ModTime().After(fi.ModTime()) || !rotated(path, sibling) || r.names.covers(sibling) {
			continue
		}
		if r.opened(strings.TrimSuffix(sibling, ".gz")) {
			continue // it has been compressed since
		}
		l := lookAt(sibling)
		if l.err != nil || r.tails[l.id] != nil || len(r.memory.candidates(l.id, path)) > 0 || r.unpacking[l.id] {
			continue
		}
		p := Position{Log: r.o.Log, Path: path, Dev: l.id.dev, Ino: l.id.ino}
		begun := false
		switch {
		case filepath.Ext(sibling) == ".gz":
			var known <-chan struct{}
			if begun, known = r.unpack(ctx, out, path, sibling, p); known != nil {
				r.before[path] = known
			}
		case !compressed(sibling):
			begun = r.open(ctx, out, path, sibling, false, &beginning{between: true}) == nil
		}
		if !begun {
			r.counts.gaps.Add(1)
			r.log.Warn("a file that was rotated away while we were stopped is not read", slog.String("path", sibling))
			continue
		}
		r.log.Info("reading a file that came and went while we were stopped", slog.String("path", sibling))
	}
}

// opened reports whether an open file has this name, or had it to the last.
func (r *follower) opened(path string) bool {
	for _, t := range r.tails {
		if t.lastName() == path {
			return true
		}
	}
	return false
}

// lastName is what the file is called now or, if it was removed, was called then.
func (t *tail) lastName() string {
	raw, err := t.f.SyscallConn()
	if err != nil {
		return t.file.Path
	}
	name := ""
	err2 := raw.Control(func(fd uintptr) {
		name, err = os.Readlink("/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10))
	})
	if err != nil || err2 != nil {
		return t.file.Path
	}
	return strings.TrimSuffix(name, " (deleted)")
}

// rotated reports whether sibling has the name path with a number or a date
// added, as rotated files have, and maybe the ending of a compressed one.
func rotated(path, sibling string) bool {
	if compressed(sibling) {
		sibling = strings.TrimSuffix(sibling, filepath.Ext(sibling))
	}
	rest, ok := strings.CutPrefix(filepath.Base(sibling), filepath.Base(path))
	return ok && len(rest) > 1 && strings.Trim(rest, ".-_0123456789") == "" && strings.ContainsAny(rest, "0123456789")
}

// resume opens the rotated file now as one of the followed name path. It
// returns false if that isn't the file it was.
func (r *follower) resume(ctx context.Context, out chan<- *Batch, path, now string, p Position) bool {
	if filepath.Ext(now) == ".gz" {
		found, _ := r.unpack(ctx, out, path, now, p)
		return found
	}
	f, err := r.openSafely(now)
	if err != nil {
		r.log.Error("cannot open rotated log"+openHint(now, err), slog.String("path", now), slog.Any("err", err))
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	id, err := identify(fi)
	if err != nil || r.tails[id] != nil {
		return false
	}
	if _, ok, _, err := r.memory.match(f, id, fi.Size(), path); err != nil || !ok {
		return false
	}
	if err := r.open(ctx, out, path, now, true, nil); err != nil {
		r.log.Error("cannot open rotated log"+openHint(now, err), slog.String("path", now), slog.Any("err", err))
		return false
	}
	return true
}

// siblings finds files by identity in directories, each listed once.
type siblings map[string]map[identity]string

// find looks in the directory of path and, if path is a symbolic link, in that
// of the file it leads to. It returns "" if the file is in neither.
func (s siblings) find(path string, id identity) string {
	id.dev &^= packed
	if found := s.in(filepath.Dir(path))[id]; found != "" {
		return found
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return s.in(filepath.Dir(target))[id]
}

func (s siblings) in(dir string) map[identity]string {
	if files, ok := s[dir]; ok {
		return files
	}
	files := make(map[identity]string)
	s[dir] = files
	entries, err := os.ReadDir(dir)
	if err != nil {
		return files // path is then missing or unreadable too, and said
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue
		}
		if id, err := identify(fi); err == nil {
			files[id] = filepath.Join(dir, e.Name())
		}
	}
	return files
}
