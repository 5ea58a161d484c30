package notify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/words"
)

// Kind is what an event is about, named as in the stream of events of the
// control sockets.
type Kind string

// Kinds of events.
const (
	Ban      Kind = "ban"
	Observe  Kind = "observe" // would have been banned
	Refuse   Kind = "refuse"  // a decision against somebody protected
	Extend   Kind = "extend"
	End      Kind = "end"
	Unban    Kind = "unban"
	Allow    Kind = "allow"
	AllowEnd Kind = "allow-end"
	Hold     Kind = "hold"
	Resume   Kind = "resume"
	Confirm  Kind = "confirm"
	Reload   Kind = "reload"
	Accept   Kind = "accept" // of published ranges
	Alarm    Kind = "alarm"
	Recover  Kind = "recover" // an action works again

	test Kind = "test" // somebody tries whether messages arrive
)

// Kinds lists all that may be asked for.
func Kinds() []Kind {
	return []Kind{Ban, Observe, Refuse, Extend, End, Unban, Allow, AllowEnd, Hold, Resume, Confirm, Reload, Accept, Alarm, Recover}
}

// DefaultKinds are those that somebody may have to act upon or wants to know of:
// not each end of a ban, and not what changed nothing.
func DefaultKinds() []Kind {
	return []Kind{Ban, Unban, Allow, Hold, Resume, Alarm, Recover}
}

// urgent are the kinds that a message has room for however many bans there are.
func (k Kind) urgent() bool {
	return !slices.Contains([]Kind{Ban, Observe, Refuse, Extend, End}, k)
}

// Event is something to tell. There is nothing of a log line in it but the
// addresses that it was about: what strangers write into a log is not handed on.
type Event struct {
	Time    time.Time
	Kind    Kind
	Target  netip.Prefix  // invalid: it is about none
	Client  netip.Addr    // whose requests led to it
	Jail    string        // "": by hand, or about no jail
	Until   time.Time     // zero: no end is known
	Offence int           // which one it is of the target; 0: not known
	Count   int           // events in the window
	Limit   int           // of them
	Window  time.Duration // 0: there is none
	Reason  string
	By      string // who did it by hand
}

// maxText is how much of a text is told, in bytes.
const maxText = 300

func (e *Event) clip() {
	e.Reason, e.By = clip(e.Reason, maxText), clip(e.By, maxText)
	if e.Until.Year() > 9999 { // which JSON has no way to write
		e.Until = time.Time{}
	}
}

// clip cuts a text to n bytes, an ellipsis included.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return words.Clip(s, n-len("…"))
}

// text is the event as a line for people. It may hold anything that names and
// reasons hold.
func (e *Event) text() string {
	target := words.Target(e.Target)
	var b strings.Builder
	switch e.Kind {
	case Ban:
		fmt.Fprintf(&b, "banned %s%s", target, until(e.Until))
	case Observe:
		fmt.Fprintf(&b, "would have banned %s", target)
	case Refuse:
		fmt.Fprintf(&b, "did not ban %s", target)
	case Extend:
		fmt.Fprintf(&b, "banned %s for longer%s", target, until(e.Until))
	case End:
		fmt.Fprintf(&b, "the ban of %s is over", target)
	case Unban:
		fmt.Fprintf(&b, "unbanned %s", target)
	case Allow:
		fmt.Fprintf(&b, "allowed %s%s", target, until(e.Until))
	case AllowEnd:
		fmt.Fprintf(&b, "%s is no longer allowed", target)
	case Hold:
		fmt.Fprintf(&b, "jail %s only observes%s", e.Jail, until(e.Until))
	case Resume:
		fmt.Fprintf(&b, "jail %s bans again", e.Jail)
	case Confirm:
		b.WriteString("the start is confirmed")
	case Reload:
		b.WriteString("configuration reloaded")
	case Accept:
		b.WriteString("published ranges accepted")
	case Alarm:
		b.WriteString("ALARM")
	case Recover:
		b.WriteString("works again")
	case test:
		b.WriteString("a test: messages arrive")
	default:
		b.WriteString(string(e.Kind))
		if target != "" {
			b.WriteString(" " + target)
		}
	}
	if e.Jail != "" && e.Kind != Hold && e.Kind != Resume {
		fmt.Fprintf(&b, ", jail %s", e.Jail)
	}
	if e.Window > 0 {
		fmt.Fprintf(&b, " (%d in %v, limit %d)", e.Count, e.Window, e.Limit)
	}
	if e.Offence > 1 {
		fmt.Fprintf(&b, ", offence %d", e.Offence)
	}
	if e.By != "" {
		fmt.Fprintf(&b, ", by %s", e.By)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	return b.String()
}

// until is an end in a sentence.
func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " until " + t.UTC().Format("2006-01-02 15:04 UTC")
}
