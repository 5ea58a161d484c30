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
)

// filePrefix begins an entry of a list of addresses that names a file of
// them: one address or range a line, comments behind #.
const filePrefix = "file:"

const (
	maxListFile    = 1 << 20 // bytes
	maxListEntries = 20_000

	// maxListProblems is how many bad lines of a file are told one by one.
	maxListProblems = 100
)

// listFile reads a file of addresses. Lines that are there twice count once.
func (n node) listFile(path string, list addressList) []netip.Prefix {
	if !filepath.IsAbs(path) {
		n.bad(`must be an absolute path behind "file:"`)
		return nil
	}
	text, err := readListFile(path)
	if err != nil {
		n.bad("%v", err)
		return nil
	}
	before := len(n.doc.problems)
	entries := n.parseList(path, text, list)
	if more := len(n.doc.problems) - before - maxListProblems; more > 0 {
		next := n.doc.problems[before+maxListProblems]
		next.Value, next.Msg = "", fmt.Sprintf("from here on %d more lines are bad", more)
		n.doc.problems = append(n.doc.problems[:before+maxListProblems], next)
	}
	if len(entries) > maxListEntries {
		n.bad("has %d addresses and ranges: %d at most", len(entries), maxListEntries)
	}
	return entries
}

// parseList reads the lines of a file of addresses.
func (n node) parseList(path, text string, list addressList) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		item := node{doc: n.doc, at: Problem{File: path, Line: number, Key: list.key}, v: line}
		p, ok := ParsePrefix(line)
		switch {
		case !ok && isHostName(line):
			item.bad("host names stand in the configuration itself: a file holds addresses and ranges")
		case !ok:
			item.badAddress(line, `must be an address or a range like "10.0.0.0/8"`)
		case item.checkPrefix(p) && !seen[p]:
			seen[p] = true
			out = append(out, p)
			item.warnWide(p, list)
		}
	}
	return out
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
