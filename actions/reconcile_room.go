package actions

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// place is one of the places of an action that is [Bounded]. When it is full,
// the bans in it are those that end last.
type place struct {
	name string
	size int // how many bans fit
	in   int // bans that are wanted there, and fit
	out  int // bans that are wanted there, and don't
	said bool

	// ends has the bans that are in, soonest end first, and what is no longer
	// so: an entry counts if its ban still ends then. It is kept once the place
	// has been full; nil before.
	ends endings
}

type ending struct {
	target netip.Prefix
	at     time.Time
}

// endings is a heap (container/heap).
type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// resize takes up how many bans fit by now. Those that don't any more leave.
func (r *Reconciler) resize() {
	b, ok := r.opt.Action.(Bounded)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for target := range r.desired {
		if len(seen) == len(r.places) {
			return
		}
		p := r.placeOf(target)
		if p == nil || seen[p.name] {
			continue
		}
		seen[p.name] = true
		_, p.size = b.Room(target)
		for p.in > p.size {
			first, ok := r.soonest(p)
			if !ok {
				break
			}
			r.evict(p, first)
		}
	}
}

// placeOf returns the place of a target; nil: it has no bound.
func (r *Reconciler) placeOf(target netip.Prefix) *place {
	b, ok := r.opt.Action.(Bounded)
	if !ok {
		return nil
	}
	name, size := b.Room(target)
	if name == "" {
		return nil
	}
	p := r.places[name]
	if p == nil {
		p = &place{name: name, size: size}
		r.places[name] = p
	}
	return p
}

// want makes a target desired, in or out of its place.
func (r *Reconciler) want(target netip.Prefix, until time.Time) {
	was := r.desired[target]
	w := want{until: until, rejected: was.rejected, inForce: was.inForce && was.until.After(r.opt.Now())}
	p := r.placeOf(target)
	if p != nil {
		r.leave(p, target)
		delete(r.desired, target) // it does not make room for itself
		w.out = !r.admit(p, target, until)
		w.inForce = w.inForce && !w.out
	}
	r.desired[target] = w
}

// drop makes a target not desired any longer.
func (r *Reconciler) drop(target netip.Prefix) {
	if p := r.placeOf(target); p != nil {
		r.leave(p, target)
	}
	if _, m := r.above(target); m != nil {
		delete(m.under, target)
		delete(m.waiting, target)
	}
	delete(r.merged, target)
	delete(r.desired, target)
}

// leave is half of drop: the target is in no place.
func (r *Reconciler) leave(p *place, target netip.Prefix) {
	w, ok := r.desired[target]
	switch {
	case !ok:
	case w.out:
		p.out--
	default:
		p.in--
	}
}

// admit finds room for a ban, or counts it among those without.
func (r *Reconciler) admit(p *place, target netip.Prefix, until time.Time) bool {
	if p.in >= p.size {
		r.makeRoom(p, until)
	}
	if p.in >= p.size {
		p.out++
		r.stats.Evicted++
		return false
	}
	p.in++
	if p.ends != nil {
		heap.Push(&p.ends, ending{target, until})
	}
	return true
}

// makeRoom has the ban that ends soonest leave, unless that is after until.
func (r *Reconciler) makeRoom(p *place, until time.Time) {
	first, ok := r.soonest(p)
	if !ok || !first.at.Before(until) {
		return
	}
	r.evict(p, first)
}

// evict has the ban leave that ends first.
func (r *Reconciler) evict(p *place, first ending) {
	heap.Pop(&p.ends)
	w := r.desired[first.target]
	w.out, w.inForce = true, false
	r.desired[first.target] = w
	p.in, p.out = p.in-1, p.out+1
	if first.at.After(r.opt.Now()) {
		r.stats.Evicted++
	}
	r.markPending(first.target, asked)
	r.release(first.target)
}

// soonest is the ban in a place that ends first.
func (r *Reconciler) soonest(p *place) (ending, bool) {
	if p.ends == nil || len(p.ends) > 2*p.size+64 {
		r.gather(p)
	}
	for len(p.ends) > 0 {
		first := p.ends[0]
		if w, ok := r.desired[first.target]; ok && !w.out && w.until.Equal(first.at) {
			return first, true
		}
		heap.Pop(&p.ends)
	}
	return ending{}, false
}

// gather lists the ends of what is in a place anew.
func (r *Reconciler) gather(p *place) {
	p.ends = make(endings, 0, p.size)
	for target, w := range r.desired {
		if !w.out && r.placeOf(target) == p {
			p.ends = append(p.ends, ending{target, w.until})
		}
	}
	heap.Init(&p.ends)
}

// readmit gives room that has become free to those left out, those that end
// last first; some of it may have gone to others that end sooner.
func (r *Reconciler) readmit(now time.Time) {
	left := 0
	for _, p := range r.places {
		left += p.out
	}
	if left == 0 {
		return
	}
	waiting := make([]ending, 0, left)
	for target, w := range r.desired {
		switch {
		case !w.until.After(now):
			r.drop(target)
		case w.out:
			waiting = append(waiting, ending{target, w.until})
		}
	}
	slices.SortFunc(waiting, func(a, b ending) int {
		return cmp.Or(b.at.Compare(a.at), a.target.Compare(b.target))
	})
	for _, x := range waiting {
		p := r.placeOf(x.target)
		if first, ok := r.soonest(p); p.in < p.size || ok && first.at.Before(x.at) {
			r.want(x.target, x.at)
			r.markPending(x.target, asked)
		}
	}
}

// crowd is a place to tell of.
type crowd struct {
	place     string
	size, out int
	over      bool
}

// crowded returns the places that have become full, or have room again, since
// it was last asked.
func (r *Reconciler) crowded() (news []crowd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.places {
		if p.said != (p.out > 0) {
			p.said = !p.said
			news = append(news, crowd{p.name, p.size, p.out, !p.said})
		}
	}
	return news
}
