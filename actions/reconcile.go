package actions

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Defaults of Options.
const (
	DefaultInterval   = 30 * time.Second
	DefaultMinBackoff = 250 * time.Millisecond
	DefaultMaxBackoff = time.Minute
)

// Options of a Reconciler. Action is required.
type Options struct {
	Name   string // the action's, for messages
	Action Action
	Log    *slog.Logger // nil: none

	Interval   time.Duration // between full passes; 0: DefaultInterval
	MinBackoff time.Duration // after a first failure; 0: DefaultMinBackoff
	MaxBackoff time.Duration // 0: DefaultMaxBackoff

	Now     func() time.Time // nil: time.Now
	OnState func(State)      // called by Run when failing begins and when it is over; nil: nobody listens
}

// State is whether an action enforces what it should.
type State struct {
	Failing bool
	Since   time.Time // when failing began or ended; zero: it has not failed yet
	Err     error     // the latest, while failing
}

// Stats is a view of a Reconciler. The counts are since NewReconciler.
type Stats struct {
	State
	Desired int // bans that should be in force, with those that ended since the last full pass
	Pending int // changes that are not applied yet, 131,072 at most

	Applies    uint64    // calls of Apply that succeeded
	Passes     uint64    // full passes that succeeded
	LastPassed time.Time // when the latest of them did; zero: none has

	// Drift repaired: differences that no Set or Delete had asked for.
	DriftAdded     uint64
	DriftRemoved   uint64
	DriftCorrected uint64 // time left

	Rejected uint64 // bans that the action refused; see [RejectedError]
	Lost     uint64 // changes beyond the cap of Pending, left to a full pass
}

// Reconciler makes what one action holds equal to what should be in force:
// when it starts, when that changes, at an interval, and again after every
// error. Nothing is ever flushed and filled: differences are applied.
//
// Its memory is what Set has named and has neither been deleted nor ended;
// the caller bounds that.
type Reconciler struct {
	opt  Options
	log  *slog.Logger
	wake chan struct{} // holds one token while there are changes

	mu      sync.Mutex
	desired map[netip.Prefix]want
	pending map[netip.Prefix]struct{} // changed since it was applied
	lost    bool                      // changes beyond maxPending: only a full pass finds them
	stats   Stats
}

type want struct {
	until    time.Time
	rejected bool // by the action, which has been said
}

// maxPending bounds the changes that are remembered one by one while they
// cannot be applied. Beyond it a full pass finds them; only the count of
// drift is then too high.
const maxPending = 1 << 17

// NewReconciler returns a Reconciler that does nothing until Run.
func NewReconciler(o Options) *Reconciler {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.MinBackoff <= 0 {
		o.MinBackoff = DefaultMinBackoff
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = DefaultMaxBackoff
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{
		opt:     o,
		log:     o.Log.With(slog.String("action", o.Name)),
		wake:    make(chan struct{}, 1),
		desired: map[netip.Prefix]want{},
		pending: map[netip.Prefix]struct{}{},
	}
}

// Set says that target should be banned until then. It waits for nothing, and
// nothing for its effect; a time that has passed is Delete.
func (r *Reconciler) Set(target netip.Prefix, until time.Time) {
	r.mu.Lock()
	r.desired[target] = want{until: until, rejected: r.desired[target].rejected}
	r.markPending(target)
	r.mu.Unlock()
	r.notify()
}

// Delete says that target should not be banned any longer.
func (r *Reconciler) Delete(target netip.Prefix) {
	r.mu.Lock()
	delete(r.desired, target)
	r.markPending(target)
	r.mu.Unlock()
	r.notify()
}

func (r *Reconciler) markPending(target netip.Prefix) {
	_, known := r.pending[target]
	switch {
	case known:
	case len(r.pending) < maxPending:
		r.pending[target] = struct{}{}
	default:
		r.lost = true
		r.stats.Lost++
	}
}

func (r *Reconciler) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Stats returns a view. It never waits for the action.
func (r *Reconciler) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Desired, s.Pending = len(r.desired), len(r.pending)
	return s
}
