// Package control lets people and programs look at a running daemon and steer
// it: JSON over HTTP on two unix sockets, one that can only look and one that
// can change things.
//
// The types of this file are the interface. They only grow: a key keeps its
// name, its type and its meaning; programs must pass over keys that they
// don't know. Times are RFC 3339 in UTC, lengths of time are seconds, and
// addresses are text.
package control

import (
	"context"
	"net/netip"
	"time"
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

// Status is the daemon at a glance.
type Status struct {
	Version  string         `json:"version"`
	PID      int            `json:"pid"`
	Now      time.Time      `json:"now"`
	Started  time.Time      `json:"started"`
	Config   ConfigStatus   `json:"config"`
	Healthy  bool           `json:"healthy"`
	Problems []Problem      `json:"problems"` // why it isn't, worst first
	Jails    []JailStatus   `json:"jails"`
	Logs     []LogStatus    `json:"logs"`
	Actions  []ActionStatus `json:"actions"`
	Budgets  []Budget       `json:"budgets"`
	Bans     int            `json:"bans"` // targets in force or, by jails that observe, not
}

// ConfigStatus is which configuration runs.
type ConfigStatus struct {
	Path     string    `json:"path,omitempty"`
	Loaded   time.Time `json:"loaded"`
	LastGood bool      `json:"last_good,omitempty"` // the file had problems at the start: what ran before it runs
	Problems []string  `json:"problems,omitempty"`  // those problems
}

// Problem is one reason why the daemon is not healthy.
type Problem struct {
	Kind  string    `json:"kind"` // failing, blind, skew, behind, silent, config, held, full
	Where string    `json:"where"`
	Text  string    `json:"text"`
	Since time.Time `json:"since,omitzero"`
}

// Modes of a jail.
const (
	ModeEnforce = "enforce"
	ModeObserve = "observe" // by the configuration
	ModeHeld    = "held"    // observes until somebody or a timer ends that
)

// JailStatus is a jail and its counters since the start.
type JailStatus struct {
	Name      string    `json:"name"`
	Mode      string    `json:"mode"`
	Held      *Held     `json:"held,omitempty"`
	Logs      []string  `json:"logs"`
	Limit     int       `json:"limit"`
	Window    float64   `json:"window_seconds"`
	Ban       []float64 `json:"ban_seconds"` // the ladder
	Actions   []string  `json:"actions"`
	Matched   uint64    `json:"matched"`   // events that met its conditions
	Decisions uint64    `json:"decisions"` // bans it asked for
	Refused   uint64    `json:"refused"`   // of these by the guard
	Bans      int       `json:"bans"`      // that it owns now
	LastBan   time.Time `json:"last_ban,omitzero"`
}

// Held says why a jail only observes, and until when.
type Held struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is resumed
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

// LogStatus is a log and its counters since the start.
type LogStatus struct {
	Name      string            `json:"name"`
	Format    string            `json:"format"`
	Lines     uint64            `json:"lines"`
	Bytes     uint64            `json:"bytes"`
	Steps     map[string]uint64 `json:"steps"` // lines by the step of the order of exceptions at which they stopped
	Unparsed  uint64            `json:"unparsed"`
	Cut       uint64            `json:"cut"`
	Late      uint64            `json:"late"`       // lines that came too late for a jail to count
	Gaps      uint64            `json:"gaps"`       // times that lines were lost to truncation and the like
	GapBytes  uint64            `json:"gap_bytes"`  // lost in them, as far as is known
	Zeros     uint64            `json:"zero_bytes"` // skipped between lines
	Errors    uint64            `json:"errors"`     // of reading
	Refused   uint64            `json:"refused"`    // messages of those who may not send
	Dropped   uint64            `json:"dropped"`    // messages that came faster than they could be counted
	Malformed uint64            `json:"malformed"`  // records that were none
	Blind     bool              `json:"blind"`
	Silent    bool              `json:"silent"`       // far longer than it ever was
	Skew      float64           `json:"skew_seconds"` // how late its times steadily are; 0: they are right
	Behind    int64             `json:"behind_bytes"`
	BehindFor float64           `json:"behind_seconds"`      // for how long some of them have been there
	LastLine  time.Time         `json:"last_line,omitzero"`  // when one was read
	LastEvent time.Time         `json:"last_event,omitzero"` // the time in it
	Polling   bool              `json:"polling,omitempty"`   // without inotify
	Files     []FileStatus      `json:"files"`
}

// FileStatus is a file of a log.
type FileStatus struct {
	Path   string    `json:"path"`
	State  string    `json:"state"` // following, waiting, failing …
	Offset int64     `json:"offset"`
	Behind int64     `json:"behind_bytes"`
	Last   time.Time `json:"last_line,omitzero"`
	Err    string    `json:"error,omitempty"`
}

// ActionStatus is an action that enforces, and how well it does.
type ActionStatus struct {
	Name           string    `json:"name"`
	Type           string    `json:"type"`
	Failing        bool      `json:"failing"`
	Since          time.Time `json:"since,omitzero"` // of failing, or of working again
	Err            string    `json:"error,omitempty"`
	Desired        int       `json:"desired"` // bans that should be in force there
	Pending        int       `json:"pending"` // changes that are not applied yet
	LastPass       time.Time `json:"last_pass,omitzero"`
	DriftAdded     uint64    `json:"drift_added"`
	DriftRemoved   uint64    `json:"drift_removed"`
	DriftCorrected uint64    `json:"drift_corrected"`
	Rejected       uint64    `json:"rejected"`
	Repairs        uint64    `json:"repairs"` // of its rules, changed by others
}

// Budget is something bounded.
type Budget struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Used    int64  `json:"used"`
	Limit   int64  `json:"limit"`
	Dropped uint64 `json:"dropped"` // what did not fit, since the start
}

