package state

import (
	"net/netip"
	"time"
)

// Offence is how often has been decided against a target, by a jail or, where
// several share a history, by these together.
type Offence struct {
	Jail   string       `json:"jail"` // or the name of the history that is shared
	Target netip.Prefix `json:"target"`
	Count  int          `json:"count"`
	Last   time.Time    `json:"last"` // event time of the latest decision
}

// Position is how far a file, or the journal, has been counted.
type Position struct {
	Log    string `json:"log"`
	Path   string `json:"path"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Offset int64  `json:"offset"` // first byte not yet counted

	// Head is a hash of the file's first HeadLen bytes, to notice a file
	// that was replaced or truncated and has grown again under the same
	// inode.
	Head    string `json:"head"`
	HeadLen int64  `json:"head_len"`

	// Cursor is an entry of the journal, the last that was counted.
	Cursor string `json:"cursor,omitempty"`
	// Tail is a hash of the TailLen bytes right before Offset, to notice one
	// that was rewritten and begins as before.
	Tail    string `json:"tail,omitempty"`
	TailLen int64  `json:"tail_len,omitempty"`

	// Done says that the file has been read to its end and is only known so
	// that it isn't taken for a new one.
	Done bool `json:"done,omitempty"`

	// Read is how many bytes right before Offset were counted from this file,
	// and not from another that held the same, or left out. 0 also if that is
	// not known.
	Read int64 `json:"read,omitempty"`

	// Left is the end of what was last left out of the file because strangers
	// may have written it: what is before must not be read again. 0: nothing was.
	Left int64 `json:"left,omitempty"`

	// Exposed says that strangers could write to the file when it was last looked
	// at: whatever is in it when it is read again is left out.
	Exposed bool `json:"exposed,omitempty"`
}

// OffenceKey is what an offence is stored under.
type OffenceKey struct {
	Jail   string
	Target netip.Prefix
}

// Key returns what the offence is stored under.
func (o *Offence) Key() OffenceKey {
	return OffenceKey{Jail: o.Jail, Target: o.Target}
}

// PositionKey is what a position is stored under. The path is not part of it:
// a file keeps its position when it is renamed.
type PositionKey struct {
	Log string
	Dev uint64
	Ino uint64
}

// Key returns what the position is stored under.
func (p *Position) Key() PositionKey {
	return PositionKey{Log: p.Log, Dev: p.Dev, Ino: p.Ino}
}
