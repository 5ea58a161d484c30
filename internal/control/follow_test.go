package control

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
)

// bus is a daemon's stream of events: each follower has a bounded channel that
// is closed when it is full.
type bus struct {
	mu   sync.Mutex
	all  map[chan Event]bool
	cuts int
}

func (b *bus) follow(ctx context.Context) (<-chan Event, error) {
	c := make(chan Event, 4)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[chan Event]bool{}
	}
	b.all[c] = true
	context.AfterFunc(ctx, func() { b.end(c) })
	return c, nil
}

func (b *bus) end(c chan Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[c] {
		delete(b.all, c)
		close(c)
	}
}

// send gives an event to each follower, and returns how many there are.
func (b *bus) send(e Event) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.all {
		select {
		case c <- e:
		default:
			b.cuts++
			delete(b.all, c)
			close(c)
		}
	}
	return len(b.all)
}

func (b *bus) followers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// A follower that never reads is dropped, by the daemon or by the deadline,
// and the others get everything.
func TestFollowerThatNeverReads(t *testing.T) {
	t.Parallel()
	var b bus
	r := serve(t, &fake{follow: b.follow}, hasty)
	deaf := r.dial(StatusSocket)
	io.WriteString(deaf, get("/v1/events"))
	wait(t, "the deaf one", func() bool { return b.followers() == 1 })
	big := strings.Repeat("x", 10_000)
	wait(t, "the deaf one to be dropped", func() bool { return b.send(Event{Kind: "alarm", Reason: big}) == 0 })

	good, err := r.client.Follow(t.Context())
	check(t, err)
	for range 100 {
		if n := b.send(Event{Kind: "alarm", Reason: "hear"}); n != 1 {
			t.Fatalf("there are %d followers", n)
		}
		if e := <-good; e.Reason != "hear" {
			t.Fatalf("got %+v", e)
		}
	}
	wait(t, "it to be counted", func() bool { return r.Counters().Lost == 1 && r.Counters().Followers == 1 })
	r.alive()
}

// A follower that is too slow for the daemon and does read hears about it.
func TestLostFollowerIsTold(t *testing.T) {
	t.Parallel()
	closed := make(chan Event, 1)
	closed <- Event{Kind: "ban"}
	close(closed)
	r := serve(t, &fake{follow: func(context.Context) (<-chan Event, error) { return closed, nil }})
	events, err := r.client.Follow(t.Context())
	check(t, err)
	if e := <-events; e.Kind != "ban" {
		t.Errorf("got %+v", e)
	}
	if e := <-events; e.Kind != EventLost || !strings.Contains(e.Reason, "too slow") || e.Time.IsZero() {
		t.Errorf("got %+v", e)
	}
	if _, more := <-events; more {
		t.Error("it goes on")
	}
}

// When the daemon stops, followers are told and do not hold it up.
func TestFollowersAtTheEnd(t *testing.T) {
	t.Parallel()
	var b bus
	r := serve(t, &fake{follow: b.follow})
	events, err := r.client.Follow(t.Context())
	check(t, err)
	r.stop()
	if e := <-events; e.Kind != EventLost || e.Reason != "the daemon stops" {
		t.Errorf("got %+v", e)
	}
	if n := b.followers(); n != 0 {
		t.Errorf("%d followers stay", n)
	}
}

// A connection that breaks ends with a reason, too, and so does nonsense.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	for sent, reason := range map[string]string{
		ok + "{\"kind\":\"ban\"}\n":                              "ended the connection",
		ok + "{\"kind\":\"ban\"}\n{\"ki":                         "no event",
		ok + "{\"kind\":\"ban\"}\n" + strings.Repeat("x", 2<<20): "broke",
	} {
		events, err := NewClient(answering(t, sent)).Follow(t.Context())
		check(t, err)
		if e := <-events; e.Kind != "ban" {
			t.Errorf("got %+v", e)
		}
		if e := <-events; e.Kind != EventLost || !strings.Contains(e.Reason, reason) {
			t.Errorf("after %.60q comes %+v", sent, e)
		}
	}
}

// There are only so many followers, and who hangs up makes room.
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	var b bus
	r := serve(t, &fake{follow: b.follow})
	ctx, cancel := context.WithCancel(t.Context())
	for range maxFollowers {
		_, err := r.client.Follow(ctx)
		check(t, err)
	}
	_, err := r.client.Follow(t.Context())
	wantError(t, err, CodeBusy, "too many follow")
	r.alive()
	cancel()
	wait(t, "them to be gone", func() bool { return b.followers() == 0 && r.Counters().Followers == 0 })
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = r.client.Follow(ctx)
	check(t, err)
}