// BansQuery picks bans. All that is given must hold.
type BansQuery struct {
	Overlap netip.Prefix `json:"overlap,omitzero"` // those that share addresses with it
	Jail    string       `json:"jail,omitempty"`
	Action  string       `json:"action,omitempty"`
	Sort    string       `json:"sort,omitempty"`  // one of Sorts; "": left
	Limit   int          `json:"limit,omitempty"` // 0: all
}

// Sorts are the orders of a list of bans: by time left, by age (latest
// first), by target, by packets dropped, by offence.
func Sorts() []string { return []string{"left", "since", "target", "packets", "offence"} }

// Bans is an answer to a BansQuery.
type Bans struct {
	Now   time.Time `json:"now"`
	Total int       `json:"total"` // that the query picks, before its limit
	Bans  []Ban     `json:"bans"`
}

// Ban is a ban, with who wants it and what comes of it.
type Ban struct {
	Target   netip.Prefix `json:"target"`
	Origin   string       `json:"origin"`
	Since    time.Time    `json:"since"`
	Until    time.Time    `json:"until"`
	Observed bool         `json:"observed,omitempty"` // nothing is enforced
	Owners   []Owner      `json:"owners"`
	Actions  []AtAction   `json:"actions"`    // where it should be in force
	Seen     uint64       `json:"seen_since"` // requests since the ban that reached the server
	LastSeen time.Time    `json:"last_seen,omitzero"`
}

// Owner is a jail, or a person, that wants a ban.
type Owner struct {
	Jail    string     `json:"jail"`
	Client  netip.Addr `json:"client,omitzero"`
	Since   time.Time  `json:"since"`
	Until   time.Time  `json:"until"`
	Offence int        `json:"offence"`
	Count   int        `json:"count,omitempty"`
	Limit   int        `json:"limit,omitempty"`
	Window  float64    `json:"window_seconds,omitempty"`
	Plane   string     `json:"plane,omitempty"`  // direct, forwarded
	Reason  string     `json:"reason,omitempty"` // of a person
	By      string     `json:"by,omitempty"`
	Event   time.Time  `json:"event,omitzero"`
	File    string     `json:"file,omitempty"`
	Offset  int64      `json:"offset,omitempty"`
	Line    *Line      `json:"line,omitempty"` // that crossed the limit
	Actions []string   `json:"actions"`
}

// AtAction is a ban as an action has it.
type AtAction struct {
	Action  string    `json:"action"`
	Until   time.Time `json:"until"`             // when it should end there
	Held    *bool     `json:"held,omitempty"`    // what the action really holds; missing: not asked, or it can't tell
	Ends    time.Time `json:"ends,omitzero"`     // when it really ends there
	Packets *uint64   `json:"packets,omitempty"` // turned away
	Err     string    `json:"error,omitempty"`   // why it can't tell
}

