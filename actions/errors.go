package actions

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrPermanent is wrapped by errors for which trying again cannot help until
// somebody changes something.
var ErrPermanent = errors.New("trying again will not help")

// ErrUnsupported is wrapped by the rejection of a target that an action has
// no means to enforce.
var ErrUnsupported = errors.New("this action cannot enforce such a target")

// ErrProtected is wrapped by the rejection of a target that must never be
// banned.
var ErrProtected = errors.New("protected, never banned")

// ErrOverlaps is wrapped by the rejection of a network that overlaps another
// one which an action holds and cannot hold beside it.
var ErrOverlaps = errors.New("overlaps another ban")

// ErrFull is wrapped by the error of an action that has no room for all that it
// was to add; see [Bounded].
var ErrFull = errors.New("the set is full")

// ErrHoldsBans is wrapped by an error of Prepare that keeps nobody from listing and
// changing bans: something else is amiss, rules that look for them say.
var ErrHoldsBans = errors.New("bans can be changed")

// holdsBans marks an error so that it wraps ErrHoldsBans. The text stays.
type holdsBans struct{ error }

func (e holdsBans) Unwrap() []error { return []error{e.error, ErrHoldsBans} }

// Permanent marks an error so that it wraps ErrPermanent. The text stays.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type permanent struct{ error }

func (e permanent) Unwrap() []error { return []error{e.error, ErrPermanent} }

// Rejection is one addition that an action refused.
type Rejection struct {
	Target netip.Prefix
	Err    error // wraps ErrUnsupported, ErrProtected, ErrOverlaps or ErrRefused
}

// RejectedError says that single additions were refused, or single removals
// failed again and again, and that everything else of the batch is in force. It
// wraps ErrPermanent and the causes.
type RejectedError struct {
	Rejected []Rejection // additions

	// Kept are targets that could not be removed, and wrap [ErrRefused]. Only an
	// [Overstayer] names any: it tells of them itself.
	Kept []Rejection
}

// maxNamed is how many rejected targets an error's text names.
const maxNamed = 3

func (e *RejectedError) Error() string {
	var b strings.Builder
	for i, r := range slices.Concat(e.Rejected, e.Kept) {
		if i == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(e.Rejected)+len(e.Kept)-maxNamed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		what := "ban"
		if i >= len(e.Rejected) {
			what = "unban"
		}
		fmt.Fprintf(&b, "%s %s: %v", what, r.Target, r.Err)
	}
	return b.String()
}

func (e *RejectedError) Unwrap() []error {
	errs := []error{ErrPermanent}
	for _, r := range slices.Concat(e.Rejected, e.Kept) {
		errs = append(errs, r.Err)
	}
	return errs
}

// WaitingError says that some changes were not made yet, as the action has nothing
// left for them just now, and that all else of the batch is in force. They are given
// to it again, after its pause; see [Paced].
type WaitingError struct {
	Targets []netip.Prefix // of additions and removals
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("%d changes wait until the action may make more", len(e.Targets))
}
