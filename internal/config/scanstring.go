package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted skips a basic string, quotes included.
func (s *scanner) quoted() bool {
	for s.i++; s.i < len(s.src); s.i++ {
		switch s.src[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return true
		case '\n':
			return false
		}
	}
	s.i = len(s.src) // a backslash at the very end has led past it
	return false
}

// literal skips a literal string, quotes included.
func (s *scanner) literal() bool {
	n := strings.IndexAny(s.src[s.i+1:], "'\n")
	if n < 0 || s.src[s.i+1+n] == '\n' {
		return false
	}
	s.i += n + 2
	return true
}

// multiline skips what follows the opening quotes of a multi-line string, up
// to and with the closing ones. More quotes right before these belong to the
// string: up to two of them, but the decoder lets a third pass at times.
func (s *scanner) multiline(quotes string, escapes bool) bool {
	for s.i < len(s.src) {
		switch {
		case escapes && s.src[s.i] == '\\':
			s.i = min(s.i+2, len(s.src))
		case s.take(quotes):
			s.i = len(s.src) - len(strings.TrimLeft(s.src[s.i:], quotes[:1]))
			return true
		default:
			s.i++
		}
	}
	return false
}

// unescape undoes the escapes of a basic string.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		if rest == "" {
			return "", false
		}
		c := rest[0]
		rest = rest[1:]
		if i := strings.IndexByte(`btnfre"\`, c); i >= 0 {
			b.WriteByte("\b\t\n\f\r\x1b\"\\"[i])
			s = rest
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if digits == 0 || len(rest) < digits {
			return "", false
		}
		n, err := strconv.ParseUint(rest[:digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", false
		}
		b.WriteRune(rune(n))
		s = rest[digits:]
	}
}
