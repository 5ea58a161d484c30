package actions

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// plan is what one pass changes.
type plan struct {
	add    []Entry
	remove []netip.Prefix

	taken   map[netip.Prefix]cause // the pending changes that it covers
	lost    bool                   // and those that were not remembered
	retried []netip.Prefix         // additions that were rejected before
	begun   []netip.Prefix         // additions of what is not in force yet
	found   []netip.Prefix         // what has come in force although Apply failed

	merged  map[netip.Prefix]time.Time // the ends of merged networks among the additions
	covered map[netip.Prefix]struct{}  // removals of what a network bans from here on

	held             int // by the action, as listed
	added, corrected uint64
	strays           []netip.Prefix // removals that nobody had asked for
}

// drift is what was found, for messages.
func (p *plan) drift() []any {
	return []any{slog.Uint64("added", p.added), slog.Int("removed", len(p.strays)), slog.Uint64("corrected", p.corrected)}
}

func (p *plan) empty() bool { return len(p.add) == 0 && len(p.remove) == 0 }

// tolerance is how far the time left at an action may be from the one wanted:
// clocks and listings are not exact, and steps of the wall clock small.
func tolerance(left time.Duration) time.Duration { return max(2*time.Second, left/100) }

// reach is the longest time that the action can hold a ban; 0: any.
func (r *Reconciler) reach() time.Duration {
	if l, ok := r.opt.Action.(Limited); ok {
		return l.Longest()
	}
	return 0
}

// standing is how a ban's time at an action compares with what is left of it.
type standing int

const (
	right standing = iota
	due            // to be given more of its time, as was to be expected
	wrong          // somebody else's doing
)

// compareTime judges the time that a ban has at an action, listed within slack.
// A ban longer than the action's reach is held for a part of its time. It is
// right with any time that is at least half of the reach, and given more when
// it has less, so that long before it would end it is held for longer. Whether
// it should have had more then can't be told: not until it has less than a
// quarter is it taken for changed by somebody else.
func compareTime(has, left, reach, slack time.Duration) standing {
	want := left
	if reach > 0 {
		want = min(left, reach)
	}
	switch {
	case has <= 0 || has-want > tolerance(want)+slack:
		return wrong
	case want-has <= tolerance(want)+slack:
		return right
	case reach <= 0 || left <= reach/2:
		return wrong
	case has >= reach/2:
		return right
	case has >= reach/4:
		return due
	}
	return wrong
}

// planChanges takes the pending changes.
func (r *Reconciler) planChanges(now time.Time) *plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.take()
	for target, why := range p.taken {
		w, ok := r.desired[target]
		if ok && !w.until.After(now) {
			r.drop(target)
			ok = false
		}
		if ok && r.covered(target, w.until) {
			r.planCovered(p, target, w, why)
			continue
		}
		if left := r.left(w, now); ok && !w.out && left > 0 {
			r.put(p, target, w, left)
			p.added += count(why == gone && !w.rejected)
			p.corrected += count(why == came)
			if !w.inForce || why == gone {
				p.begun = append(p.begun, target)
			}
			continue
		}
		// What has already ended is removed too: it may be there with a
		// longer time.
		if why != gone {
			p.takeOut(target, why == came)
		}
	}
	return p
}

