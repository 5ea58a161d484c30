// Package actions holds the places where bans are enforced, and the
// reconciler that makes what an action holds equal to what should be in
// force.
package actions

import (
	"context"
	"net/netip"
	"time"
)

// Entry is one ban as an action holds it.
type Entry struct {
	Target  netip.Prefix  // masked, never IPv4-mapped
	Left    time.Duration // until the action lets it go by itself; 0 in a listing: never
	Packets uint64        // turned away so far, where the action can tell (listing only)

	// Merged is not 0 for a network that is banned as one, in place of members
	// of which at least so many are banned; see [Reconciler.SetMerged].
	Merged int
}

// Action is a place where bans are enforced. Methods are called by one
// goroutine at a time, but for those of [Holder]. Every error is retried by the reconciler; one for
// which trying again cannot help until somebody changes something wraps
// ErrPermanent.
type Action interface {
	// Prepare makes sure that what the action needs (a table, rules, a list)
	// exists and is as it should be, repairing what is not, without touching
	// the bans it holds if that can be avoided. It is called before the
	// first use, after an error, and at every full reconciliation. An error that
	// wraps ErrHoldsBans lets the reconciler go on with the bans.
	Prepare(ctx context.Context) error

	// Apply removes and adds. Each is idempotent: adding what is there sets
	// its remaining time, removing what is not there is success, and an
	// addition without time left is none. nil means that all of it is in
	// force; a *RejectedError that all of it is but the changes it names;
	// after any other error any part of it may be. No target is named twice.
	Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error

	// List returns what the action holds now, with the time left.
	List(ctx context.Context) ([]Entry, error)

	// Close lets go of sockets and the like. Bans stay. Prepare makes the
	// action usable again.
	Close() error
}

// Checker is an action that can tell beforehand why it would not work.
type Checker interface {
	// Check looks at all that Prepare needs and that can be looked at without
	// changing anything. It may be called before the first Prepare, also while
	// another action works in the same place.
	Check(ctx context.Context) error
}

// Holder is an action that can be asked for one target without listing all.
type Holder interface {
	// Held returns what the action holds for exactly this target, if
	// anything. It only reads, needs no Prepare, and may be called from any
	// goroutine, also while another method runs.
	Held(ctx context.Context, target netip.Prefix) (e Entry, held bool, err error)
}

// Watcher is an action that hears when somebody else changes what it holds.
type Watcher interface {
	// Watch calls changed for each change by others, soon after it, until ctx is
	// done or it can't hear any more, which is an error. A change while it begins
	// may be missed; ready is called once none is missed any longer. It may be
	// called from any goroutine, also while another method runs, and needs no
	// Prepare. changed must not block.
	Watch(ctx context.Context, ready func(), changed func(Change)) error
}

// Contester is an action that can't be listened to, but finds out by Prepare that
// somebody else changes what it has again and again.
type Contester interface {
	// Contested reports whether that is so, and repairs wait because of it. It may
	// be called from any goroutine, and waits for nothing.
	Contested() bool
}

// Change is what somebody else has done to an action.
type Change struct {
	Gone []netip.Prefix // bans that were taken out
	Came []netip.Prefix // bans that were put in, or given another time
	All  bool           // anything may have changed, rules included
}

// Bounded is an action that has room for only so many bans.
type Bounded interface {
	// Room names the place that a target is held in, and how many fit into it.
	// The name stays as it is; that the number has changed counts from the next
	// full pass on. An empty name: there is no bound.
	Room(target netip.Prefix) (place string, size int)
}

// Paced is an action for which each Apply is dear, so that changes are gathered for
// it.
type Paced interface {
	// Pause is for how long from now on to gather more changes before the next
	// Apply. It may be called from any goroutine, and waits for nothing.
	Pause() time.Duration
}

// Repairer is an action that repairs the rules its bans are enforced by.
type Repairer interface {
	// Repairs is how often a Prepare found them changed by others. It may be called
	// from any goroutine, and waits for nothing.
	Repairs() uint64
}

// Limited is an action that can hold a ban for only so long at a time.
type Limited interface {
	// Longest is the longest time left that Apply gives an addition; one with
	// more is held for that, and is no error. It stays as it is. Who wants a ban
	// for longer adds it again before it ends.
	Longest() time.Duration
}

// Overstayer is an action that can't be relied on to take out what it should.
// Its methods only read, and may be called from any goroutine, also while another
// method runs.
type Overstayer interface {
	// Overdue tells of the bans that are over, or were lifted, and that the action
	// could not take out yet.
	Overdue() Overdue
	// OverdueAt returns those of them that an address is in.
	OverdueAt(address netip.Addr) []OverdueBan
}

// Overdue is about bans that an action holds, or may hold, longer than it should.
type Overdue struct {
	Count int
	Since time.Time // when there began to be some or, with a Count of 0, none
	Err   error     // why one of them, which it names, can't be taken out
}

// OverdueBan is one of them.
type OverdueBan struct {
	Target netip.Prefix
	Err    error // why it can't be taken out
}

// Protected reports whether a target must never be banned, and why. Actions
// ask it for every addition, although the decision has passed it before. An
// action takes a protected target that it holds off its list when it is asked
// to add it.
type Protected func(target netip.Prefix) (reason string, yes bool)
