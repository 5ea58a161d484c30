package actions

import (
	"context"
	"net/netip"
)

// Applied waits until all that is wanted now has been applied, or ctx is done.
// Changes that come meanwhile are not waited for.
func (r *Reconciler) Applied(ctx context.Context) error {
	r.mu.Lock()
	need := r.taken
	if need == 0 || len(r.pending) > 0 || r.lost {
		need++
	}
	r.mu.Unlock()
	for {
		r.mu.Lock()
		if r.applied >= need {
			r.mu.Unlock()
			return nil
		}
		if r.news == nil {
			r.news = make(chan struct{})
		}
		news := r.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// passedAll notes that what was taken last has been applied.
func (r *Reconciler) passedAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = r.taken
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// Wants reports whether a target should be banned, and can be.
func (r *Reconciler) Wants(target netip.Prefix) bool { return r.stands(target) }

// Again says that somebody may have taken targets out. Those that should be
// banned are banned once more, also if the action believes that it holds them.
func (r *Reconciler) Again(targets []netip.Prefix) {
	r.mu.Lock()
	for _, t := range targets {
		if _, wanted := r.desired[t]; wanted {
			r.markPending(t, redo)
		}
	}
	r.mu.Unlock()
	r.notify()
}
