package config

import (
	"errors"
	"sort"
	"strings"
)

// maxDepth bounds tables and lists within each other, and the parts of a
// dotted key. The configuration needs five; what a decoder that recurses
// does with a million is not worth finding out.
const maxDepth = 16

var (
	errTooDeep = errors.New("nested too deeply")
	errSyntax  = errors.New("not TOML") // the decoder says it better
)

// scan finds where the keys of a TOML document stand. It is no validator: it
// follows valid documents (TOML 1.1) exactly, and stops at the first thing
// that surprises it. The error is nil, errSyntax or errTooDeep; line is where
// it stopped.
func scan(src string) (ps *positions, line int, err error) {
	s := &scanner{
		src:    trimBOM(src),
		out:    &positions{at: map[string]place{}},
		arrays: map[string]int{},
	}
	for i := range len(s.src) {
		if s.src[i] == '\n' {
			s.newlines = append(s.newlines, i)
		}
	}
	err = s.document()
	return s.out, s.line(), err
}

// trimBOM removes what the decoder removes, too.
func trimBOM(src string) string {
	for _, bom := range []string{"\xff\xfe", "\xfe\xff", "\xef\xbb\xbf"} {
		if rest, ok := strings.CutPrefix(src, bom); ok {
			return rest
		}
	}
	return src
}

type scanner struct {
	src      string
	i        int // offset of the next byte
	newlines []int
	out      *positions
	table    path           // of the last header
	arrays   map[string]int // how many [[headers]] each array of tables had, by path.id
}

// line is the line of the next byte.
func (s *scanner) line() int { return 1 + sort.SearchInts(s.newlines, s.i) }

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.src) {
		return s.src[s.i]
	}
	return 0
}

// take skips the text if it comes next.
func (s *scanner) take(text string) bool {
	if !strings.HasPrefix(s.src[s.i:], text) {
		return false
	}
	s.i += len(text)
	return true
}

// blanks skips spaces and tabs.
func (s *scanner) blanks() {
	for s.i < len(s.src) && (s.src[s.i] == ' ' || s.src[s.i] == '\t') {
		s.i++
	}
}

// space skips blanks, line ends and comments.
func (s *scanner) space() {
	for s.i < len(s.src) {
		switch s.src[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		case '#':
			s.comment()
		default:
			return
		}
	}
}

func (s *scanner) comment() {
	if n := strings.IndexByte(s.src[s.i:], '\n'); n >= 0 {
		s.i += n
	} else {
		s.i = len(s.src)
	}
}

func (s *scanner) document() error {
	for {
		s.space()
		if s.i >= len(s.src) {
			return nil
		}
		item := s.pair
		if s.peek() == '[' {
			item = s.header
		}
		if err := item(s.table); err != nil {
			return err
		}
	}
}

// header reads [a.b] or [[a.b]].
func (s *scanner) header(path) error {
	line := s.line()
	s.i++
	array := s.take("[")
	keys, err := s.keys()
	if err != nil {
		return err
	}
	if !s.take("]") || array && !s.take("]") {
		return errSyntax
	}
	s.table = s.open(keys, array)
	s.out.record(s.table, line)
	s.out.explicit = append(s.out.explicit, s.table)
	return nil
}

// open returns the path a header stands for. Where one of its keys is an
// array of tables, the latest element is meant; [[header]] makes a new one.
func (s *scanner) open(keys []string, array bool) path {
	var p path
	for i, k := range keys {
		p = p.key(k)
		if array && i == len(keys)-1 {
			s.arrays[p.id()]++
		}
		if n := s.arrays[p.id()]; n > 0 {
			p = p.elem(n - 1)
		}
	}
	return p
}

// pair reads key = value into the table at p.
func (s *scanner) pair(p path) error {
	line := s.line()
	keys, err := s.keys()
	if err != nil {
		return err
	}
	if !s.take("=") {
		return errSyntax
	}
	for _, k := range keys {
		p = p.key(k)
	}
	s.out.record(p, line)
	s.out.explicit = append(s.out.explicit, p)
	s.blanks()
	return s.value(p)
}

// keys reads the parts of a dotted key, and the blanks after it.
func (s *scanner) keys() ([]string, error) {
	var keys []string
	for {
		s.blanks()
		k, ok := s.keyPart()
		if !ok {
			return nil, errSyntax
		}
		if keys = append(keys, k); len(keys) > maxDepth {
			return nil, errTooDeep
		}
		s.blanks()
		if !s.take(".") {
			return keys, nil
		}
	}
}

func (s *scanner) keyPart() (string, bool) {
	start := s.i
	switch s.peek() {
	case '"':
		if !s.quoted() {
			return "", false
		}
		return unescape(s.src[start+1 : s.i-1])
	case '\'':
		if !s.literal() {
			return "", false
		}
		return s.src[start+1 : s.i-1], true
	}
	for s.i < len(s.src) && !strings.ContainsRune(" \t\r\n.=[]{}\"'#,", rune(s.src[s.i])) {
		s.i++
	}
	return s.src[start:s.i], s.i > start
}

// value skips the value of p, recording what is in it.
func (s *scanner) value(p path) error {
	if len(p) > 2*maxDepth {
		return errTooDeep
	}
	ok := true
	switch {
	case s.take("["):
		return s.list(p)
	case s.take("{"):
		return s.inlineTable(p)
	case s.take(`"""`):
		ok = s.multiline(`"""`, true)
	case s.take("'''"):
		ok = s.multiline("'''", false)
	case s.peek() == '"':
		ok = s.quoted()
	case s.peek() == '\'':
		ok = s.literal()
	default:
		start := s.i
		for s.i < len(s.src) && !strings.ContainsRune("\r\n,]}#", rune(s.src[s.i])) {
			s.i++
		}
		ok = s.i > start
	}
	if !ok {
		return errSyntax
	}
	return nil
}

func (s *scanner) list(p path) error {
	for n := 0; ; n++ {
		s.space()
		if s.take("]") {
			return nil
		}
		elem := p.elem(n)
		s.out.record(elem, s.line())
		if err := s.value(elem); err != nil {
			return err
		}
		s.space()
		if !s.take(",") && s.peek() != ']' {
			return errSyntax
		}
	}
}

func (s *scanner) inlineTable(p path) error {
	for {
		s.space()
		if s.take("}") {
			return nil
		}
		if err := s.pair(p); err != nil {
			return err
		}
		s.space()
		if !s.take(",") && s.peek() != '}' {
			return errSyntax
		}
	}
}
