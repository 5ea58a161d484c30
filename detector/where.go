package detector

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Where holds the conditions of a jail: an event counts if every non-empty
// list of Match holds a value that fits, and no list of Not does.
type Where struct {
	Match Conditions
	Not   Conditions
}

// Conditions are lists of alternatives, one list per field. Empty lists say
// nothing.
type Conditions struct {
	Methods   []string // exact
	Paths     []PathPattern
	Status    []StatusRange
	Agents    []string // substrings, matched without regard to case
	Protocols []string // "HTTP/1.1"; see HasProtocol

	// FalseCrawler is for clients that claim, by their agent, to be a wanted
	// machine that has ranges or domains, and that are known to be none of those
	// whose agent they have.
	FalseCrawler bool
}

// Empty reports whether nothing is said.
func (c *Conditions) Empty() bool {
	return len(c.Methods) == 0 && len(c.Paths) == 0 && len(c.Status) == 0 && len(c.Agents) == 0 && len(c.Protocols) == 0 && !c.FalseCrawler
}

// HasProtocol reports whether a protocol, as logged, is among some. A version
// that ends in ".0" is the same without: servers write both HTTP/2.0 and
// HTTP/2.
func HasProtocol(protocols []string, logged []byte) bool {
	logged = bytes.TrimSuffix(logged, []byte(".0"))
	for _, p := range protocols {
		if string(logged) == strings.TrimSuffix(p, ".0") {
			return true
		}
	}
	return false
}

// PathPattern matches a normalised path: exactly ("/sign-in"), by prefix
// ("/static/*") or by a regular expression in RE2 syntax ("~^/wp-").
type PathPattern struct {
	text   string
	exact  string
	prefix string
	re     *regexp.Regexp
}

// ParsePathPattern reads a pattern as written in the configuration. Errors
// say what is wrong and what is allowed, without repeating the pattern.
func ParsePathPattern(s string) (PathPattern, error) {
	p := PathPattern{text: s}
	switch {
	case strings.HasPrefix(s, "~"):
		re, err := regexp.Compile(s[1:])
		if err != nil {
			return p, fmt.Errorf("not a regular expression (RE2 syntax): %w", err)
		}
		if len(s) == 1 {
			return p, fmt.Errorf("an empty regular expression matches every path: leave the key out instead")
		}
		p.re = re
	case !strings.HasPrefix(s, "/"):
		return p, fmt.Errorf(`a path begins with "/", a regular expression with "~"`)
	case strings.ContainsAny(s, "?#"):
		return p, fmt.Errorf("paths are matched without query and fragment: a pattern with ? or # never matches")
	case strings.Contains(strings.TrimSuffix(s, "*"), "*"):
		return p, fmt.Errorf(`"*" stands at the end only ("/x/*"): use "~" and a regular expression`)
	case strings.HasSuffix(s, "*"):
		p.prefix = s[:len(s)-1]
	default:
		p.exact = s
	}
	return p, nil
}

func (p PathPattern) String() string { return p.text }

func (p *PathPattern) match(path []byte) bool {
	switch {
	case p.re != nil:
		return p.re.Match(path)
	case p.exact != "":
		return string(path) == p.exact
	default:
		return len(path) >= len(p.prefix) && string(path[:len(p.prefix)]) == p.prefix
	}
}

// StatusRange is a range of status codes, both ends included.
type StatusRange struct{ From, To int }

// ParseStatus reads "404", "4xx" or "500-599". Errors say what is allowed.
func ParseStatus(s string) (StatusRange, error) {
	bad := fmt.Errorf(`a status is a number (404), a class ("4xx") or a range ("500-599"), between 100 and 599`)
	var r StatusRange
	var err error
	if from, to, ok := strings.Cut(s, "-"); ok {
		if r.From, err = strconv.Atoi(strings.TrimSpace(from)); err != nil {
			return r, bad
		}
		if r.To, err = strconv.Atoi(strings.TrimSpace(to)); err != nil {
			return r, bad
		}
	} else if len(s) == 3 && strings.EqualFold(s[1:], "xx") {
		r.From = int(s[0]-'0') * 100
		r.To = r.From + 99
	} else {
		if r.From, err = strconv.Atoi(s); err != nil {
			return r, bad
		}
		r.To = r.From
	}
	if r.From < 100 || r.To > 599 || r.From > r.To {
		return r, bad
	}
	return r, nil
}

func (r StatusRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}
