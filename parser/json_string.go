package parser

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// decode undoes the escapes of a string at the end of s.buf and returns the
// text there.
//
// Half a surrogate pair becomes U+FFFD, as it stands for nothing. Bytes that
// are no UTF-8 and raw control characters stay as they are: both are what the
// client sent, by way of a server that takes JSON less strictly than we
// could.
func (s *jsonScan) decode(raw []byte) ([]byte, error) {
	start := len(s.buf)
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			s.buf = append(s.buf, raw...)
			return s.buf[start:len(s.buf):len(s.buf)], nil
		}
		s.buf = append(s.buf, raw[:i]...)
		n, ok := s.escape(raw[i:])
		if !ok {
			return nil, errJSON
		}
		raw = raw[i+n:]
	}
}

// escape decodes the escape that b begins with and returns its length.
func (s *jsonScan) escape(b []byte) (n int, ok bool) {
	if len(b) < 2 {
		return 0, false
	}
	c := b[1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'v':
		c = '\v'
	case 'x':
		v, ok := hexDigits(b[2:], 2)
		s.buf = append(s.buf, byte(v))
		return 4, ok
	case 'u':
		return s.unicode(b)
	default:
		return 0, false
	}
	s.buf = append(s.buf, c)
	return 2, true
}

// unicode decodes \uHHHH, or two of them that are one character.
func (s *jsonScan) unicode(b []byte) (n int, ok bool) {
	r, ok := hexDigits(b[2:], 4)
	if !ok {
		return 0, false
	}
	n = 6
	if utf16.IsSurrogate(r) {
		var low rune
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			low, _ = hexDigits(b[8:], 4)
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			n = 12
		}
	}
	s.buf = utf8.AppendRune(s.buf, r)
	return n, true
}

// hexDigits reads the number that b's first n bytes are.
func hexDigits(b []byte, n int) (v rune, ok bool) {
	if len(b) < n {
		return 0, false
	}
	for _, c := range b[:n] {
		h := unhex(c)
		if h < 0 {
			return 0, false
		}
		v = v<<4 | rune(h)
	}
	return v, true
}
