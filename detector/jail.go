// Package detector decides who is banned. It holds the order of exceptions
// and the exact sliding windows, and nothing else: no I/O, no clock, no
// goroutine. Live and replay run this same code.
package detector

import (
	"time"
)

// Jail is a rule with a name.
type Jail struct {
	Name    string
	Logs    []string      // names of the logs whose events it sees
	Where   Where         // which events count
	Limit   int           // more than this many in any Window bans; 0 bans at first sight
	Window  time.Duration // > 0
	Ban     time.Duration // > 0
	Observe bool          // decide and record, enforce nothing
	Actions []string      // names of the actions that enforce its bans
	Passive bool          // none of Actions keeps anybody away (they only log)
}

// Wanted is a machine that is let pass by its user agent alone
// (agent_only), up to a limit of its own per client; events beyond the limit
// are those of an ordinary client.
type Wanted struct {
	Name   string
	Agents []string // substrings, matched without regard to case
	Limit  int
	Window time.Duration
}

// DenyName is the name under which decisions against denied agents appear in
// place of a jail's.
const DenyName = "deny"

// Deny is the rule for denied agents: a decision at first sight.
type Deny struct {
	Agents  []string // substrings, matched without regard to case
	Ban     time.Duration
	Observe bool
	Actions []string
	Passive bool
}

// MinMemory is the least [Options.MaxMemory] with which a rule of that limit
// and window can do its work, in bytes.
func MinMemory(limit int, window time.Duration) int64 { return minMemory(limit, window) }