// planFull takes the pending changes and compares everything with what the
// action held, as listed within slack before now.
func (r *Reconciler) planFull(held []Entry, now time.Time, slack time.Duration) *plan {
	there := make(map[netip.Prefix]Entry, len(held))
	for _, e := range held {
		there[e.Target] = e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resize()
	r.readmit(now)
	p := r.take()
	p.held = len(held)
	r.forgetKept(there)
	for target, why := range p.taken {
		if why == redo {
			delete(there, target)
		}
	}
	r.findMerged(p, there, now, slack)
	r.planDesired(p, there, now, slack)
	if r.recap { // which is nobody else's doing
		p.added, p.corrected, r.recap = 0, 0, false
	}
	r.planBeyond(p, there, slack)
	r.planUnlisted(p, there)
	return p
}

// planDesired adds what is missing and corrects what has another time left.
func (r *Reconciler) planDesired(p *plan, there map[netip.Prefix]Entry, now time.Time, slack time.Duration) {
	for target, w := range r.desired {
		if !w.until.After(now) {
			r.drop(target) // the action lets it go by itself
			continue
		}
		_, asked := p.taken[target]
		drift := !asked && !w.rejected
		e, ok := there[target]
		has, left := e.Left, r.left(w, now)
		if r.covered(target, w.until) {
			if ok {
				r.takeBack(p, target, w, drift && !w.inForce)
			}
			continue
		}
		if ok && !w.inForce {
			r.foundInForce(p, target, w)
		}
		switch {
		case w.out || left <= 0:
			if ok && has != 0 && has <= tolerance(0)+slack {
				continue // ends at any moment
			}
			if ok {
				p.remove = append(p.remove, target)
			}
		case !ok:
			r.put(p, target, w, left)
			p.begun = append(p.begun, target)
			p.added += count(drift)
		default:
			if s := r.standing(target, e, left, slack); s != right {
				r.put(p, target, w, left)
				p.corrected += count(drift && s == wrong)
			}
		}
	}
}

// planBeyond removes what should not be there. What was not asked to be
// removed and ends at any moment is left to do so.
func (r *Reconciler) planBeyond(p *plan, there map[netip.Prefix]Entry, slack time.Duration) {
	for target, e := range there {
		left := e.Left
		if _, ok := r.desired[target]; ok {
			continue
		}
		_, asked := p.taken[target]
		if !asked && left > 0 && left <= tolerance(0)+slack {
			continue
		}
		_, kept := r.kept[target]
		p.takeOut(target, !asked && !kept)
	}
}

// takeOut plans a removal. stray says that nobody has asked for it.
func (p *plan) takeOut(target netip.Prefix, stray bool) {
	p.remove = append(p.remove, target)
	if stray {
		p.strays = append(p.strays, target)
	}
}

// planUnlisted removes what was asked to be removed although it is not listed,
// as an action need not know whether an addition that failed was made. Before
// the first try there is none of those.
func (r *Reconciler) planUnlisted(p *plan, there map[netip.Prefix]Entry) {
	if r.stats.Passes == 0 && !r.stats.Failing {
		return
	}
	for target, why := range p.taken {
		_, wanted := r.desired[target]
		if _, listed := there[target]; why == asked && !wanted && !listed {
			p.remove = append(p.remove, target)
		}
	}
}

func count(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

// planCovered takes back what a target that is covered holds by itself.
func (r *Reconciler) planCovered(p *plan, target netip.Prefix, w want, why cause) {
	switch {
	case why == gone:
		w.inForce = false
		r.desired[target] = w
	case why == came || w.inForce:
		r.takeBack(p, target, w, why == came)
	}
}

// takeBack removes a ban that one of a network has made needless.
func (r *Reconciler) takeBack(p *plan, target netip.Prefix, w want, stray bool) {
	p.takeOut(target, stray)
	p.covered[target] = struct{}{}
	w.inForce = false
	r.desired[target] = w
}

// put plans an addition, with no more time than the action can give it.
func (r *Reconciler) put(p *plan, target netip.Prefix, w want, left time.Duration) {
	if reach := r.reach(); reach > 0 {
		left = min(left, reach)
	}
	least := r.mergedAs(target)
	p.add = append(p.add, Entry{Target: target, Left: left, Merged: least})
	if least > 0 {
		p.merged[target] = w.until
	}
	if w.rejected {
		p.retried = append(p.retried, target)
	}
}

// take moves the pending changes into a new plan.
func (r *Reconciler) take() *plan {
	p := &plan{taken: r.pending, lost: r.lost, merged: map[netip.Prefix]time.Time{}, covered: map[netip.Prefix]struct{}{}}
	r.pending, r.lost = map[netip.Prefix]cause{}, false
	r.taken++
	return p
}

// markBegun notes what has come in force, and leaves only that in the plan.
func (r *Reconciler) markBegun(p *plan, rejected *RejectedError) {
	refused := map[netip.Prefix]struct{}{}
	if rejected != nil {
		for _, x := range rejected.Rejected {
			refused[x.Target] = struct{}{}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.begun = slices.DeleteFunc(p.begun, func(target netip.Prefix) bool {
		_, yes := refused[target]
		return yes
	})
	for _, target := range p.begun {
		if w, ok := r.desired[target]; ok {
			w.inForce = true
			r.desired[target] = w
		}
	}
	r.heldMerged(p, refused)
}

// ended are the removals that leave a target free.
func (p *plan) ended() []netip.Prefix {
	if len(p.covered) == 0 {
		return p.remove
	}
	return except(slices.Clone(p.remove), p.covered)
}

func except(targets []netip.Prefix, some map[netip.Prefix]struct{}) []netip.Prefix {
	return slices.DeleteFunc(targets, func(target netip.Prefix) bool {
		_, yes := some[target]
		return yes
	})
}

// keep leaves out of a plan what the action could not remove, and remembers it:
// a full pass tries again, and that is no drift.
func (r *Reconciler) keep(p *plan, kept []Rejection) {
	for _, target := range p.remove {
		delete(r.kept, target)
	}
	if len(kept) == 0 {
		return
	}
	these := map[netip.Prefix]struct{}{}
	for _, x := range kept {
		these[x.Target] = struct{}{}
		r.kept[x.Target] = struct{}{}
	}
	p.remove, p.strays = except(slices.Clone(p.remove), these), except(p.strays, these)
}

// forgetKept is for a full pass: what is not listed is gone.
func (r *Reconciler) forgetKept(there map[netip.Prefix]Entry) {
	for target := range r.kept {
		if _, listed := there[target]; !listed {
			delete(r.kept, target)
		}
	}
}

// putBack makes a plan's changes pending again.
func (r *Reconciler) putBack(p *plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for target, why := range p.taken {
		r.markPending(target, why)
	}
	r.lost = r.lost || p.lost
}

// postpone makes changes pending again that the action has not made yet, and leaves
// them out of the plan.
func (r *Reconciler) postpone(p *plan, targets []netip.Prefix) {
	these := make(map[netip.Prefix]struct{}, len(targets))
	for _, t := range targets {
		these[t] = struct{}{}
	}
	p.add = slices.DeleteFunc(slices.Clone(p.add), func(e Entry) bool { _, yes := these[e.Target]; return yes })
	p.remove, p.strays = except(slices.Clone(p.remove), these), except(p.strays, these)
	p.begun, p.retried = except(p.begun, these), except(p.retried, these)
	r.mu.Lock()
	for t := range these {
		delete(p.merged, t)
		r.markPending(t, asked)
	}
	r.mu.Unlock()
	r.notify()
}

// markRejected returns those of the rejections that are news.
func (r *Reconciler) markRejected(p *plan, rejected []Rejection) []Rejection {
	before := make(map[netip.Prefix]struct{}, len(p.retried))
	for _, target := range p.retried {
		before[target] = struct{}{}
	}
	var news []Rejection
	for _, x := range rejected {
		w, ok := r.desired[x.Target]
		if !ok {
			continue
		}
		w.rejected, w.inForce = true, false
		r.desired[x.Target] = w
		r.release(x.Target)
		if _, said := before[x.Target]; !said {
			news = append(news, x)
			r.stats.Rejected++
		}
	}
	return news
}
