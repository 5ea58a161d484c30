// Package source is where lines come from: log files, followed by identity
// through rotation, truncation and restarts; the systemd journal; syslog
// sockets; standard input and named pipes.
package source

import "context"

// File is one file being read, by identity and not by name. What is no file has
// the numbers 0, and offsets that count all that was ever sent.
type File struct {
	Log  string // name of the log it belongs to
	Path string // the name it had when it was opened; may be a rotated one. Of what is no file, what it is: "journal:nginx.service"
	Dev  uint64
	Ino  uint64
}

// Batch is a run of lines of one file. Whoever receives it owns it until it
// calls Done, which must happen once and ends the life of Data; File and
// Position may be kept. Batches of one file arrive in the order of the file.
//
// The first batch of a file has no Data: it says where reading begins, so that
// the file is known, and found again under any name, before it has a line.
// Another one follows when the file was truncated or replaced in place and is
// read from its beginning. Their positions must be stored like all others.
type Batch struct {
	File *File
	Data []byte // whole lines, each with its line feed; the last may lack it (end of a finished file)

	// Offset is where Data begins in the file, Next where reading goes on.
	// Next - Offset may be more than len(Data) if Cut or Starts.
	Offset int64
	Next   int64

	// Starts is where each line of Data begins in the file, of a log whose
	// lines are wrapped. nil: they follow each other, from Offset.
	Starts []int64

	// Cut says that Data is the beginning, without line feed, of one single
	// line that was longer than the limit.
	Cut bool

	// Position identifies the file up to Next, for a later resumption.
	Position Position

	// Final says that the file is finished: it was renamed or removed and has
	// been read to its end and no pattern leads to it, or it had a stored
	// position and is nowhere to be found. Nothing follows, and once this batch is counted
	// the positions stored for the file should be forgotten. Data may be empty.
	Final bool

	// Again says that what a journal sends was counted before: see
	// JournalOptions.
	Again bool

	// Behind is how many bytes the file still held beyond Next when this was
	// read.
	Behind int64

	pool *pool // where Data's memory returns to; nil for batches made elsewhere
	buf  []byte
}

// A Files also stores, once, a position for each of its paths and patterns, with
// the pattern as Path and Dev 0: what a followed pattern leads to later was born
// after it was first looked at.

// Position is enough to go on reading where Offset says, or to notice that it
// cannot be done.
type Position struct {
	Log     string
	Path    string // the name that is followed, also when the file has been renamed since
	Dev     uint64
	Ino     uint64
	Offset  int64
	Head    string // hash of the first HeadLen bytes of the file, hex
	HeadLen int64

	// Cursor is where reading goes on in the journal: behind the entry it
	// names. Dev and Ino are 0 then, and Offset counts all that was ever sent.
	Cursor  string
	Tail    string // hash of the TailLen bytes right before Offset, hex
	TailLen int64

	// Done says that the file was finished with, and is remembered because a
	// pattern still leads to it. It is kept like any other.
	Done bool

	// Read is how many bytes right before Offset were read of this file, since
	// its reading began: not what had been read of another one that held the
	// same, or was left out. 0 also if that is not known.
	Read int64

	// Left is the end of what was last left out of the file because strangers
	// may have written it. 0: nothing was.
	Left int64

	// Exposed says that strangers could write to the file when it was last looked
	// at: whatever is in it when it is read again is left out.
	Exposed bool
}

// Source is a place where lines come from.
type Source interface {
	// Run sends batches until ctx is done, which is success (nil). It blocks
	// while out is not taken from; only Syslog drops anything, and counts it.
	// It does not close out. What cannot be read is reported to the logger
	// and tried again, and never ends Run.
	Run(ctx context.Context, out chan<- *Batch) error
}
