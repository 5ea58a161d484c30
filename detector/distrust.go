package detector

import "errors"

// maxBroken is how many files a distrust remembers.
const maxBroken = 4096

// errDistrusted says why a line that parses is not counted.
var errDistrusted = errors.New("follows a line that doesn't parse")

// distrust finds lines that a client may have written: where a server doesn't
// escape line feeds, one in a user name makes of its line a half that doesn't
// parse and another that can look like any client's. The zero value trusts.
type distrust struct {
	on     bool
	broken map[file]struct{} // those whose last record did not parse
}

// file is what tells the files of a log apart.
type file struct {
	path     string
	dev, ino uint64
}

// parsed is told of each record whether it parses, and reports whether it is
// one not to be trusted: the first that parses after one that doesn't.
func (d *distrust) parsed(at *Line, ok bool) (distrusted bool) {
	if !d.on {
		return false
	}
	f := file{at.Path, at.Dev, at.Ino}
	if !ok {
		if len(d.broken) >= maxBroken { // files that are long gone
			clear(d.broken)
		}
		d.broken[f] = struct{}{}
		return false
	}
	if _, distrusted = d.broken[f]; distrusted {
		delete(d.broken, f)
	}
	return distrusted
}

// SkipAfterUnparsed says whether the first line that parses after one that
// doesn't, in the same file, counts as one that doesn't parse either.
func (l *Log) SkipAfterUnparsed(on bool) {
	if on != l.distrust.on {
		l.distrust = distrust{on: on, broken: map[file]struct{}{}}
	}
}
