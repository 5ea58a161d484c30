package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/parser"
)

// filePrefix begins an entry of a list of addresses that names a file of
// them: one address or range a line, or as providers publish them.
const filePrefix = "file:"

const (
	maxListFile    = lists.MaxSize
	maxListEntries = lists.MaxEntries

	// How many bad lines of a file are told one by one, and how many odd ones.
	maxListProblems = 100
	maxListWarnings = 5
)

// listFile reads a file of addresses. Lines that are there twice count once.
// date is the day of which they are: as the file says, or else that of its last
// change.
func (n node) listFile(path string, list addressList) (entries []netip.Prefix, date string) {
	if !filepath.IsAbs(path) {
		n.bad(`must be an absolute path behind "file:"`)
		return nil, ""
	}
	text, kept := n.doc.kept[path]
	if !kept {
		var err error
		if text, err = readListFile(path); err != nil {
			n.bad("%v", err)
			return nil, ""
		}
		n.warnListFile(path)
	}
	n.doc.lists[path] = text
	if strings.Trim(text, "\ufeff \t\r\n") == "" {
		n.bad("is empty, as a download that failed leaves it: a file that shall hold no addresses yet has a comment")
		return nil, ""
	}
	problems, warnings := len(n.doc.problems), len(n.doc.warnings)
	entries, date = n.parseList(path, text, list)
	n.doc.problems.shorten(problems+maxListProblems, "from here on %d more lines are bad")
	n.doc.warnings.shorten(warnings+maxListWarnings, "from here on %d more ranges are wide")
	if len(entries) > maxListEntries {
		n.bad("has %d addresses and ranges: %d at most", len(entries), maxListEntries)
	}
	if date == "" && !kept {
		if info, err := os.Stat(path); err == nil {
			date = info.ModTime().UTC().Format(time.DateOnly)
		}
	}
	return entries, date
}

// shorten says of problems beyond the first n only how many there are.
func (ps *Problems) shorten(n int, format string) {
	if more := len(*ps) - n; more > 1 { // one is as short as its number
		next := (*ps)[n]
		next.Value, next.Msg = "", fmt.Sprintf(format, more)
		*ps = append((*ps)[:n], next)
	}
}

// warnListFile says who, besides those who run the daemon, decides what a file
// of addresses holds. What can't be found out is left to reading.
func (n node) warnListFile(path string) {
	if target, err := os.Readlink(path); err == nil {
		n.warn("%s is a symbolic link to %s: whoever can change the link decides what is read", path, target)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	if uid, ok := owner(real); ok && uid != 0 && uid != os.Geteuid() {
		n.warn("%s belongs to user %d, who decides what is in it: give it to root", path, uid)
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			n.warn("anybody can put another file in the place of %s: chmod o-w %s takes that away", path, dir)
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// owner returns the user whom a file belongs to.
func owner(path string) (uid int, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// parseList reads the entries of a file of addresses, and the day of which it
// says that they are.
func (n node) parseList(path, text string, list addressList) (out []netip.Prefix, date string) {
	file, err := lists.Read(text)
	if bad := (*lists.Error)(nil); errors.As(err, &bad) {
		n.doc.problems = append(n.doc.problems, Problem{File: path, Line: bad.Line, Key: list.key, Msg: bad.Msg})
		return nil, ""
	}
	seen := map[netip.Prefix]bool{}
	for _, e := range file.Entries {
		item := node{doc: n.doc, at: Problem{File: path, Line: e.Line, Key: list.key}, v: e.Text}
		p, ok := parser.ParsePrefix(e.Text)
		switch {
		case !ok && isHostName(e.Text):
			item.bad("host names stand in the configuration itself: a file holds addresses and ranges")
		case !ok:
			item.badAddress(e.Text, `must be an address or a range like "10.0.0.0/8"`)
		case item.checkPrefix(p) && !seen[p]:
			seen[p] = true
			out = append(out, p)
			item.warnWide(p, list)
		}
	}
	return out, file.Created
}

// readListFile reads a file of addresses that not everybody can write to.
// What could block, such as a pipe, is not read.
func readListFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", unreadable(err)
	case !info.Mode().IsRegular():
		return "", errors.New("is no regular file")
	case info.Mode().Perm()&0o002 != 0:
		return "", errors.New("anybody can write to this file: chmod o-w takes that away")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxListFile+1))
	switch {
	case err != nil:
		return "", unreadable(err)
	case len(text) > maxListFile:
		return "", errors.New("is larger than " + formatSize(maxListFile))
	}
	return string(text), nil
}

// unreadable leaves the path out of an error, as the value shows it.
func unreadable(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return errors.New("cannot be read: " + err.Error())
}