// Line is a line of a log as evidence: without query, referer and user.
type Line struct {
	Log    string     `json:"log,omitempty"`
	File   string     `json:"file"`
	Offset int64      `json:"offset"`
	Time   time.Time  `json:"time"`
	Client netip.Addr `json:"client,omitzero"`
	Method string     `json:"method,omitempty"`
	Path   string     `json:"path,omitempty"`
	Status int        `json:"status,omitempty"`
	Agent  string     `json:"agent,omitempty"`
	Step   string     `json:"step,omitempty"`  // where it stopped in the order of exceptions
	Jails  []string   `json:"jails,omitempty"` // whose conditions it meets
}

// Conclusions of an Explanation.
const (
	Banned    = "banned"
	Observed  = "observed"  // would be banned
	Allowed   = "allowed"   // by the configuration or by hand
	Protected = "protected" // by the guard
	Forgiven  = "forgiven"
	Counted   = "counted" // below every limit
	Unseen    = "unseen"
)

// Explanation is all that is known of an address.
type Explanation struct {
	Now        time.Time    `json:"now"`
	Address    netip.Addr   `json:"address"`
	Target     netip.Prefix `json:"target"` // what its events are counted by
	Conclusion string       `json:"conclusion"`
	Text       string       `json:"text"`                // the conclusion in a sentence
	Protected  string       `json:"protected,omitempty"` // why it can never be banned
	Bans       []Ban        `json:"bans"`
	Fill       []Fill       `json:"fill"`
	Offences   []Offence    `json:"offences"`
	Forgiven   []Pardon     `json:"forgiven"`
	Seen       []Seen       `json:"seen"`
	Evidence   []Line       `json:"evidence"`
	Through    string       `json:"through,omitempty"` // the likely reason why it still gets through
	Notes      []string     `json:"notes,omitempty"`
}

// Fill is how full a window is now.
type Fill struct {
	Jail   string    `json:"jail"`
	Count  int       `json:"count"`
	Limit  int       `json:"limit"`
	Window float64   `json:"window_seconds"`
	First  time.Time `json:"first,omitzero"` // the earliest event in it
	Last   time.Time `json:"last,omitzero"`
}

// Offence is what is remembered of past bans.
type Offence struct {
	History string    `json:"history"` // the jail, or that which several share
	Count   int       `json:"count"`
	Last    time.Time `json:"last"`
	Until   time.Time `json:"until"` // when it is forgotten
	Next    float64   `json:"next_ban_seconds,omitempty"`
}

// Pardon says that events up to a time don't count.
type Pardon struct {
	Target netip.Prefix `json:"target"`
	Jail   string       `json:"jail,omitempty"` // "": all
	Before time.Time    `json:"before"`
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"`
}

// Seen is what a log's latest lines show of an address.
type Seen struct {
	Log     string         `json:"log"`
	Bytes   int64          `json:"bytes"` // of the log that were looked at, from its end
	Lines   int            `json:"lines"` // of the address among them
	First   time.Time      `json:"first,omitzero"`
	Last    time.Time      `json:"last,omitzero"`
	Steps   map[string]int `json:"steps,omitempty"`
	Err     string         `json:"error,omitempty"`
	Partial bool           `json:"partial,omitempty"` // there is more of the log than was looked at
}

// LineQuery is a line to explain.
type LineQuery struct {
	Log  string `json:"log"`
	Line string `json:"line"` // bytes that are not UTF-8 are lost
}

// LineExplanation is a line's way down the order of exceptions.
type LineExplanation struct {
	Log     string       `json:"log"`
	Format  string       `json:"format"`
	Err     string       `json:"error,omitempty"` // why it does not parse
	Fields  []Field      `json:"fields"`
	Hops    []Hop        `json:"hops"`
	Plane   string       `json:"plane,omitempty"`
	Client  netip.Addr   `json:"client,omitzero"`
	Target  netip.Prefix `json:"target,omitzero"`
	Steps   []StepTrace  `json:"steps"`
	Jails   []JailTrace  `json:"jails"`
	Step    string       `json:"step"` // where it stops
	Outcome string       `json:"outcome"`
}

// Field is a field of a line.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Hop is a step of the walk from the peer to the client.
type Hop struct {
	From    string `json:"from"` // peer, header
	Value   string `json:"value"`
	Trusted bool   `json:"trusted"`
	Result  string `json:"result"` // in words
}

// StepTrace is a step of the order of exceptions.
type StepTrace struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Result string `json:"result"` // in words
	Stops  bool   `json:"stops"`
}

