package detector

import (
	"net/netip"
	"time"

	"github.com/tailban/tailban/parser"
)

// Line says where a line stands.
type Line struct {
	Path   string
	Dev    uint64
	Ino    uint64
	Offset int64 // of its first byte
	Number int64 // 1-based; 0: not known
}

// Decision is what a jail asks for: ban this target now, because of the
// events up to this line.
type Decision struct {
	Jail    string
	Target  netip.Prefix
	Client  netip.Addr // whose event crossed the limit
	Plane   parser.Resolution
	Time    int64 // of the crossing line, nanoseconds since the epoch
	Count   int   // events in the window that crossed
	Limit   int
	Window  time.Duration
	Ban     time.Duration // the length of this one
	Offence int           // 1: the first decision against this target in this history
	History string        // what counts the offence: the jail's name, SharedHistory or ObservedHistory
	Since   int64
	Until   int64 // Since + Ban
	Observe bool
	// Enforced says that its ban ends all counting of its target, not only that
	// of the jail.
	Enforced bool
	Actions  []string
	Line     Line

	// Past says that the ban would already be over when it was decided (old
	// lines were being caught up with): the offence counts, nothing is to be
	// enforced.
	Past bool

	// Claims, if not empty, is a wanted machine that the client claims to be, and
	// that it may be for all that is known of its names; Unproven says why that
	// is not more.
	Claims, Unproven string
	Waits            bool // of a Trace: it would wait for a proof

	// Refused, if not empty, says why the guard forbids this ban.
	Refused string
}

// Step is how far down the order of exceptions an event got.
type Step uint8

// The order of exceptions. Steps of one number of the order have several
// values where it matters what happened there.
const (
	StepNotRecord      Step = iota // 1: an empty line or a comment
	StepUnparsed                   // 1
	StepNobody                     // 2: the header named no client
	StepAllowed                    // 3
	StepWanted                     // 4: a wanted machine, within its limit if it has one
	StepDenied                     // 5: by agent or address; a decision
	StepInfrastructure             // 6
	StepBanned                     // 7: the target is banned already; counts for efficacy only
	StepForgiven                   // 7: nothing but a pardon kept it from counting
	StepUnmatched                  // 7: no jail's conditions hold
	StepCounted                    // 7: at least one jail counted it
	NumSteps
)

func (s Step) String() string {
	return [NumSteps]string{"not a record", "unparsed", "no client", "allowed", "wanted agent", "denied",
		"infrastructure", "already banned", "forgiven", "no jail", "counted"}[s]
}

// Verdict is what became of a line. It is valid until the next line.
type Verdict struct {
	Step      Step
	Client    netip.Addr        // valid from step 3 on
	Plane     parser.Resolution // likewise: how the client was found
	Time      int64             // valid from step 2 on
	Err       error             // why the line did not parse
	Proof     Proof             // of StepWanted
	Decisions []Decision        // those the guard refused (step 8) included
	Postponed int               // decisions that wait for a proof since this line: see [Engine.Due]
}

// Guard knows who must never be banned.
type Guard interface {
	// Check returns the target that a jail is to ban instead, which is the same
	// or a narrower one that holds the client, or why none may be.
	Check(jail string, target netip.Prefix, client netip.Addr) (allowed netip.Prefix, reason string)

	// Shared reports whether a network, an IPv6 /64, holds somebody who must
	// never be banned. It is asked for every event and must be fast, and safe for
	// concurrent use.
	Shared(network netip.Prefix) bool
}
