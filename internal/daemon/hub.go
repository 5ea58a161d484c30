package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/notify"
)

const (
	maxFollowers = 16

	// followerRoom is how many events a follower may be behind before it is
	// let go of: a storm of bans is not to be kept in memory for somebody who
	// doesn't read.
	followerRoom = 1024
)

// hub hands what happens to those who follow it. Publishing never waits.
type hub struct {
	n         atomic.Int32 // followers and notifiers, for a quick look
	mu        sync.Mutex
	followers map[chan control.Event]struct{}
	notifiers []*notify.Notifier

	alarms *alarms
}

func newHub() *hub { return &hub{followers: map[chan control.Event]struct{}{}, alarms: newAlarms()} }

// followed reports whether anybody is there to hear.
func (h *hub) followed() bool { return h.n.Load() > 0 }

// publish sends an event to all followers. One that is too slow has its
// channel closed.
func (h *hub) publish(ev control.Event) { h.send(ev, true) }

// begins sends an alarm about a trouble that goes on until ends is called.
// Notifiers are told only if that is news.
func (h *hub) begins(now time.Time, about, text string) {
	h.send(alarm(now, text), h.alarms.begin(about, now))
}

// ends sends that a trouble is over, if any of these was there.
func (h *hub) ends(now time.Time, text string, about ...string) {
	over := false
	for _, x := range about {
		over = h.alarms.end(x) || over
	}
	if over {
		h.publish(recovery(now, text))
	}
}

// send sends an event to all followers and, if it is news, to notifiers.
func (h *hub) send(ev control.Event, news bool) {
	if !h.followed() {
		return
	}
	ev.Time, ev.Until = utc(ev.Time), utc(ev.Until)
	h.mu.Lock()
	defer h.mu.Unlock()
	if news {
		for _, n := range h.notifiers {
			n.Publish(toldOf(&ev))
		}
	}
	for c := range h.followers {
		select {
		case c <- ev:
		default:
			h.drop(c)
		}
	}
}

// tell has these notifiers told from now on, and no others.
func (h *hub) tell(all []*notify.Notifier) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n.Add(int32(len(all) - len(h.notifiers)))
	h.notifiers = all
}

// follow returns a channel of events that is closed when ctx is done. The
// first says that it has begun.
func (h *hub) follow(ctx context.Context, now time.Time) (<-chan control.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) >= maxFollowers {
		return nil, &control.Error{Code: control.CodeBusy, Message: "too many follow events already"}
	}
	c := make(chan control.Event, followerRoom)
	c <- control.Event{Time: now.UTC(), Kind: control.EventFollow}
	h.followers[c] = struct{}{}
	h.n.Add(1)
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drop(c)
	})
	return c, nil
}

// drop lets go of a follower. h.mu must be held.
func (h *hub) drop(c chan control.Event) {
	if _, ok := h.followers[c]; !ok {
		return
	}
	delete(h.followers, c)
	h.n.Add(-1)
	close(c)
}
