package source

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
)

// resumeRotated opens the files with a stored position that have lost their
// name since, under the name they have now. Those that are nowhere are counted
// as gaps and said.
func (r *follower) resumeRotated(ctx context.Context, out chan<- *Batch, looks map[string]look) {
	dirs := make(siblings)
	for path, stored := range r.memory.byPath {
		if !r.names.covers(path) {
			continue
		}
		lost := 0
		for _, p := range stored {
			l, ok := looks[path]
			if ok && (l.id == p.identity() || l.id.ino == p.Ino && p.HeadLen >= convincing) {
				continue // in its place; follow looks at it more closely
			}
			if ok && l.err != nil && !missing(l.err) {
				continue // can't tell yet
			}
			if r.tails[p.identity()] != nil {
				continue // an older position of a file just opened
			}
			now := dirs.find(path, p.identity())
			if now == "" || !r.resume(ctx, out, path, now) {
				lost++
				p.forget(ctx, out)
			}
		}
		if lost > 0 {
			r.counts.gaps.Add(1)
			r.log.Warn("a file read before is gone, lines may have been lost (rotated twice, or compressed, while stopped?)",
				slog.String("path", path), slog.Int("files", lost))
		}
	}
}

// forget says that the file of a stored position will never be read again, so
// that the next start doesn't look for it.
func (p Position) forget(ctx context.Context, out chan<- *Batch) {
	b := &Batch{
		File:   &File{Log: p.Log, Path: p.Path, Dev: p.Dev, Ino: p.Ino},
		Offset: p.Offset, Next: p.Offset, Position: p, Final: true,
	}
	select {
	case out <- b:
	case <-ctx.Done():
	}
}

// resume opens the rotated file now as one of the followed name path. It
// returns false if that isn't the file it was.
func (r *follower) resume(ctx context.Context, out chan<- *Batch, path, now string) bool {
	f, err := os.Open(now)
	if err != nil {
		r.log.Error("cannot open rotated log"+openHint(err), slog.String("path", now), slog.Any("err", err))
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	id, err := identify(fi)
	if err != nil {
		return false
	}
	if _, ok, _, err := r.memory.match(f, id, fi.Size(), path); err != nil || !ok {
		return false
	}
	if err := r.open(ctx, out, path, now, true); err != nil {
		r.log.Error("cannot open rotated log"+openHint(err), slog.String("path", now), slog.Any("err", err))
		return false
	}
	return true
}

// siblings finds files by identity in directories, each listed once.
type siblings map[string]map[identity]string

// find looks in the directory of path and, if path is a symbolic link, in that
// of the file it leads to. It returns "" if the file is in neither.
func (s siblings) find(path string, id identity) string {
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
