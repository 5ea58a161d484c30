package source

import "sync/atomic"

// FilesStats is a snapshot of what a Files is doing.
type FilesStats struct {
	Files []FileStats // open files and awaited names, by Path

	// Watching says whether inotify is used; if not, all files are polled.
	Watching bool

	Bytes     int64 // sent
	Cut       int64 // lines longer than the limit
	Truncated int64 // times a file was truncated in place
	Replaced  int64 // times a file's content was replaced in place
	Gaps      int64 // times lines may have been lost, those above included
	Errors    int64 // failed attempts to read
	Refused   int64 // times a file was not opened since too many are open
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
	Watching bool // inotify wakes its reading; otherwise it is polled
}

// counts live as long as their Files.
type counts struct {
	bytes, cut, truncated, replaced, gaps, errors, refused atomic.Int64
}
