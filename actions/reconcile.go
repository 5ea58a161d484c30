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
	DefaultPatience   = 15 * time.Second
)

// Options of a Reconciler. Action is required.
type Options struct {
	Name   string // the action's, for messages
	Action Action
	Log    *slog.Logger // nil: none

	Interval   time.Duration // between full passes; 0: DefaultInterval
	MinBackoff time.Duration // after a first failure; 0: DefaultMinBackoff
	MaxBackoff time.Duration // 0: DefaultMaxBackoff
	Patience   time.Duration // for one call of the action, until it counts as failing; 0: DefaultPatience

	Now func() time.Time // nil: time.Now
	// Failed says that another reconciler of the action, before, was failing:
	// OnState is called when this one first works, too. Contested says that it was
	// contested: this one is until nothing has come for a while. An action that is a
	// Contester has to know by itself.
	Failed    bool
	Contested bool

	OnState func(State) // called while Run runs, when failing or being contested begins and when it is over, one call at a time; nil: nobody listens

	// OnChange is called by Run with the targets whose bans have come in force
	// just now and those whose bans it has taken back. A ban that is extended,
	// ends at its time, or was there when Run began is none of either. It must
	// not wait for anything, and keep neither list. nil: nobody listens.
	OnChange func(begun, ended []netip.Prefix)
}

// State is whether an action enforces what it should.
type State struct {
	Failing bool
	Since   time.Time // when failing began or ended; zero: it has not failed yet
	Err     error     // the latest, while failing

	// Contested is whether somebody else changes what the action holds again and
	// again, so that repairs wait.
	Contested bool
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

	Watched  bool   // changes by others are heard of; see [Watcher]
	Noticed  uint64 // changes by others that the action has told of
	Misheld  uint64 // bans that were not held as written when read back
	Rejected uint64 // bans that the action refused; see [RejectedError]
	Evicted  uint64 // times that a ban was left out for want of room; see [Bounded]
	LeftOut  int    // bans that are left out now
	Lost     uint64 // changes beyond the cap of Pending, left to a full pass
}

// Reconciler makes what one action holds equal to what should be in force:
// when it starts, when that changes, when somebody else changes what it holds,
// at an interval, and again after every error. Nothing is ever flushed and
// filled: differences are applied.
//
// Its memory is what Set has named and has neither been deleted nor ended;
// the caller bounds that.
type Reconciler struct {
	opt  Options
	log  *slog.Logger
	wake chan struct{} // holds one token while there are changes

	mu      sync.Mutex
	desired map[netip.Prefix]want
	pending map[netip.Prefix]cause // changed since it was applied
	lost    bool                   // changes beyond maxPending: only a full pass finds them
	cap     time.Time              // beyond which no ban is enforced; zero: none
	recap   bool                   // that has changed since the last full pass
	noticed noticed
	contest contest
	taken   uint64                    // how often changes were taken to be applied
	applied uint64                    // up to which time they have been
	ended   bool                      // Run has returned
	news    chan struct{}             // closed when one of these changes; nil: nobody waits
	kept    map[netip.Prefix]struct{} // what the action could not remove, and tells of
	places  map[string]*place         // of an action that is Bounded
	merged  map[netip.Prefix]*merged
	stats   Stats
	failed  bool // another one was, and this one has not worked yet

	readNext time.Time // when what was written may be read back again, of Run only
}

type want struct {
	until    time.Time
	rejected bool // by the action, which has been said
	out      bool // for want of room
	inForce  bool // since it was last set, as far as we know
}

// cause is why a target is looked at.
type cause uint8

const (
	asked cause = iota // Set or Delete was called
	gone               // somebody else took it out
	came               // somebody else put it in
	redo               // what the action is believed to hold does not count
)

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
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reconciler{
		opt:     o,
		log:     o.Log.With(slog.String("action", o.Name)),
		wake:    make(chan struct{}, 1),
		failed:  o.Failed,
		desired: map[netip.Prefix]want{},
		pending: map[netip.Prefix]cause{},
		kept:    map[netip.Prefix]struct{}{},
		places:  map[string]*place{},
		merged:  map[netip.Prefix]*merged{},
	}
	if o.Contested {
		r.goesOn(o.Now())
	}
	return r
}

// Set says that target should be banned until then. It waits for nothing, and
// nothing for its effect; a time that has passed is Delete.
func (r *Reconciler) Set(target netip.Prefix, until time.Time) {
	r.mu.Lock()
	r.unmerge(target)
	r.uncover(target)
	r.want(target, until)
	r.markPending(target, asked)
	r.mu.Unlock()
	r.notify()
}

// Delete says that target should not be banned any longer.
func (r *Reconciler) Delete(target netip.Prefix) {
	r.mu.Lock()
	r.unmerge(target)
	r.drop(target)
	r.markPending(target, asked)
	r.mu.Unlock()
	r.notify()
}

// Cap has no ban enforced beyond a time, however long it should last; the zero
// time ends that.
func (r *Reconciler) Cap(until time.Time) {
	r.mu.Lock()
	changed := !r.cap.Equal(until)
	r.cap = until
	r.recap, r.lost = r.recap || changed, r.lost || changed
	r.mu.Unlock()
	r.notify()
}

// left is how much longer a ban is to be enforced.
func (r *Reconciler) left(w want, now time.Time) time.Duration {
	if !r.cap.IsZero() && r.cap.Before(w.until) {
		return r.cap.Sub(now)
	}
	return w.until.Sub(now)
}

func (r *Reconciler) markPending(target netip.Prefix, why cause) {
	_, known := r.pending[target]
	switch {
	case known && why != asked:
	case known || len(r.pending) < maxPending:
		r.pending[target] = why
	default:
		r.lost = true
		r.stats.Lost++
	}
}

func (r *Reconciler) notify() {
	signal(r.wake)
}

// Stats returns a view. It never waits for the action.
func (r *Reconciler) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Desired, s.Pending = len(r.desired)-len(r.merged), len(r.pending)
	for _, p := range r.places {
		s.LeftOut += p.out
	}
	return s
}
