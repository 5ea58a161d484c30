package state

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Note is something that happened since a snapshot of the windows and that the
// lines themselves don't tell: whoever reads these again goes by it. Notes are
// kept until a later snapshot is durable.
type Note struct {
	N    uint64 `json:"n"` // ascending; never 0
	What string `json:"what"`

	Jail     string       `json:"jail,omitempty"` // of a ban: who wants it
	Target   netip.Prefix `json:"target,omitzero"`
	Client   netip.Addr   `json:"client,omitzero"`  // whose event crossed the limit
	Event    time.Time    `json:"event,omitzero"`   // time of the crossing line
	Until    time.Time    `json:"until,omitzero"`   // when the ban ends by itself
	Offence  int          `json:"offence,omitzero"` // 1: first
	Enforced bool         `json:"enforced,omitzero"`
	Observe  bool         `json:"observe,omitzero"` // decided by a rule that only observed

	// Of NoteAllowed: who was from then on, and who no longer.
	Allow    []netip.Prefix `json:"allow,omitempty"`
	Disallow []netip.Prefix `json:"disallow,omitempty"`

	// Reached is how far files had been counted then, of those that were since
	// the note before; of NoteFinished, the file alone, to its end.
	Reached []Reached `json:"reached,omitempty"`
}

// What a note can say.
const (
	NoteSnapshot = "snapshot" // a snapshot was taken, which bears this number
	NoteDecided  = "decided"  // a line crossed a limit; it used up what counted before
	NoteSpent    = "spent"    // the same, and the guard refused it: no ban
	NoteBegun    = "begun"    // a reload had a jail begin at zero
	NoteBanned   = "banned"   // a ban that no line decided
	NoteAdopted  = "adopted"  // all that was counted is used up: by a ban whose decision did not get to being stored, or since it is a wanted machine's
	NoteLifted   = "lifted"   // the bans of exactly that target ended before their time
	NoteAllowed  = "allowed"  // others were allowed
	NoteFinished = "finished" // a file was read to its end and let go
	NoteFull     = "full"     // more happened than is kept
)

// Reached is how far a file had been counted.
type Reached struct {
	Log    string `json:"log"`
	Dev    uint64 `json:"dev,omitzero"`
	Ino    uint64 `json:"ino,omitzero"`
	Offset int64  `json:"offset"` // of the first byte not counted

	// Anew says that the file has begun anew since the note before: earlier
	// notes mean what it held before.
	Anew bool `json:"anew,omitzero"`

	// Torn is how many bytes before Offset are a last line without its line
	// feed, of a file that was read to its end.
	Torn int64 `json:"torn,omitzero"`

	// Left is that of the position of a file that was read to its end.
	Left int64 `json:"left,omitzero"`
}

// Key returns what the file's position is stored under.
func (r *Reached) Key() PositionKey { return PositionKey{Log: r.Log, Dev: r.Dev, Ino: r.Ino} }

// Weight is how much a note takes of what is kept of them: 1 for each thing that
// it lists, and at least that.
func (n *Note) Weight() int { return max(1, len(n.Allow)+len(n.Disallow)+len(n.Reached)) }

// Check says why a note can't be stored, or nil.
func (n *Note) Check() error {
	if n.N == 0 || n.What == "" {
		return fmt.Errorf("note has number %d and says %q", n.N, n.What)
	}
	if n.Jail != "" {
		if err := checkName("jail", n.Jail); err != nil {
			return fmt.Errorf("note: %w", err)
		}
	}
	if n.Target.IsValid() {
		if err := checkPrefix(n.Target); err != nil {
			return fmt.Errorf("note: %w", err)
		}
	}
	for i := range n.Reached {
		if err := n.Reached[i].Key().check(); err != nil {
			return fmt.Errorf("note: %w", err)
		}
	}
	return checkTimes(n.Event, n.Until)
}

// Clone returns a copy that shares no memory with n.
func (n *Note) Clone() Note {
	c := *n
	c.Allow, c.Disallow, c.Reached = slices.Clone(n.Allow), slices.Clone(n.Disallow), slices.Clone(n.Reached)
	return c
}

func (n *Note) utc() Note {
	c := *n
	if !c.Event.IsZero() {
		c.Event = c.Event.UTC()
	}
	if !c.Until.IsZero() {
		c.Until = c.Until.UTC()
	}
	return c
}

func noteNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
func noteKey(n *Note) []byte     { return noteNumber(n.N) }

func checkNote(n uint64) error {
	if n == 0 {
		return fmt.Errorf("note has no number")
	}
	return nil
}
