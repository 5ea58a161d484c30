package control

import (
	"net/netip"
	"time"
)

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
	Notify   []NotifyStatus `json:"notify,omitempty"`
	Lists    []ListStatus   `json:"lists,omitempty"`
	Budgets  []Budget       `json:"budgets"`
	Proofs   *ProofStatus   `json:"proofs,omitempty"` // nil: no wanted machine is known by its names
	Bans     int            `json:"bans"`             // targets in force or, by jails that observe, not

	State StateStatus `json:"state"`
	Wait  float64     `json:"wait_seconds"` // until the engine got to this question: its lag

	Waiting   int       `json:"waiting,omitempty"`   // of them, for their turn to be enforced
	ConfirmBy time.Time `json:"confirm_by,omitzero"` // when all bans end, unless somebody confirms this start
}

// ConfigStatus is which configuration runs.
type ConfigStatus struct {
	Path     string    `json:"path,omitempty"`
	Loaded   time.Time `json:"loaded"`
	LastGood bool      `json:"last_good,omitempty"` // the file had problems at the start: what ran before it runs
	Problems []string  `json:"problems,omitempty"`  // those problems
	Refused  time.Time `json:"refused,omitzero"`    // when the latest reload was refused; zero: it was not
}

// StateStatus is about what is stored, for the next start, and its counters since
// this one.
type StateStatus struct {
	Failing  bool      `json:"failing"`
	Pending  int       `json:"pending"`        // changes that are not stored yet
	Since    time.Time `json:"since,omitzero"` // when the oldest of them came
	Commits  uint64    `json:"commits"`        // that succeeded
	Failures uint64    `json:"failures"`       // commits that did not
	Refused  uint64    `json:"refused"`        // changes that could never be stored, and were left out
}

// Problem is one reason why the daemon is not healthy.
type Problem struct {
	Kind  string    `json:"kind"` // one of ProblemKinds
	Where string    `json:"where"`
	Text  string    `json:"text"`
	Since time.Time `json:"since,omitzero"`
}

// ProblemKinds are the kinds of problems that there are, worst first.
func ProblemKinds() []string {
	return []string{
		"failing", "overdue", "contested", "unconfirmed", "storm", "blind", "misread",
		"skew", "behind", "silent", "config", "waiting", "held", "full",
	}
}

// Modes of a jail.
const (
	ModeEnforce = "enforce"
	ModeObserve = "observe" // by the configuration
	ModeHeld    = "held"    // observes until somebody or a timer ends that
	ModeSparing = "sparing" // bans nobody who comes regularly, until somebody or a timer ends that
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
	Late      uint64            `json:"late"`              // lines that came too late for a jail to count
	Gaps      uint64            `json:"gaps"`              // times that lines were lost to truncation and the like
	GapBytes  uint64            `json:"gap_bytes"`         // lost in them, as far as is known
	Zeros     uint64            `json:"zero_bytes"`        // skipped between lines
	Errors    uint64            `json:"errors"`            // of reading
	Refused   uint64            `json:"refused"`           // messages of those who may not send
	Dropped   uint64            `json:"dropped"`           // messages that came faster than they could be counted
	Malformed uint64            `json:"malformed"`         // records that were none
	Misread   string            `json:"misread,omitempty"` // who was spared within the last hour as more likely a proxy than a client
	Blind     bool              `json:"blind"`
	Silent    bool              `json:"silent"`       // far longer than it ever was
	Skew      float64           `json:"skew_seconds"` // how late its times steadily are; 0: they are right
	Behind    int64             `json:"behind_bytes"`
	BehindFor float64           `json:"behind_seconds"`      // for how long some of them have been there
	LastLine  time.Time         `json:"last_line,omitzero"`  // when one was read
	LastEvent time.Time         `json:"last_event,omitzero"` // the time in it
	Polling   bool              `json:"polling,omitempty"`   // some of its files at least are read without inotify
	Files     []FileStatus      `json:"files"`

	// NoAnswer says that what reads it did not tell of it in time: what it would
	// have told is 0, and no file is listed. Status tells of that as a problem.
	NoAnswer bool `json:"-"`
}

// FileStatus is a file of a log.
type FileStatus struct {
	Path   string    `json:"path"`
	State  string    `json:"state"` // following, renamed, deleted, waiting, failing …
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
	Repairs        uint64    `json:"repairs"`   // of its rules, changed by others
	Watched        bool      `json:"watched"`   // changes by others are heard of at once
	Contested      bool      `json:"contested"` // others change it again and again, so repairs wait
	Misheld        uint64    `json:"misheld"`   // bans that it said to have taken, and did not hold
	LeftOut        int       `json:"left_out"`  // bans for which it has no room now
	Evicted        uint64    `json:"evicted"`   // times that a ban was left out

	// Bans that are over and that it could not take out.
	Overdue      int       `json:"overdue"`
	OverdueSince time.Time `json:"overdue_since,omitzero"`
	OverdueErr   string    `json:"overdue_error,omitempty"` // of one of them

	// Requests since the daemon's start of clients that it should keep away, and
	// that reached the server, and those of them that came through a proxy.
	Seen          uint64 `json:"seen_since"`
	SeenForwarded uint64 `json:"seen_forwarded"`

	Programs *ProgramStatus `json:"programs,omitempty"` // nil: it runs none

	Cut *CutStatus `json:"cut,omitempty"` // nil: connections are not cut

	Merged *MergeStatus `json:"merged,omitempty"` // nil: no network is banned as one

	Edge *EdgeStatus `json:"edge,omitempty"` // nil: it is none at an edge
}

