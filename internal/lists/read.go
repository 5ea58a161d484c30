package lists

import (
	"strings"
	"time"
)

// Limits of a file of ranges. Who publishes more than that, or ranges wider than
// these, has made a mistake; or else it is a way to switch the daemon off
// without saying so.
const (
	MaxSize    = 1 << 20 // bytes
	MaxEntries = 20_000

	Widest4 = 8
	Widest6 = 16
)

// Entry is an address or a range as a file has it.
type Entry struct {
	Text string
	Line int // 1-based
}

// File is what a file of ranges says.
type File struct {
	Entries []Entry
	Created string // the day on which it was made, as YYYY-MM-DD, if it says so
}

// Error is about a file that can't be read as any of the forms known.
type Error struct {
	Line int // 1-based; 0: all of it is meant
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Read reads a file of ranges in the forms in which they are published: one a
// line, with comments behind #; or JSON, see [readJSON]. Whether the entries are
// addresses is for the caller to find out, who can say more about each that
// isn't. An error is an *Error.
func Read(text string) (*File, error) {
	if len(text) > MaxSize {
		return nil, &Error{Msg: "is larger than 1 MiB"}
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if begin := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(begin, "{") || strings.HasPrefix(begin, "[") {
		return readJSON(text)
	}
	f := &File{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			f.Entries = append(f.Entries, Entry{line, number})
		}
	}
	return f, nil
}

// day returns the day of a time as publishers write it, with or without a zone;
// "" if it is none.
func day(text string) string {
	if len(text) < len(time.DateOnly) {
		return ""
	}
	text = text[:len(time.DateOnly)]
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return ""
	}
	return text
}