// JailTrace is a jail's look at a line.
type JailTrace struct {
	Jail       string      `json:"jail"`
	Matches    bool        `json:"matches"`
	Conditions []Condition `json:"conditions"`
	Count      int         `json:"count"` // in its window now, without this line
	Limit      int         `json:"limit"`
	Result     string      `json:"result"` // in words
}

// Condition is one condition of a jail.
type Condition struct {
	Field string `json:"field"`
	Not   bool   `json:"not,omitempty"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	Holds bool   `json:"holds"`
}

// Event is something that happened.
type Event struct {
	Time    time.Time    `json:"time"`
	Kind    string       `json:"kind"` // follow, ban, observe, refuse, past, extend, end, unban, allow, allow-end, hold, resume, reload, alarm, lost
	Target  netip.Prefix `json:"target,omitzero"`
	Client  netip.Addr   `json:"client,omitzero"`
	Jail    string       `json:"jail,omitempty"`
	Until   time.Time    `json:"until,omitzero"`
	Offence int          `json:"offence,omitempty"`
	Count   int          `json:"count,omitempty"`
	Limit   int          `json:"limit,omitempty"`
	Window  float64      `json:"window_seconds,omitempty"`
	Plane   string       `json:"plane,omitempty"`
	Line    *Line        `json:"line,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	By      string       `json:"by,omitempty"`
}

// BanRequest bans a target by hand.
type BanRequest struct {
	Target netip.Prefix `json:"target"`
	For    float64      `json:"for_seconds,omitempty"` // 0: the first step of the jail's ladder, or an hour
	Jail   string       `json:"jail,omitempty"`        // whose actions enforce it; "": all actions
	Reason string       `json:"reason,omitempty"`
	Force  bool         `json:"force,omitempty"` // wider than /16, or /32 for IPv6
}

// BanResult is what was done.
type BanResult struct {
	Target   netip.Prefix   `json:"target"`
	Until    time.Time      `json:"until"`
	Actions  []string       `json:"actions"`
	Absorbed []netip.Prefix `json:"absorbed,omitempty"` // bans inside it, which are part of it now
	Notes    []string       `json:"notes,omitempty"`
}

// UnbanRequest lifts bans. One of Target, Jail and All is given, or Target
// and Jail.
type UnbanRequest struct {
	Target  netip.Prefix `json:"target,omitzero"` // bans of it, and inside it
	Jail    string       `json:"jail,omitempty"`  // only that jail's hold on them
	All     bool         `json:"all,omitempty"`
	Forgive float64      `json:"forgive_seconds,omitempty"` // its events don't count for so long
	Reason  string       `json:"reason,omitempty"`
}

// UnbanResult is what was done.
type UnbanResult struct {
	Lifted  int            `json:"lifted"`  // bans that are over
	Kept    int            `json:"kept"`    // bans that others still want
	Targets []netip.Prefix `json:"targets"` // of those lifted, the first thousand
	Cleared int            `json:"cleared"` // counters and offences forgotten
	Notes   []string       `json:"notes,omitempty"`
}

// AllowRequest lets somebody pass for a while.
type AllowRequest struct {
	Target netip.Prefix `json:"target"`
	For    float64      `json:"for_seconds,omitempty"` // up to 30 days
	End    bool         `json:"end,omitempty"`         // end it instead
	Reason string       `json:"reason,omitempty"`
}

// AllowResult is what was done.
type AllowResult struct {
	Target netip.Prefix `json:"target"`
	Until  time.Time    `json:"until,omitzero"`
	Lifted int          `json:"lifted"` // bans that are over
	Notes  []string     `json:"notes,omitempty"`
}

// HoldRequest makes a jail only observe, or resumes it.
type HoldRequest struct {
	Jail   string  `json:"jail"`
	Resume bool    `json:"resume,omitempty"`
	For    float64 `json:"for_seconds,omitempty"` // 0: until it is resumed
	Reason string  `json:"reason,omitempty"`
}

// HoldResult is what was done.
type HoldResult struct {
	Jail string `json:"jail"`
	Mode string `json:"mode"`
	Was  string `json:"was"`

	Notes []string `json:"notes,omitempty"`
}

// ReloadResult is what changed.
type ReloadResult struct {
	Changes  []string `json:"changes"` // none: nothing had changed
	Warnings []string `json:"warnings"`
	Restart  []string `json:"restart,omitempty"` // settings that only count after a restart
}
