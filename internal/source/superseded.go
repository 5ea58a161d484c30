package source

import "slices"

// superseded is a stored position that can be forgotten as soon as that of the
// copy that is read instead is known.
type superseded struct {
	Position
	known <-chan struct{} // closed when it is; nil: with those of the files at the start
}

// supersede forgets the positions of files whose copies are read by now, and
// those of compressed files that have been read.
func (r *follower) supersede(looks map[string]look) {
	kept := r.superseded[:0]
	for _, s := range r.superseded {
		other := r.tails[s.identity()] // whose position replaces it
		if !r.marked || s.known != nil && !closed(s.known) || other != nil && !other.known.Load() {
			kept = append(kept, s)
			continue
		}
		r.forgetPosition(s.Position)
	}
	r.superseded = kept
	if !r.allKnown() {
		return // a position may replace the one a copy was found by
	}
	r.unpackers = slices.DeleteFunc(r.unpackers, func(u *unpacker) bool {
		// Not before what it was found by, nor while the file that has the name
		// is unknown, as that says that all before it are known: it would be
		// found and read again.
		l, ok := looks[u.at.Path]
		if !ok || l.err != nil || !r.known(u.at.Path, l) {
			return false
		}
		needed := slices.ContainsFunc(kept, func(s superseded) bool { return s.known == nil || s.known == u.announced })
		if needed || !closed(u.finished) {
			return false
		}
		r.tell(u.at, true)
		return true
	})
}

// replaced reports whether a stored position is to be forgotten in favour of
// another.
func (r *follower) replaced(p Position) bool {
	return slices.ContainsFunc(r.superseded, func(s superseded) bool { return s.Position == p })
}

// displaced returns what to wait for before a position is told for id, if what
// is stored under it is that of another file, which had this number before, and
// leads to a copy whose position is not known yet. It may be nil.
func (r *follower) displaced(id identity) <-chan struct{} {
	for _, s := range r.superseded {
		if s.identity() == id && s.known != nil && !closed(s.known) {
			return s.known
		}
	}
	return nil
}

// forgetPosition forgets the position of a file that is gone, unless its number
// is another file's by now: what is stored is then that one's.
func (r *follower) forgetPosition(p Position) {
	if !r.unpacking[p.identity()] {
		r.tell(p, true) // unless, then, there is a tail
	}
}
