package control

import (
	"net/netip"
	"time"
)

// Event is something that happened.
type Event struct {
	Time    time.Time    `json:"time"`
	Kind    string       `json:"kind"` // follow, ban, observe, refuse, past, extend, end, unban, allow, allow-end, hold, resume, confirm, reload, accept, alarm, recover, lost
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

// ConfirmResult is what was done.
type ConfirmResult struct {
	Deadline time.Time `json:"deadline,omitzero"` // at which bans would have ended; missing: there was none
	Late     bool      `json:"late,omitempty"`    // it had passed
}

// AcceptListRequest uses ranges that were fetched and wait.
type AcceptListRequest struct {
	Name   string `json:"name"`         // of the provider
	ID     string `json:"id,omitempty"` // of the ranges; "": whichever wait
	Reason string `json:"reason,omitempty"`
}

// AcceptListResult is what was done.
type AcceptListResult struct {
	Name    string   `json:"name"`
	Added   int      `json:"added"`   // ranges
	Removed int      `json:"removed"` // likewise
	Notes   []string `json:"notes,omitempty"`
}

// ReloadResult is what changed.
type ReloadResult struct {
	Changes  []string `json:"changes"` // none: nothing had changed
	Warnings []string `json:"warnings"`
	Restart  []string `json:"restart,omitempty"` // settings that only count after a restart
}
