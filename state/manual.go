package state

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Pardon is what remains when somebody has lifted a ban: what the target did
// before counts no more, also when the log is read again.
type Pardon struct {
	Target netip.Prefix `json:"target"`           // masked, of any length
	Jail   string       `json:"jail"`             // "": all of them
	Since  time.Time    `json:"since"`            // when it was given
	Before time.Time    `json:"before"`           // events up to then don't count; in the future if the target is forgiven for a while
	Keep   time.Time    `json:"keep"`             // when the record may be forgotten
	Reason string       `json:"reason,omitempty"` // as they said it
	By     string       `json:"by,omitempty"`     // who

	// Stored is Since as the file has it, if that was in the future of the clock
	// that ran when it was loaded.
	Stored time.Time `json:"-"`
}

// PardonKey is what a pardon is stored under.
type PardonKey struct {
	Jail   string
	Target netip.Prefix
}

// Key returns what the pardon is stored under.
func (p *Pardon) Key() PardonKey {
	return PardonKey{Jail: p.Jail, Target: p.Target}
}

// Check says why a pardon can't be stored, or nil.
func (p *Pardon) Check() error {
	if err := p.Key().check(); err != nil {
		return err
	}
	if p.Keep.IsZero() {
		return fmt.Errorf("pardon of %s says not how long to keep it", p.Target)
	}
	return checkTimes(p.Since, p.Before, p.Keep)
}

// limitTo is the one of bans: one that was given in a future that a clock
// stepped back from is as if it were given now.
func (p *Pardon) limitTo(now time.Time) {
	if ahead := p.Since.Sub(now); ahead > 0 {
		p.Stored = p.Since
		p.Since, p.Before, p.Keep = now, p.Before.Add(-ahead), p.Keep.Add(-ahead)
	}
}

func (p *Pardon) runs(now time.Time) bool { return p.Keep.After(now) }

func (p *Pardon) utc() Pardon {
	c := *p
	c.Since, c.Before, c.Keep = p.Since.UTC(), p.Before.UTC(), p.Keep.UTC()
	return c
}

// Allowance keeps a target from being banned for some time.
type Allowance struct {
	Target netip.Prefix `json:"target"` // masked, of any length
	Since  time.Time    `json:"since"`
	Until  time.Time    `json:"until"` // never zero: what has no end belongs into the configuration
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"`
}

// Check says why an allowance can't be stored, or nil.
func (a *Allowance) Check() error {
	if err := checkPrefix(a.Target); err != nil {
		return err
	}
	if a.Until.IsZero() {
		return fmt.Errorf("allowance of %s has no end", a.Target)
	}
	return checkTimes(a.Since, a.Until)
}

func (a *Allowance) limitTo(now time.Time) {
	a.Since, a.Until = limit(a.Since, a.Until, now)
}

func (a *Allowance) runs(now time.Time) bool { return a.Until.After(now) }

func (a *Allowance) utc() Allowance {
	c := *a
	c.Since, c.Until = a.Since.UTC(), a.Until.UTC()
	return c
}

// Hold keeps a jail from deciding.
type Hold struct {
	Jail   string    `json:"jail"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until somebody resumes it
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
}

// Check says why a hold can't be stored, or nil.
func (h *Hold) Check() error {
	return errors.Join(checkName("jail", h.Jail), checkTimes(h.Since, h.Until))
}

func (h *Hold) limitTo(now time.Time) {
	since, until := limit(h.Since, h.Until, now)
	h.Since = since
	if !h.Until.IsZero() {
		h.Until = until
	}
}

func (h *Hold) runs(now time.Time) bool { return h.Until.IsZero() || h.Until.After(now) }

func (h *Hold) utc() Hold {
	c := *h
	c.Since, c.Until = h.Since.UTC(), h.Until.UTC()
	return c
}

// limit returns what runs from since to until, moved so that it has not begun
// after now.
func limit(since, until, now time.Time) (time.Time, time.Time) {
	if since.After(now) {
		return now, now.Add(until.Sub(since))
	}
	return since, until
}
