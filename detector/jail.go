// Package detector decides who is banned. It holds the order of exceptions
// and the exact sliding windows, and nothing else: no I/O, no clock, no
// goroutine. Live and replay run this same code.
package detector

import (
	"net/netip"
	"time"
)

// Jail is a rule with a name.
type Jail struct {
	Name      string
	Logs      []string        // names of the logs whose events it sees
	Where     Where           // which events count
	Limit     int             // more than this many in any Window bans; 0 bans at first sight
	Overrides []Override      // other limits for some; the longest prefix that holds the client is the one that counts
	Window    time.Duration   // > 0
	Ban       []time.Duration // the ladder: length of the first ban, the second …, the last for all further ones; at least one, each > 0
	Remember  time.Duration   // how long after the latest offence the count begins anew; 0: that of the options
	Observe   bool            // decide and record, enforce nothing
	Actions   []string        // names of the actions that enforce its bans
	Passive   bool            // none of Actions keeps anybody away (they only log)
}

// Override is a limit for the clients of a network, in place of their jail's.
// Each client still has a window of its own.
type Override struct {
	From  netip.Prefix // masked; IPv6 at most /64, so that a target is all inside or all outside
	Limit int
}

// Wanted is a machine that is let pass if its user agent and its address are
// those of such a machine or, where there is nothing to tell it by but its agent
// (agent_only), by that alone. Its address is in its ranges or, if it has domains,
// has a name in one of these which has that address. It may have a limit of its own, per client; events
// beyond it are those of an ordinary client, and so are those of who only claims
// to be it.
type Wanted struct {
	Name   string
	Agents []string // substrings, matched without regard to case
	From   []Source // where its requests come from; none, and no Domains: its agent is enough

	// Domains, in lower case and without dots at their ends, are where the names
	// of its addresses are: these or below. They are looked at if the address is
	// not in From.
	Domains []string

	Limit  int
	Window time.Duration // 0: there is no limit
}

// Source is a list of addresses from which requests of a machine come.
type Source struct {
	Name     string         // of a provider or of a file; "": the configuration itself
	Prefixes []netip.Prefix // masked
}

// DenyName is the name under which decisions against the denied appear in
// place of a jail's.
const DenyName = "deny"

// Deny is the rule for those who are denied, by their user agent or their
// address: a decision at first sight. It is about the client's own target,
// however wide the range is that holds it.
type Deny struct {
	Agents   []string       // substrings, matched without regard to case
	From     []netip.Prefix // masked
	Ban      []time.Duration
	Remember time.Duration
	Observe  bool
	Actions  []string
	Passive  bool
}

// MinMemory is the least [Options.MaxMemory] with which a rule of that limit
// and window can do its work, in bytes.
func MinMemory(limit int, window time.Duration) int64 { return minMemory(limit, window) }
