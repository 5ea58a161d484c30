package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or likely wrong, with the
// configuration.
type Problem struct {
	File  string // as given to Load or Parse, or a file that it names; empty for an environment variable
	Line  int    // first line is 1; 0: no line in particular
	Key   string // dotted, as in "jails.web.limit", or the name of an environment variable; may be empty
	Value string // as it would be written in TOML, shortened; empty if the value doesn't matter
	Msg   string // what is wrong, and what would be right
}

// String returns the problem on one line, for instance
//
//	jails.toml:12: jails.web.limit = "fifty": must be a whole number, 0 or more
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key)
		if p.Value != "" {
			b.WriteString(" = " + p.Value)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Msg)
	return b.String()
}

// Problems are all that was found, each once: those of the file first, in
// the order of lines, then those of each file that it names, by name, and
// those of the environment last.
type Problems []Problem

// Error returns the problems, one on each line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns ps in the order that Problems promises; main is the name of
// the file that names the others.
func (ps Problems) sorted(main string) Problems {
	rank := func(p Problem) int {
		switch p.File {
		case "":
			return 2
		case main:
			return 0
		default:
			return 1
		}
	}
	out := slices.Clone(ps)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	seen := make(map[Problem]bool, len(out))
	return slices.DeleteFunc(out, func(p Problem) bool {
		dup := seen[p]
		seen[p] = true
		return dup
	})
}
