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

	suspect identity // of the file that was refused, as strangers can write to it

	trouble   string    // what was last said to be wrong with it
	exhausted error     // likewise, if that is of all names
	retry     time.Time // when to try again after trouble
	state     State
}

// names expands patterns into the paths to follow.
type names struct {
	byPath   map[string]*name
	patterns []string // all, clean
	globs    []string
	begun    bool                // the globs have been looked at once
	denied   map[string][]string // by glob, the folders that couldn't be looked into the last time
	before   func(p string) bool // whether a pattern was followed before
}

func newNames(patterns []string, before func(pattern string) bool) *names {
	n := &names{byPath: make(map[string]*name), denied: make(map[string][]string), before: before}
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

// found is what became of a glob.
type found struct {
	pattern string
	paths   int
	err     error // it can't be understood, or not all of its folders looked into
}

// expand looks at the globs again.
func (n *names) expand() []found {
	var all []found
	for _, pattern := range n.globs {
		paths, err := Match(pattern)
		if err != nil {
			all = append(all, found{pattern, 0, fmt.Errorf("pattern %q: %w", pattern, err)})
			continue
		}
		for _, p := range paths {
			if n.byPath[p] == nil {
				settled := (n.begun || n.before(pattern)) && !inside(n.denied[pattern], p)
				n.byPath[p] = &name{path: p, glob: true, settled: settled, state: Waiting}
			}
		}
		n.denied[pattern] = barred(pattern)
		all = append(all, found{pattern, len(paths), deniedError(n.denied[pattern])})
	}
	n.begun = true
	return all
}

// unknown reports whether it can't be told yet what a pattern leads to.
func (n *names) unknown(pattern string) bool {
	if e := n.byPath[pattern]; e != nil && !e.glob {
		return !e.settled
	}
	return len(n.denied[pattern]) > 0 && !n.leads(pattern)
}

// leads reports whether a pattern has led to one of the names.
func (n *names) leads(pattern string) bool {
	for path := range n.byPath {
		if ok, err := filepath.Match(pattern, path); ok && err == nil {
			return true
		}
	}
	return false
}

// barred lists the folders that a glob leads to and that this user may not look
// into, where filepath.Glob finds nothing and says nothing.
func barred(glob string) (folders []string) {
	dir, base := filepath.Split(glob)
	dirs := []string{filepath.Clean(dir)}
	if isGlob(dir) {
		folders = barred(dirs[0])
		dirs, _ = filepath.Glob(dirs[0]) // that it is well-formed is known
	}
	mode := uint32(unix.X_OK)
	if isGlob(base) {
		mode |= unix.R_OK
	}
	for _, d := range dirs {
		// With the slash a file that a wildcard has found is no folder.
		if unix.Faccessat(unix.AT_FDCWD, d+"/", mode, unix.AT_EACCESS) == unix.EACCES {
			folders = append(folders, d)
		}
	}
	return folders
}

func deniedError(folders []string) error {
	if len(folders) == 0 {
		return nil
	}
	more := ""
	if n := len(folders) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("look into %s%s: %w", folders[0], more, fs.ErrPermission)
}

// inside reports whether path is in one of the folders, at any depth.
func inside(folders []string, path string) bool {
	return slices.ContainsFunc(folders, func(d string) bool { return strings.HasPrefix(path, strings.TrimSuffix(d, "/")+"/") })
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

// Covers reports whether a log of these files, paths and patterns, reads a file
// of that name.
func Covers(patterns []string, path string) bool {
	return newNames(patterns, func(string) bool { return false }).covers(path)
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

// reason is what is wrong with a file that is named beside it.
func reason(err error) string {
	of := new(fs.PathError)
	switch {
	case errors.Is(err, errNowhere):
		return errNowhere.Error()
	case errors.As(err, &of):
		return of.Err.Error()
	}
	return err.Error()
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

// inHome reports whether ProtectHome= of a unit is about the path.
func inHome(path string) bool {
	for _, dir := range []string{"/home/", "/root/", "/run/user/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}

// openHint guesses what to do about a log that can't be opened.
func openHint(path string, err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && inHome(path):
		return " (may this user read it? the unit hides homes: ProtectHome=)"
	case errors.Is(err, fs.ErrPermission):
		return " (may this user read it? on Debian the group adm can read logs)"
	case errors.Is(err, unix.EMFILE):
		return " (raise the limit of open files: LimitNOFILE= in the unit)"
	}
	return ""
}
