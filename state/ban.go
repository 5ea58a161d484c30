// Package state keeps what must survive a restart: bans, offence history, read
// positions and what somebody has said by hand. It takes time as an argument and imports nothing of ours.
//
// [Store] is the file, [Writer] the queue in front of it that keeps a slow or
// hung disk away from whoever decides. The layout of the file is described in
// layout.go. [Windows] have a file of their own.
package state

import (
	"net/netip"
	"slices"
	"time"
)

// Ban is what is in force against one target. Nothing in it ties it to one
// host except Origin.
type Ban struct {
	Target netip.Prefix `json:"target"` // masked
	Origin string       `json:"origin"` // name of the host that decided it
	Owners []Owner      `json:"owners"` // at least one

	// Waiting is whether it is not enforced yet, as too many were decided at a
	// time.
	Waiting bool `json:"waiting,omitempty"`
}

// Owner is one jail's hold on a ban.
type Owner struct {
	Jail    string     `json:"jail"`
	Client  netip.Addr `json:"client"`            // whose event crossed the limit
	Since   time.Time  `json:"since"`             // when it was decided
	Until   time.Time  `json:"until"`             // when it ends by itself
	Actions []string   `json:"actions,omitempty"` // which actions enforce it; none in observe mode
	Offence int        `json:"offence"`           // 1: first
	Count   int        `json:"count"`             // events in the window at the crossing
	Event   time.Time  `json:"event"`             // time of the crossing line
	Line    LineID     `json:"line"`              // the crossing line

	// What explains it to people; nothing is decided by it.

	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"`     // who banned by hand; "": a jail did
	Limit  int           `json:"limit,omitempty"`  // of the jail at the crossing
	Window time.Duration `json:"window,omitempty"` // likewise; stored in nanoseconds
	Plane  string        `json:"plane,omitempty"`  // how a ban could reach the client
	Sample *Sample       `json:"sample,omitempty"` // what the crossing line said

	// Stored is when it ends by the file, if it was decided in the future of the
	// clock that it was loaded by; see [Loaded]. It is not stored itself.
	Stored time.Time `json:"-"`
}

// Sample is the crossing line as evidence. Whoever makes it cuts its texts to
// a length and takes queries off. Bytes that are not UTF-8 come back from the
// store as U+FFFD.
type Sample struct {
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
	Agent  string `json:"agent,omitempty"`
}

// LineID names a line for good: a decision of the same jail against the same
// target at the same LineID is the same decision, however often it is read.
// Path is for people: bytes in it that are not UTF-8 come back from the store
// as U+FFFD, so compare by the other three.
type LineID struct {
	Path   string `json:"path"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Offset int64  `json:"offset"` // of the line's first byte
}

// limitTo makes the time left of each owner at most its length.
func (b *Ban) limitTo(now time.Time) {
	for i := range b.Owners {
		o := &b.Owners[i]
		if o.Since.After(now) {
			o.Stored = o.Until
		}
		o.Since, o.Until = limit(o.Since, o.Until, now)
	}
}

func (b *Ban) runs(now time.Time) bool { return b.Until("").After(now) }

// Until returns when the last owner that names the action lets go; the zero
// time if no owner does, or the ban is waiting. An empty action means any owner,
// whether or not it waits.
func (b *Ban) Until(action string) time.Time {
	var last time.Time
	if action != "" && b.Waiting {
		return last
	}
	for i := range b.Owners {
		o := &b.Owners[i]
		if action != "" && !slices.Contains(o.Actions, action) {
			continue
		}
		if o.Until.After(last) {
			last = o.Until
		}
	}
	return last
}

// Clone returns a copy that shares no memory with b.
func (b *Ban) Clone() Ban {
	c := *b
	c.Owners = slices.Clone(b.Owners)
	for i := range c.Owners {
		o := &c.Owners[i]
		o.Actions = slices.Clone(o.Actions)
		if o.Sample != nil {
			sample := *o.Sample
			o.Sample = &sample
		}
	}
	return c
}
