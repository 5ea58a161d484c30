package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// name is a path that is followed, whatever file it leads to.
type name struct {
	path string
	glob bool // found by a glob and not named outright

	// settled is set once it is known whether there was a file at the start:
	// what appears later is read from its first byte.
	settled bool

	trouble string    // what was last said to be wrong with it
	retry   time.Time // when to try again after trouble
	state   State
}

// names expands patterns into the paths to follow.
type names struct {
	byPath   map[string]*name
	patterns []string // all, clean
	globs    []string
	begun    bool                // the globs have been looked at once
	before   func(p string) bool // whether a pattern was followed before
}

func newNames(patterns []string, before func(pattern string) bool) *names {
	n := &names{byPath: make(map[string]*name), before: before}
	for _, p := range patterns {
		p = filepath.Clean(p)
		n.patterns = append(n.patterns, p)
		if isGlob(p) {
			n.globs = append(n.globs, p)
			continue
		}
		n.byPath[p] = &name{path: p, settled: before(p), state: Waiting}
	}
	return n
}

// Wildcards are the characters that make a path a pattern.
const Wildcards = `*?[`

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, Wildcards) }

// Match returns the paths that one of a log's files, a path or a pattern,
// stands for at this moment. Folders that can't be looked into hold none.
func Match(pattern string) ([]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil || !isGlob(pattern) {
		return paths, err
	}
	return slices.DeleteFunc(paths, compressed), nil
}

// expand looks at the globs again. It returns those that match nothing, and an
// error for those that can't be understood.
func (n *names) expand() (empty []string, err error) {
	for _, pattern := range n.globs {
		paths, e := Match(pattern)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("pattern %q: %w", pattern, e))
			continue
		}
		for _, p := range paths {
			if n.byPath[p] == nil {
				n.byPath[p] = &name{path: p, glob: true, settled: n.begun || n.before(pattern), state: Waiting}
			}
		}
		if len(paths) == 0 {
			empty = append(empty, pattern)
		}
	}
	n.begun = true
	return empty, err
}

// covers reports whether a path is, or could be, one of the names.
func (n *names) covers(path string) bool {
	if n.byPath[path] != nil {
		return true
	}
	for _, pattern := range n.globs {
		if ok, _ := filepath.Match(pattern, path); ok && !compressed(path) {
			return true
		}
	}
	return false
}

// forget drops a name that a glob had found and that is gone.
func (n *names) forget(path string) { delete(n.byPath, path) }

// original is the followed name that path is a rotated one of by its looks
// (access.log.1, access.log-20261130), or "".
func (n *names) original(path string) string {
	dir, base := filepath.Split(path)
	for i := len(base) - 1; i > 0; i-- {
		switch base[i] {
		case '.', '-', '_':
			if n.byPath[dir+base[:i]] != nil {
				return dir + base[:i]
			}
		}
	}
	return ""
}

// Compressed reports whether a path has the ending of a compressed file: those
// are never followed.
func Compressed(path string) bool { return compressed(path) }

func compressed(path string) bool {
	switch filepath.Ext(path) {
	case ".gz", ".bz2", ".xz", ".zst":
		return true
	}
	return false
}

// missing reports whether the error only says that there is no such file yet.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

var errNowhere = errors.New("a symbolic link that leads nowhere")

// nowhere tells a symbolic link without a file from a name that isn't there: a
// glob goes on finding it.
func nowhere(path string, err error) error {
	if fi, e := os.Lstat(path); missing(err) && e == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%w: %w", errNowhere, err)
	}
	return err
}

// refusedHint says how to have a log read that was refused.
func refusedHint(err error) string {
	if errors.Is(err, errTooMany) {
		return " (max_files of the log)"
	}
	if other := new(shared); errors.As(err, &other) {
		return " (lead to each file from one log only; others like it are not said again, see tailban status)"
	}
	return " (" + insecureHint + ")"
}

// openHint guesses what to do about a log that can't be opened.
func openHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return " (may this user read it? on Debian the group adm can read logs)"
	case errors.Is(err, unix.EMFILE):
		return " (raise the limit of open files: LimitNOFILE= in the unit)"
	}
	return ""
}
