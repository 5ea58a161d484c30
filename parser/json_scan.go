package parser

import (
	"bytes"
	"errors"
)

// maxJSONDepth is how deep objects and arrays may be nested in a line.
const maxJSONDepth = 64

// errLineEnd says that a line ended inside its object.
var errLineEnd = errors.New("end of line")

// jsonValue is what stood at the end of a path.
type jsonValue struct {
	text   []byte // decoded; nil: null, or nothing there
	number bool
}

// jsonScan reads a line once, from left to right, and keeps what the paths
// lead to. Everything else is checked for its grammar only, and strings there
// only for where they end.
type jsonScan struct {
	line  []byte
	pos   int
	depth int
	runs  uint64 // lines read; see jsonNode.seen
	got   [jsonFieldCount]jsonValue
	buf   []byte // decoded strings
}

// run reads a line that begins with the first byte of its value.
func (s *jsonScan) run(line []byte, root *jsonNode) error {
	s.line, s.pos, s.depth, s.buf = line, 0, 0, s.buf[:0]
	s.runs++
	clear(s.got[:])
	if line[0] != '{' {
		return errJSON
	}
	if err := s.object(root); err != nil {
		return err
	}
	if _, err := s.next(); err != errLineEnd {
		return errJSON
	}
	return nil
}

// next skips blanks and returns the byte behind them without taking it.
func (s *jsonScan) next() (byte, error) {
	for ; s.pos < len(s.line); s.pos++ {
		switch c := s.line[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c, nil
		}
	}
	return 0, errLineEnd
}

// value reads any value. n is the place it is at; nil if nothing is wanted
// there.
func (s *jsonScan) value(n *jsonNode) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	if n != nil && n.field != jsonNone {
		return s.wanted(c, n)
	}
	switch c {
	case '{':
		return s.object(n)
	case '[':
		return s.array(n)
	case '"':
		_, _, err := s.string()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	_, err = s.number()
	return err
}

// object reads an object, which begins here.
func (s *jsonScan) object(n *jsonNode) error {
	if err := s.enter(); err != nil {
		return err
	}
	c, err := s.next()
	if err != nil {
		return err
	}
	for first := true; c != '}' || !first; first = false {
		if c != '"' {
			return errJSON
		}
		child, err := s.key(n)
		if err != nil {
			return err
		}
		if c, err = s.next(); err != nil {
			return err
		}
		if c != ':' {
			return errJSON
		}
		s.pos++
		if err := s.value(child); err != nil {
			return err
		}
		if c, err = s.next(); err != nil {
			return err
		}
		if c == '}' {
			break
		}
		if c != ',' {
			return errJSON
		}
		s.pos++
		if c, err = s.next(); err != nil {
			return err
		}
	}
	s.leave()
	return nil
}

// array reads an array, which begins here.
func (s *jsonScan) array(n *jsonNode) error {
	return s.elements(func(i int) error { return s.value(n.at(i)) })
}

// elements reads an array and calls each for the value of every element,
// which each must take.
func (s *jsonScan) elements(each func(i int) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	c, err := s.next()
	if err != nil {
		return err
	}
	for i := 0; c != ']' || i > 0; i++ {
		if err := each(i); err != nil {
			return err
		}
		if c, err = s.next(); err != nil {
			return err
		}
		if c == ']' {
			break
		}
		if c != ',' {
			return errJSON
		}
		s.pos++
	}
	s.leave()
	return nil
}

func (s *jsonScan) enter() error {
	s.pos++
	if s.depth++; s.depth > maxJSONDepth {
		return errNesting
	}
	return nil
}

func (s *jsonScan) leave() {
	s.pos++
	s.depth--
}

// key reads a key and returns the place behind it, which must be a new one.
func (s *jsonScan) key(n *jsonNode) (*jsonNode, error) {
	raw, escaped, err := s.string()
	if err != nil || n == nil || len(n.keys) == 0 {
		return nil, err
	}
	if escaped {
		start := len(s.buf)
		raw, err = s.decode(raw)
		s.buf = s.buf[:start]
		if err != nil {
			return nil, err
		}
	}
	child := n.find(raw)
	if child == nil {
		return nil, nil
	}
	if child.seen == s.runs {
		return nil, errDuplicate
	}
	child.seen = s.runs
	return child, nil
}

