package source

import "bytes"

// noText says what a file is that begins with these bytes, if it is one of the
// kinds that a pattern or a wrong path leads to and that have no lines to read.
func noText(begin []byte) string {
	for _, k := range []struct{ magic, is string }{
		{"\x1f\x8b", "compressed (gzip)"},
		{"BZh", "compressed (bzip2)"},
		{"\xfd7zXZ\x00", "compressed (xz)"},
		{"\x28\xb5\x2f\xfd", "compressed (zstd)"},
		{"\x7fELF", "a program"},
		{"LPKSHHRH", "a file of the journal: use journal ="},
		{"SQLite format 3\x00", "a database (SQLite)"},
		{"\xff\xfe", "text in UTF-16: have it written in UTF-8"},
		{"\xfe\xff", "text in UTF-16: have it written in UTF-8"},
	} {
		if bytes.HasPrefix(begin, []byte(k.magic)) {
			return k.is
		}
	}
	// UTF-16 without a mark: every second byte of a line of ASCII is zero.
	if len(begin) >= 16 && zeroEverySecond(begin[:16]) {
		return "text in UTF-16: have it written in UTF-8"
	}
	return ""
}

func zeroEverySecond(p []byte) bool {
	var zeros [2]int
	for i, c := range p {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(p) / 2
	return zeros[0] == half && zeros[1] == 0 || zeros[1] == half && zeros[0] == 0
}
