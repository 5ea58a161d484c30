package control

import (
	"net/netip"
	"time"
)

// Conclusions of an Explanation.
const (
	Banned    = "banned"
	Observed  = "observed"  // would be banned
	Allowed   = "allowed"   // by the configuration or by hand
	Protected = "protected" // by the guard
	Forgiven  = "forgiven"
	InNetwork = "in-network" // turned away as part of a network that is banned as one
	Counted   = "counted"    // below every limit
	Postponed = "postponed"  // a ban waits for its names
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

	// Named is what is known of it as it claims to be a wanted machine, and can
	// prove it by its names; nil: nothing.
	Named *Named `json:"named,omitempty"`

	// Networks are those that are banned as one and turn it away, although it is
	// not banned itself.
	Networks []InMerged `json:"networks,omitempty"`

	// Overdue are bans that are over and that an action could not take out.
	Overdue []OverdueBan `json:"overdue,omitempty"`
}

// Named says what the names of an address prove.
type Named struct {
	Result string    `json:"result"`
	Names  []string  `json:"names,omitempty"`  // that prove it
	Reason string    `json:"reason,omitempty"` // of all other results
	Until  time.Time `json:"until,omitzero"`   // for how long that holds
	Due    time.Time `json:"due,omitzero"`     // when bans are decided that wait for it
	Jails  []string  `json:"jails,omitempty"`  // whose these are
}

// Results of Named.
const (
	NamesProve    = "proved"
	NamesDisprove = "disproved"
	NamesFail     = "failed" // they could not be looked up
	NamesAsked    = "asked"  // they are being looked up
)

// OverdueBan is a ban that is over, of which an action can't let go.
type OverdueBan struct {
	Action string       `json:"action"`
	Target netip.Prefix `json:"target"`
	Err    string       `json:"error"`
}

// InMerged is a network that an action bans as one, as so many of its members
// are banned.
type InMerged struct {
	Action  string       `json:"action"`
	Network netip.Prefix `json:"network"`
	Members int          `json:"members"`
	Until   time.Time    `json:"until"`
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

	// Observed are those of a time when the jail only observed: they make no ban
	// longer.
	Observed bool `json:"observed,omitempty"`
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