// wanted reads the value of a field, which begins with c.
func (s *jsonScan) wanted(c byte, n *jsonNode) error {
	v := &s.got[n.field]
	switch {
	case c == '"':
		raw, escaped, err := s.string()
		if err == nil && escaped {
			raw, err = s.decode(raw)
		}
		if err != nil {
			return err
		}
		v.text = raw
		return nil
	case c == 'n':
		return s.literal("null")
	case c == '[' && n.all:
		text, err := s.joined(n.field)
		v.text = text
		return err
	case c == '-' || '0' <= c && c <= '9':
		text, err := s.number()
		v.text, v.number = text, true
		return err
	}
	return n.field.malformed()
}

// joined reads an array of strings and joins them.
func (s *jsonScan) joined(field jsonField) ([]byte, error) {
	start := len(s.buf)
	err := s.elements(func(i int) error {
		if c, err := s.next(); err != nil {
			return err
		} else if c != '"' {
			return field.malformed()
		}
		raw, escaped, err := s.string()
		if err != nil {
			return err
		}
		if i > 0 {
			s.buf = append(s.buf, ", "...)
		}
		if !escaped {
			s.buf = append(s.buf, raw...)
			return nil
		}
		_, err = s.decode(raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.buf[start:len(s.buf):len(s.buf)], nil
}

// string reads a string, which begins here, and returns what is between its
// quotes.
func (s *jsonScan) string() (raw []byte, escaped bool, err error) {
	b := s.line[s.pos+1:]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, false, errLineEnd
	}
	// Apache writes an empty user name as "" and so, between the quotes of a
	// format, """". A client can't write a quote of its own.
	if end == 0 && len(b) >= 3 && b[1] == '"' && b[2] == '"' && (len(b) == 3 || bytes.IndexByte([]byte(",} \t]"), b[3]) >= 0) {
		s.pos += 4
		return b[:0], false, nil
	}
	i := bytes.IndexByte(b[:end], '\\')
	if i < 0 {
		s.pos += end + 2
		return b[:end], false, nil
	}
	for i < len(b) {
		switch b[i] {
		case '\\':
			i += 2
		case '"':
			s.pos += i + 2
			return b[:i], true, nil
		default:
			i++
		}
	}
	return nil, false, errLineEnd
}

// literal takes one of the three words.
func (s *jsonScan) literal(word string) error {
	rest := s.line[s.pos:]
	if len(rest) < len(word) {
		if word[:len(rest)] == string(rest) {
			return errLineEnd
		}
		return errJSON
	}
	if string(rest[:len(word)]) != word {
		return errJSON
	}
	s.pos += len(word)
	return nil
}

// number takes a number. One that the line ends with may be half of it.
func (s *jsonScan) number() ([]byte, error) {
	start := s.pos
	s.skip('-')
	zero := s.skip('0')
	if n := s.digits(); !zero && n == 0 || zero && n > 0 {
		return nil, s.orEnd()
	}
	if s.skip('.') && s.digits() == 0 {
		return nil, s.orEnd()
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		if s.digits() == 0 {
			return nil, s.orEnd()
		}
	}
	if s.pos == len(s.line) {
		return nil, errLineEnd
	}
	return s.line[start:s.pos], nil
}

// orEnd is the error for a byte that should be another one.
func (s *jsonScan) orEnd() error {
	if s.pos == len(s.line) {
		return errLineEnd
	}
	return errJSON
}

func (s *jsonScan) skip(c byte) bool {
	if s.pos < len(s.line) && s.line[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *jsonScan) digits() (n int) {
	for s.pos < len(s.line) && '0' <= s.line[s.pos] && s.line[s.pos] <= '9' {
		s.pos++
		n++
	}
	return n
}
