package source

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

const (
	defaultMaxLine = 256 << 10
	defaultPoll    = time.Second
	defaultGrace   = 2 * time.Minute

	globEvery = time.Second

	// DefaultMaxFiles is how many files one log may have open at once.
	DefaultMaxFiles = 4096
)

// FilesOptions says which files to follow, and how. Log and Patterns are
// required.
type FilesOptions struct {
	// Log is the name of the log, for File, Position and messages.
	Log string

	// Patterns are absolute paths, and globs as of path/filepath. A path is
	// waited for until it exists. Globs are looked at again and again and
	// never match compressed files (.gz, .bz2, .xz, .zst).
	Patterns []string

	// Resume holds the positions stored for this log, in any order; those of
	// other logs are ignored. There may be several of one path: its current
	// file and rotated ones that were not finished.
	Resume []Position

	// MaxLine is the length in bytes, without line feed, of the longest line
	// that is sent whole. Default 256 KiB.
	MaxLine int

	// Logger gets what an administrator should know; nil discards it.
	Logger *slog.Logger

	// Poll is how often names are looked at, and files that inotify is
	// silent about: the longest delay of noticing a rotation or, without
	// inotify, of a line after a long silence. Where Folders and inotify tell
	// all, it is a tenth as often. While lines come in or names change, looks
	// are more frequent by themselves. Each costs two system calls per file.
	// Default 1 s.
	Poll time.Duration

	// Grace is how long a file that has lost its name to another, or was
	// deleted, must have been quiet before it is let go: servers write to the
	// old file until they are told to re-open, some of their children longer.
	// Default 2 min.
	Grace time.Duration

	// FromStart reads files that exist at the start and have no stored
	// position from their first byte. Otherwise only what is appended to
	// them counts.
	FromStart bool

	// StartAt says where to begin in a file that exists at the first start, of
	// the given size, so that what went on just before is seen. It may be
	// inside of a line, the rest of which is left out. nil: at the end.
	StartAt func(f io.ReaderAt, size int64) int64

	// MaxFiles is how many files may be open at once. Default 4096. Further
	// ones are refused until there is room; deleted files give way to them.
	MaxFiles int

	// AllowInsecure reads logs that strangers can write to, or replace: see
	// State Refused.
	AllowInsecure bool

	// Claims says which files other logs read; nil: there are no others.
	Claims *Claims

	// Folders tells what happens in the folders of the patterns, so that names
	// need to be looked at less often; nil: nobody does.
	Folders *Folders

	// Container says in what a container's runtime has wrapped the lines.
	Container Container

	// NoInotify only polls.
	NoInotify bool
}

// Files follows log files by name, through rotation, and reads each line once.
//
// A renamed file is read on until it has been quiet for Grace and its name is
// another file's; the successor is read at the same time, so lines of the two
// may interleave. A file without a successor is kept open, unless it was deleted
// and stays quiet for as long.
type Files struct {
	o       FilesOptions
	pool    pool
	counts  counts
	current atomic.Pointer[follower]
}

var _ Source = (*Files)(nil)

// NewFiles fills in defaults; it opens and starts nothing.
func NewFiles(o FilesOptions) *Files {
	o.MaxLine = positive(o.MaxLine, defaultMaxLine)
	o.Poll = positive(o.Poll, defaultPoll)
	o.MaxFiles = positive(o.MaxFiles, DefaultMaxFiles)
	o.Grace = positive(o.Grace, defaultGrace)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With(slog.String("log", o.Log))
	return &Files{o: o}
}

func positive[T cmp.Ordered](v, otherwise T) T {
	var zero T
	if v > zero {
		return v
	}
	return otherwise
}

// Run implements Source. It starts from Resume each time, so to stop and go on
// make a new Files with newer positions. It must not run twice at once.
func (f *Files) Run(ctx context.Context, out chan<- *Batch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notify := !f.o.NoInotify
	if notify {
		if err := probeInotify(); err != nil {
			notify = false
			f.o.Logger.Warn("no inotify, polling all files", slog.Any("err", err))
		}
	}
	r := newFollower(f, notify)
	f.current.Store(r)
	defer f.current.Store(nil)
	r.run(ctx, out)
	return nil
}

// Stats may be called at any time, from any goroutine. Files are listed only
// while Run is running.
func (f *Files) Stats() FilesStats {
	s := FilesStats{
		Bytes:     f.counts.bytes.Load(),
		Cut:       f.counts.cut.Load(),
		Truncated: f.counts.truncated.Load(),
		Replaced:  f.counts.replaced.Load(),
		Gaps:      f.counts.gaps.Load(),
		Lines:     f.counts.lines.Load(),
		GapBytes:  f.counts.gapBytes.Load(),
		Zeros:     f.counts.zeros.Load(),
		Errors:    f.counts.errors.Load(),
		Refused:   f.counts.refused.Load(),
	}
	r := f.current.Load()
	if r == nil {
		return s
	}
	s.Watching = r.notify
	s.Files, s.Polled = r.stats()
	slices.SortFunc(s.Files, func(a, b FileStats) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Opened, b.Opened))
	})
	return s
}
