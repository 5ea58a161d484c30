package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// tentative is a start whose bans end at a deadline unless somebody confirms
// it: who has locked himself out only has to wait.
type tentative struct {
	mu        sync.Mutex
	deadline  time.Time // zero: it is none, or was confirmed
	confirmed chan struct{}
}

func newTentative(length time.Duration, now time.Time) *tentative {
	t := &tentative{confirmed: make(chan struct{})}
	if length > 0 {
		t.deadline = now.Add(length)
	}
	return t
}

// until is when bans end that nobody has confirmed; zero: they don't.
func (t *tentative) until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline
}

// confirm ends it, and returns what the deadline was; zero: there was none.
func (t *tentative) confirm() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.deadline
	if !was.IsZero() {
		t.deadline = time.Time{}
		close(t.confirmed)
	}
	return was
}

// startTentative says what is to be confirmed, and that it hasn't been in time.
func (d *daemon) startTentative() {
	until := d.tentative.until()
	if until.IsZero() {
		return
	}
	d.Log.Warn("bans end at a deadline, unless tailban confirm comes before", "deadline", utc(until).Format(time.RFC3339))
	startPart(d.serving, func(ctx context.Context) {
		end := time.NewTimer(time.Until(until))
		defer end.Stop()
		select {
		case <-ctx.Done():
		case <-d.tentative.confirmed:
		case <-end.C:
			d.Log.Error("nobody has confirmed this start: no ban is enforced until tailban confirm")
			d.hub.publish(alarm(time.Now(), "nobody has confirmed this start: no ban is enforced"))
		}
	})
}

// Confirm implements control.Operator.
func (d *daemon) Confirm(ctx context.Context, c control.Caller) (*control.ConfirmResult, error) {
	done, err := d.mayReload(ctx) // a reload could begin an action with the deadline
	if err != nil {
		return nil, err
	}
	defer done()
	was := d.tentative.confirm()
	if was.IsZero() {
		return &control.ConfirmResult{}, nil
	}
	for _, e := range d.enforcers() {
		e.reconciler.Cap(time.Time{})
	}
	now := time.Now()
	d.Log.Info("confirmed: bans last as long as they should", "by", by(c), "late", now.After(was))
	d.hub.publish(control.Event{Time: now, Kind: "confirm", By: by(c)})
	return &control.ConfirmResult{Deadline: utc(was), Late: now.After(was)}, nil
}