// EdgeStatus is about a list at Cloudflare, or access rules, and what was asked of it since the start,
// or a reload that changed the action.
type EdgeStatus struct {
	List     string `json:"list"`
	Rules    string `json:"rules,omitempty"` // whose access rules they are; "": it is a list
	Items    int    `json:"items"`           // of this host
	Others   int    `json:"others"`          // all others
	Covered  int    `json:"covered"`         // bans that items of others enforce
	Waiting  int    `json:"waiting"`         // changes that had to wait for the budget at the last write
	Unused   bool   `json:"unused"`          // no rule uses the list
	Overdue  int    `json:"overdue"`         // items that are long over and can't be removed
	Requests uint64 `json:"requests"`
	Writes   uint64 `json:"writes"`  // changes in bulk; of access rules none
	Changes  uint64 `json:"changes"` // of items, in them
	Removed  uint64 `json:"removed"` // items whose time was over

	Leases []Lease `json:"leases,omitempty"` // none: no rule is kept; of access rules, zones that refuse them
}

// Lease is the rule of a zone that blocks what is in the list.
type Lease struct {
	Zone     string    `json:"zone"`
	Deadline time.Time `json:"deadline,omitzero"` // when it lapses if it is not renewed
	Off      bool      `json:"off,omitempty"`     // somebody has turned it off
	Err      string    `json:"error,omitempty"`   // why it can't be renewed
	Since    time.Time `json:"since,omitzero"`    // since when
}

// ProgramStatus is about the programs that an action runs.
type ProgramStatus struct {
	Runs     uint64 `json:"runs"`
	Failures uint64 `json:"failures"` // that did not do what they should, those that took too long included
	Timeouts uint64 `json:"timeouts"` // that took too long and were ended
}

// MergeStatus is about networks that are banned as one.
type MergeStatus struct {
	Networks int    `json:"networks"` // now
	Members  int    `json:"members"`  // that are banned, of those
	Merges   uint64 `json:"merges"`   // since the start, or a reload that changed the action
	Splits   uint64 `json:"splits"`   // before their end
}

// CutStatus is about the connections that are open when bans come in force.
type CutStatus struct {
	Connections uint64 `json:"connections"`     // cut
	Failed      uint64 `json:"failed"`          // that could not be cut
	Dropped     uint64 `json:"dropped_targets"` // bans whose connections were not looked for
}

// NotifyStatus is somebody who is told what happens. That they aren't is no
// problem of the daemon's.
type NotifyStatus struct {
	Name     string    `json:"name"`
	Format   string    `json:"format"`
	Failing  bool      `json:"failing"`
	Since    time.Time `json:"since,omitzero"` // of failing, or of working again
	Err      string    `json:"error,omitempty"`
	Sent     uint64    `json:"sent"` // messages
	LastSent time.Time `json:"last_sent,omitzero"`
	Waiting  int       `json:"waiting"` // events that are not told yet
	Lost     uint64    `json:"lost"`    // events in messages that were refused for good
}

// ListStatus is a provider whose published ranges are fetched.
type ListStatus struct {
	Name     string       `json:"name"`
	Ranges   int          `json:"ranges"`  // in use
	Date     string       `json:"date"`    // day on which the publisher had them
	Fetched  bool         `json:"fetched"` // or else they are built in
	Sources  []string     `json:"sources"`
	Checked  time.Time    `json:"checked,omitzero"` // when all sources last answered
	Next     time.Time    `json:"next,omitzero"`    // when they are asked again
	Err      string       `json:"error,omitempty"`  // of the last attempt
	Since    time.Time    `json:"since,omitzero"`   // of failing
	Failures int          `json:"failures,omitempty"`
	Waiting  *WaitingList `json:"waiting,omitempty"` // nil: nothing waits
}

// WaitingList is what was fetched and waits for somebody to accept it.
type WaitingList struct {
	ID      string         `json:"id"`
	Why     string         `json:"why"`
	Since   time.Time      `json:"since"`
	Added   int            `json:"added"`   // ranges, beside those in use
	Removed int            `json:"removed"` // likewise
	Widest  []netip.Prefix `json:"widest"`  // of those added, the widest few
}

// ProofStatus is about clients that claim to be wanted machines, and can prove it
// by their names.
type ProofStatus struct {
	LookUps   uint64 `json:"look_ups"`  // since the start, as all that is not said to be now
	Proved    uint64 `json:"proved"`    // clients
	Disproved uint64 `json:"disproved"` // likewise
	Failed    uint64 `json:"failed"`    // likewise, as look-ups failed
	Spared    uint64 `json:"spared"`    // bans that were dropped
	Waiting   int    `json:"waiting"`   // clients of which it is being found out now
	Postponed int    `json:"postponed"` // bans that wait for that now
}

// Budget is something bounded.
type Budget struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Used    int64  `json:"used"`
	Limit   int64  `json:"limit"`
	Dropped uint64 `json:"dropped"` // what did not fit, since the start
}
