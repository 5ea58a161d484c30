package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

func TestHubHandsOutInOrder(t *testing.T) {
	h := newHub()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.publish(control.Event{Kind: "ban"}) // nobody is there
	a, err := h.follow(ctx, time.Unix(1, 0))
	check(t, err)
	b, err := h.follow(ctx, time.Unix(1, 0))
	check(t, err)
	local := time.FixedZone("", 3600)
	for i := range 3 {
		h.publish(control.Event{Kind: "ban", Offence: i, Time: time.Unix(int64(i), 0).In(local)})
	}
	for _, c := range []<-chan control.Event{a, b} {
		if ev := <-c; ev.Kind != control.EventFollow {
			t.Errorf("first came %+v", ev)
		}
		for i := range 3 {
			if ev := <-c; ev.Kind != "ban" || ev.Offence != i || ev.Time.Location() != time.UTC {
				t.Errorf("got %+v, want number %d", ev, i)
			}
		}
	}
	cancel()
	for _, c := range []<-chan control.Event{a, b} {
		if ev, open := <-c; open {
			t.Errorf("got %+v after the end", ev)
		}
	}
	if h.followed() || len(h.followers) != 0 {
		t.Error("somebody is still counted")
	}
}

// Whoever doesn't read is let go of, and the others and the daemon go on.
func TestSlowFollowerIsDropped(t *testing.T) {
	h := newHub()
	ctx, cancel := context.WithCancel(t.Context())
	slow, err := h.follow(ctx, time.Now())
	check(t, err)
	quick, err := h.follow(ctx, time.Now())
	check(t, err)
	<-quick
	for range followerRoom + 10 {
		h.publish(control.Event{Kind: "ban"})
		if ev, open := <-quick; !open || ev.Kind != "ban" {
			t.Fatal("a quick one was dropped")
		}
	}
	n := 0
	for open := true; open; { // what was in time, and then the end
		select {
		case _, open = <-slow:
			n++
		case <-time.After(patience):
			t.Fatal("it was not let go of")
		}
	}
	n-- // its end
	if n != followerRoom {
		t.Errorf("it got %d events, want %d", n, followerRoom)
	}
	if h.n.Load() != 1 {
		t.Errorf("%d follow", h.n.Load())
	}
	cancel() // the dropped one's end has come already
	if _, open := <-quick; open {
		t.Error("an event after the end")
	}
}

func TestFollowersAreCapped(t *testing.T) {
	h := newHub()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxFollowers - 1 {
		_, err := h.follow(ctx, time.Now())
		check(t, err)
	}
	own, leave := context.WithCancel(t.Context())
	last, err := h.follow(own, time.Now())
	check(t, err)
	_, err = h.follow(ctx, time.Now())
	refusedAs(t, err, control.CodeBusy, "too many follow")
	leave()
	for range last { // until its place is free
	}
	_, err = h.follow(ctx, time.Now())
	check(t, err)
}

// A follower of a daemon that stops hears its end, and nothing is left over
// (TestMain looks for goroutines).
func TestFollowersOfADaemonThatStops(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	events, err := l.client.Follow(t.Context())
	check(t, err)
	if ev := <-events; ev.Kind != control.EventFollow {
		t.Errorf("first came %+v", ev)
	}
	s.requests("203.0.113.1", 3)
	if ev := <-events; ev.Kind != "ban" || ev.Target != pfx("203.0.113.1/32") || ev.Line == nil || ev.Count != 3 {
		t.Errorf("then came %+v", ev)
	}
	l.stop()
	var last control.Event
	for ev := range events {
		last = ev
	}
	if last.Kind != control.EventLost {
		t.Errorf("last came %+v", last)
	}
}
