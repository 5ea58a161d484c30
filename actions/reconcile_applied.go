package actions

import (
	"context"
	"errors"
	"net/netip"
)

// ErrEnded is of who waits for a Reconciler whose Run has returned.
var ErrEnded = errors.New("it has ended, and applies nothing any more")

// Applied waits until all that is wanted now has been applied, or ctx is done.
// Changes that come meanwhile are not waited for. When Run returns, so does this,
// with [ErrEnded].
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
		if r.ended {
			r.mu.Unlock()
			return ErrEnded
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
	r.tellWaiting()
}

// setEnded notes whether Run has returned.
func (r *Reconciler) setEnded(ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = ended
	r.tellWaiting()
}

// tellWaiting has those look again who wait for what is applied.
func (r *Reconciler) tellWaiting() {
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
