package source

import (
	"bytes"
	"io"
	"os"
	"slices"
	"syscall"
)

// A file is taken for another form of one that was read, by what it holds, only
// where that one can't be found: clients have a say in what a log holds, and a
// flood fills a new file with the lines of the old one. In doubt a file is read
// from its first byte: a line that counts twice is better than an attack that
// nobody sees.

// rewritten reports whether a file that is new under a name holds what its
// predecessor held, as one that an editor has stored, and up to where.
func (r *follower) rewritten(f *os.File, size int64, path string, at *Position) bool {
	found := false
	for _, s := range r.seenAs(path) {
		if s.at.Offset >= at.Offset && r.storedAnew(f, size, path, s.at) {
			*at, found = s.at, true
		}
	}
	return found
}

// storedAnew reports whether the file f, which has the name path now, holds what
// was read of the one that at is a position of, which is gone.
func (r *follower) storedAnew(f *os.File, size int64, path string, at Position) bool {
	if at.HeadLen < convincing {
		return false
	}
	if ok, err := headAgrees(f, size, at); err != nil || !ok {
		return false
	}
	return varied(f, at.HeadLen) && r.gone(path, at)
}

// varied reports whether the first n bytes of a file hold two lines that differ.
// One line again and again is what any flood looks like within a second.
func varied(f io.ReaderAt, n int64) bool {
	buf := make([]byte, min(n, headMax))
	k, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return false
	}
	first, rest, _ := bytes.Cut(buf[:k], []byte{'\n'})
	for line := range bytes.SplitSeq(rest, []byte{'\n'}) {
		if !bytes.HasPrefix(first, line) { // the last one may be cut
			return true
		}
	}
	return false
}

// gone reports whether the file that was read as path up to at has no name any
// more but that of an editor's backup.
func (r *follower) gone(path string, at Position) bool {
	name := make(siblings).find(path, at.identity())
	if name == backup(path) {
		return true
	}
	if t := r.tails[at.identity()]; t != nil {
		return name == "" && t.unlinked()
	}
	if name == "" {
		return true
	}
	f, err := r.openSafely(name)
	if err != nil {
		return false // can't tell
	}
	defer f.Close() //nolint:errcheck // only read
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	agrees, err := headAgrees(f, fi.Size(), at)
	return err == nil && !agrees // its number is another file's
}

// backup is where editors put a file that they store anew.
func backup(path string) string { return path + "~" }

// seenAs lists how far the files were read that have a name, or had it and were
// truncated or removed; not those that were given another one.
func (r *follower) seenAs(path string) []seen {
	out := slices.Clone(r.past[path])
	for _, p := range r.memory.byPath[path] {
		if !r.elsewhere[p] {
			out = append(out, seen{at: p})
		}
	}
	named := lookAt(path)
	for id, t := range r.tails {
		if t.name != path || id != named.id && !t.unlinked() && make(siblings).find(path, id) != backup(path) {
			continue
		}
		if s := t.now.Load(); s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// unlinked reports whether no name leads to the file any more.
func (t *tail) unlinked() bool {
	fi, err := t.f.Stat()
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
