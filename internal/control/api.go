// Package control lets people and programs look at a running daemon and steer
// it: JSON over HTTP on two unix sockets, one that can only look and one that
// can change things.
//
// The types of the files api*.go are the interface. They only grow: a key keeps its
// name, its type and its meaning; programs must pass over keys that they
// don't know. Times are RFC 3339 in UTC, lengths of time are seconds, and
// addresses are text.
package control

import (
	"context"
	"net/netip"
)

// Names of the sockets in the runtime directory.
const (
	StatusSocket  = "status.sock"  // can only look
	ControlSocket = "control.sock" // can change things, and look
)

// Viewer is the daemon for those who only look. Its methods may be called
// from any goroutine, and may return after their context is done. Errors for
// people are of type *Error; any other is internal. What is returned belongs
// to the caller.
type Viewer interface {
	// Status returns everything about the daemon's state at a glance.
	Status(context.Context) (*Status, error)

	// Bans lists bans that a query picks.
	Bans(context.Context, BansQuery) (*Bans, error)

	// Explain says all that is known of an address.
	Explain(context.Context, netip.Addr) (*Explanation, error)

	// ExplainLine takes a line through the order of exceptions without
	// counting it.
	ExplainLine(context.Context, LineQuery) (*LineExplanation, error)

	// Follow sends what happens from now on, until ctx is done. The channel
	// is closed then, and also when the follower is too slow to keep up.
	Follow(context.Context) (<-chan Event, error)
}

// Operator is the daemon for those who may change things. Every method is
// audited by the daemon, with the caller.
type Operator interface {
	Viewer

	// Ban bans a target by hand.
	Ban(context.Context, Caller, BanRequest) (*BanResult, error)

	// Unban lifts bans and forgets what led to them.
	Unban(context.Context, Caller, UnbanRequest) (*UnbanResult, error)

	// Allow lets somebody pass for a while, or ends that.
	Allow(context.Context, Caller, AllowRequest) (*AllowResult, error)

	// Hold makes a jail only observe, or ends that.
	Hold(context.Context, Caller, HoldRequest) (*HoldResult, error)

	// Confirm ends a deadline at which all bans end; see run --confirm. Without
	// one it changes nothing, which is no error.
	Confirm(context.Context, Caller) (*ConfirmResult, error)

	// AcceptList uses ranges that were fetched and wait for that.
	AcceptList(context.Context, Caller, AcceptListRequest) (*AcceptListResult, error)

	// Reload reads the configuration again and goes on with it. If it has
	// problems nothing changes, and the error lists them.
	Reload(context.Context, Caller) (*ReloadResult, error)
}

// Caller is who asks, as the kernel says (SO_PEERCRED).
type Caller struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	PID int32  `json:"pid"` // may be another process by now
}

// Codes of an Error.
const (
	CodeBadRequest = "bad_request" // the request makes no sense
	CodeNotFound   = "not_found"   // there is no such jail, log, ban
	CodeRefused    = "refused"     // it makes sense and must not be done: protected, too wide
	CodeConfig     = "config"      // the configuration has problems
	CodeBusy       = "busy"        // too many of that kind at a time, or the daemon did not answer in time
	CodeInternal   = "internal"
	CodeDenied     = "denied" // not over this socket, or not by this user

	// Made by the Client itself: nobody answers.
	CodeUnreachable = "unreachable"
)

// EventLost is the kind of the last event of a stream that ends without its
// follower asking for it.
const EventLost = "lost"

// EventFollow is the kind of the first event: from it on, none is missing.
const EventFollow = "follow"

// Error is a refusal, in words for the person who asked.
type Error struct {
	Code     string   `json:"code"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Problems []string `json:"problems,omitempty"` // of a configuration, each with file and line
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return e.Message
}
