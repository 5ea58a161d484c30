package source

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// A mark is the position of a pattern: it says that the pattern was followed
// before. No file has device 0. A file that a marked pattern leads to and that
// has no position was born since, and is read from its first byte.

func markOf(log, pattern string) Position {
	sum := sha256.Sum256([]byte(pattern))
	return Position{Log: log, Path: pattern, Ino: binary.BigEndian.Uint64(sum[:])}
}

func isMark(p Position) bool { return p.Dev == 0 && p == markOf(p.Log, p.Path) }

// marked reports whether a pattern was followed before.
func (m *memory) marked(pattern string) bool {
	_, ok := m.marks[pattern]
	return ok
}

// mark tells, once, which patterns are followed now, when the positions of all
// files are known that they led to at the start: a kill in between must not
// make files born since of those that aren't. So a pattern of which that can't be
// told yet, as its folder can't be looked into, waits.
func (r *follower) mark() {
	if r.marked && len(r.unmarked) == 0 {
		return
	}
	if !r.allKnown() {
		return
	}
	if !r.marked {
		r.marked = true
		for _, p := range r.names.patterns {
			if !r.memory.marked(p) {
				r.unmarked = append(r.unmarked, p)
			}
			delete(r.memory.marks, p)
		}
		for _, p := range r.memory.marks { // no longer followed
			r.tell(p, true)
		}
		r.memory.marks = nil
	}
	r.unmarked = slices.DeleteFunc(r.unmarked, func(p string) bool {
		if r.names.unknown(p) {
			return false
		}
		r.tell(markOf(r.o.Log, p), false)
		return true
	})
}

// allKnown reports whether the positions of all files that are read have been
// handed on.
func (r *follower) allKnown() bool {
	for _, t := range r.tails {
		if !t.known.Load() {
			return false
		}
	}
	return !slices.ContainsFunc(r.unpackers, func(u *unpacker) bool { return !closed(u.announced) })
}

// tell sends a position without lines once the names have been looked at.
// final says that it should be forgotten.
func (r *follower) tell(p Position, final bool) {
	r.outbox = append(r.outbox, &Batch{
		File:   &File{Log: p.Log, Path: p.Path, Dev: p.Dev, Ino: p.Ino},
		Offset: p.Offset, Next: p.Offset, Position: p, Final: final,
	})
}
