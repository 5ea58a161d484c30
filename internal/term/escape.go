// Package term makes texts of others fit to be shown on a terminal: log
// lines, user agents and reasons may hold what moves the cursor, changes
// colours, reorders or hides.
package term

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks may follow a character. Scripts get by
// with it, and marks piled up can't cover the lines above.
const maxMarks = 4

// Escape returns s with everything that is not plainly visible written out:
//
//   - \t, \n, \r, and \xNN for other control characters of ASCII and for bytes
//     that are not UTF-8;
//   - \u{N…}, in hexadecimal, for other control and format characters (among
//     them those that change the direction of text), separators and spaces
//     other than the plain one, characters that show nothing, combining marks
//     that have nothing to combine with or are more than four in a row, and
//     code points without a character;
//   - \\ for a backslash.
//
// Since a backslash is doubled, the result is unambiguous: texts that differ
// look different, and nothing that is shown as escaped was written like that
// by somebody. Quotes stay as they are.
func Escape(s string) string {
	if plain(s) {
		return s
	}
	return string(Append(make([]byte, 0, len(s)+len(s)/2), s))
}

// Append appends Escape(s) to b.
func Append(b []byte, s string) []byte {
	marks := maxMarks // as there is nothing to combine with
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		shown := visible(r) && !(r == utf8.RuneError && size == 1)
		switch {
		case shown && unicode.Is(unicode.M, r):
			shown = marks < maxMarks
			marks++
		case shown:
			marks = 0
		default:
			marks = maxMarks
		}
		if shown {
			b = append(b, s[i:i+size]...)
		} else {
			b = appendEscape(b, r, s[i], size)
		}
		i += size
	}
	return b
}

// plain reports whether s is printable ASCII that needs no escapes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// visible reports whether a character shows as itself.
func visible(r rune) bool {
	return r != '\\' && strconv.IsPrint(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		r != '\u2800' // a Braille pattern without dots: one more space
}

// appendEscape writes out a character of size bytes, of which c is the first.
func appendEscape(b []byte, r rune, c byte, size int) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '\\':
		return append(b, `\\`...)
	case r == '\t':
		return append(b, `\t`...)
	case r == '\n':
		return append(b, `\n`...)
	case r == '\r':
		return append(b, `\r`...)
	case size == 1:
		return append(b, '\\', 'x', hex[c>>4], hex[c&15])
	}
	b = append(b, `\u{`...)
	b = strconv.AppendInt(b, int64(r), 16)
	return append(b, '}')
}
