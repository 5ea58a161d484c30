package source

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// A deleted file is read on as long as lines come: servers write to it until
// they are told to re-open their logs. No name leads to it any more, so what
// hasn't been read of it at a stop, or when it is let go, is lost.

// errMakingRoom says that a file will be opened as soon as a deleted one, which
// holds its place, has been let go.
var errMakingRoom = errors.New("a deleted file is let go first")

// makeRoom has a deleted file give way to one that can't be opened for err: the
// one that has been quiet longest, one at a time. If there is none err stands.
func (r *follower) makeRoom(err error) error {
	if r.deleted == nil {
		r.deleted = []*tail{}
		for _, t := range r.tails {
			if t.unlinked() {
				r.deleted = append(r.deleted, t)
			}
		}
	}
	if len(r.deleted) == 0 {
		return err
	}
	if !slices.ContainsFunc(r.deleted, func(t *tail) bool { return t.giveWay.Load() }) {
		quietest := slices.MinFunc(r.deleted, func(a, b *tail) int { return cmp.Compare(a.last.Load(), b.last.Load()) })
		quietest.giveWay.Store(true)
		nudge(quietest.wake)
	}
	r.quietSince = time.Now() // look again soon
	return errMakingRoom
}

// hand gives a batch to out until ctx is done; that of a deleted file for half a
// second more.
func (t *tail) hand(ctx context.Context, out chan<- *Batch, b *Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
	}
	if t.unlinked() {
		late, stop := t.afterwards()
		defer stop()
		select {
		case out <- b:
			return true
		case <-late.Done():
		}
	}
	t.cutOff = true
	return false
}

// afterwards is how long a deleted file is read on after a stop.
func (t *tail) afterwards() (context.Context, context.CancelFunc) {
	if t.end.IsZero() {
		t.end = time.Now().Add(handOver)
	}
	return context.WithDeadline(context.Background(), t.end)
}

// leave sends, at a stop, what is left of a deleted file. If nothing else has its
// name its writer may go on with it: then its position is kept, so that the next
// start says that it is gone.
func (t *tail) leave(out chan<- *Batch) {
	if t.cutOff || !t.unlinked() {
		return
	}
	late, stop := t.afterwards()
	defer stop()
	if !t.drain(late, out, true) {
		return
	}
	b, err := t.r.last()
	t.report(err)
	b.Final = t.hold.Load() == succeeded
	t.send(late, out, b)
}
