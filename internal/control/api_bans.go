package control

import (
	"net/netip"
	"time"
)

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
	Waiting  bool         `json:"waiting,omitempty"`  // it waits for its turn to be enforced
	Owners   []Owner      `json:"owners"`
	Actions  []AtAction   `json:"actions"`    // where it should be in force
	Seen     uint64       `json:"seen_since"` // requests since the ban that reached the server
	LastSeen time.Time    `json:"last_seen,omitzero"`

	SeenForwarded uint64 `json:"seen_forwarded,omitempty"` // of these requests: through a proxy
}

// ByHand is the jail of owners who are people and named none. No jail can have
// that name.
const ByHand = "(by hand)"

// ByBreaker is by whom a jail is held, and bans are lifted, where the breaker
// did it.
const ByBreaker = "the breaker"

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

	// Network is what holds the ban in its place, as it is banned as one; the end
	// and the packets are its.
	Network netip.Prefix `json:"network,omitzero"`

	Err string `json:"error,omitempty"` // why it can't tell
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
	Step   string     `json:"step,omitempty"`   // where it stopped in the order of exceptions
	Wanted string     `json:"wanted,omitempty"` // the wanted machine it was let pass as, and how that was known
	Jails  []string   `json:"jails,omitempty"`  // whose conditions it meets
}
