package source

import (
	"sync/atomic"
	"time"
)

// FilesStats is a snapshot of what a Files is doing.
type FilesStats struct {
	Files []FileStats // open files and awaited names, by Path

	// Watching says whether inotify is used; if not, all files are polled.
	Watching bool

	// Polled is how many open files are polled though inotify is used: its
	// watches are used up, or the file system doesn't tell of changes.
	Polled int

	Bytes     int64 // of lines sent
	Lines     int64
	Cut       int64 // lines longer than the limit
	Truncated int64 // times a file was truncated in place
	Replaced  int64 // times a file's content was replaced in place
	Gaps      int64 // times lines may have been lost, those above included
	Errors    int64 // failed attempts to read
	GapBytes  int64 // lost in them, where it is known
	Zeros     int64 // zero bytes that were skipped between lines
	Refused   int64 // times a file was refused: see State Refused
}

// FileStats is about one open file, or one name without a file.
type FileStats struct {
	Path     string // the name that is followed
	Opened   string // the name the open file had when it was opened, if any
	Dev, Ino uint64 // of the open file
	Read     int64  // bytes sent
	Offset   int64  // where reading goes on
	Behind   int64  // bytes in the file beyond Offset, a partial line included
	State    State
	Err      string    // what is wrong, if State says that something is
	Lines    int64     // sent
	Gaps     int64     // bytes lost, where it is known
	Zeros    int64     // zero bytes skipped
	Last     time.Time // when a line was last read; zero: none was
	Since    time.Time // since when something is left to read; zero: it was read to its end
	Watching bool      // inotify wakes its reading; otherwise it is polled
}

// counts live as long as their Files.
type counts struct {
	bytes, lines, cut, truncated, replaced, gaps, gapBytes, zeros, errors, refused atomic.Int64
}
