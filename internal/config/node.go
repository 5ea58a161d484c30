package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// document collects what is found wrong while its values are read.
type document struct {
	name     string
	text     string
	pos      *positions
	problems Problems
	warnings Problems

	lists map[string]string // files of addresses as they were read, by path
	kept  map[string]string // what to take in place of some of them
	env   []string
}

// at returns a Problem about p without value and message.
func (d *document) at(p path) Problem {
	return Problem{File: d.name, Line: d.pos.line(p), Key: p.String()}
}

func (d *document) bad(p path, format string, args ...any) {
	pr := d.at(p)
	pr.Msg = fmt.Sprintf(format, args...)
	d.problems = append(d.problems, pr)
}

func (d *document) warn(p path, format string, args ...any) {
	pr := d.at(p)
	pr.Msg = fmt.Sprintf(format, args...)
	d.warnings = append(d.warnings, pr)
}

// node is a value of the document, or of an environment variable, with its
// place. Its getters return false after recording a problem.
type node struct {
	doc  *document
	path path    // nil for an environment variable
	at   Problem // where it stands
	v    any     // as the decoder returned it
}

// bad records a problem about the value, and shows it.
func (n node) bad(format string, args ...any) {
	pr := n.at
	pr.Value = render(n.v)
	pr.Msg = fmt.Sprintf(format, args...)
	n.doc.problems = append(n.doc.problems, pr)
}

// warn records that the value is allowed but likely not meant.
func (n node) warn(format string, args ...any) {
	pr := n.at
	pr.Msg = fmt.Sprintf(format, args...)
	n.doc.warnings = append(n.doc.warnings, pr)
}

// text returns a string that is not empty and has no control characters.
func (n node) text() (string, bool) {
	s, ok := n.v.(string)
	switch {
	case !ok:
		n.bad("must be text in quotes")
	case s == "":
		n.bad("must not be empty")
		return "", false
	case strings.ContainsFunc(s, unicode.IsControl):
		n.bad("must not contain control characters")
		return "", false
	}
	return s, ok
}

// whole returns a whole number from lo to hi.
func (n node) whole(lo, hi int) (int, bool) {
	i, ok := n.v.(int64)
	switch {
	case !ok || i < int64(lo):
		n.bad("must be a whole number, %d or more", lo)
		return 0, false
	case i > int64(hi):
		n.bad("must be at most %d", hi)
		return 0, false
	}
	return int(i), true
}

// flag returns a truth value.
func (n node) flag() (bool, bool) {
	b, ok := n.v.(bool)
	if !ok {
		n.bad("must be true or false, without quotes")
	}
	return b, ok
}

// duration returns a duration from lo to hi.
func (n node) duration(lo, hi time.Duration) (time.Duration, bool) {
	s, ok := n.v.(string)
	if i, isInt := n.v.(int64); isInt && i > 0 {
		n.bad(`must be in quotes and have a unit, like "%ds"`, i)
		return 0, false
	}
	if !ok {
		n.bad("%v", errDuration)
		return 0, false
	}
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		n.bad("%v", err)
	case d < lo || d > hi:
		n.bad("must be from %s to %s", FormatDuration(lo), FormatDuration(hi))
	default:
		return d, true
	}
	return 0, false
}

// size returns a number of bytes from lo to hi.
func (n node) size(lo, hi int64) (int64, bool) {
	var size int64
	var err error
	switch v := n.v.(type) {
	case int64:
		size = v
	case string:
		size, err = parseSize(v)
	default:
		err = errSize
	}
	switch {
	case err != nil:
		n.bad("%v", err)
	case size < lo || size > hi:
		n.bad("must be from %s to %s", formatSize(lo), formatSize(hi))
	default:
		return size, true
	}
	return 0, false
}

// oneOf returns one of the words.
func (n node) oneOf(words ...string) (string, bool) {
	s, ok := n.text()
	if !ok {
		return "", false
	}
	for _, w := range words {
		if s == w {
			return s, true
		}
	}
	n.bad("must be %s", orList(words))
	return "", false
}

// items returns the elements of a list, or the value itself if it is none.
func (n node) items() []node {
	list, ok := n.v.([]any)
	if !ok {
		if tables, isTables := n.v.([]map[string]any); isTables {
			for _, t := range tables {
				list = append(list, t)
			}
		} else {
			return []node{n}
		}
	}
	out := make([]node, len(list))
	for i, v := range list {
		p := n.path.elem(i)
		out[i] = node{doc: n.doc, path: p, at: n.doc.at(p), v: v}
	}
	return out
}

// texts returns a list of strings, each of which check accepts (it records
// the problem itself) and none of which is there twice. A single string is a
// list of one.
func (n node) texts(check func(item node, s string) bool) []string {
	var out []string
	once := unique{}
	for _, item := range n.items() {
		s, ok := item.text()
		if ok && once.first(item, s) && check(item, s) {
			out = append(out, s)
		}
	}
	return out
}

// anyText is a check for texts that accepts all.
func anyText(node, string) bool { return true }

// unique notices what is listed twice.
type unique map[string]bool

func (u unique) first(item node, id string) bool {
	if u[id] {
		item.bad("is listed twice")
		return false
	}
	u[id] = true
	return true
}

// render writes a value as TOML would, shortened to fit on a line.
func render(v any) string {
	const longest = 60
	s := renderAll(v)
	if r := []rune(s); len(r) > longest {
		return string(r[:longest-1]) + "…"
	}
	return s
}

func renderAll(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case time.Time:
		return v.Format(time.RFC3339)
	case []any:
		parts := make([]string, 0, len(v))
		for _, e := range v {
			parts = append(parts, render(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []map[string]any, map[string]any:
		return "{…}"
	default:
		return fmt.Sprint(v)
	}
}
