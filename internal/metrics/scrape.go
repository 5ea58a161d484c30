package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/tailban/tailban/internal/control"
)

const (
	// answerPatience is how long a scrape waits for the daemon. It is less than
	// the ten seconds that Prometheus waits.
	answerPatience = 4 * time.Second

	// fresh is for how long a text is taken for scrapes that come right after it:
	// whoever may scrape can have the daemon make only so many.
	fresh = time.Second
)

// ErrBusy is what a scrape is told that can't have its turn.
var ErrBusy = errors.New("others scrape, and it is not their end yet")

// Options are what a Scraper takes its figures from. Its functions are called from
// any goroutine.
type Options struct {
	Version string
	Started time.Time
	Log     *slog.Logger

	// Status may hang; it is then not called again until it has come back.
	Status  func(context.Context) (*control.Status, error)
	Sockets func() control.Counters
}

// Scraper makes the text for all who scrape, one at a time.
type Scraper struct {
	Options
	turn  chan struct{} // holds a token while a text is made
	asked chan struct{} // holds a token while Status has not come back

	// Of who has the turn.
	text  []byte
	until time.Time // when it is too old
	since time.Time // when Status was last called
}

// NewScraper makes one.
func NewScraper(o Options) *Scraper {
	return &Scraper{Options: o, turn: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
}

// Text returns all metrics as they are now, or were a moment ago. Where the daemon
// doesn't answer they say so, and little else. The text is not to be changed.
func (s *Scraper) Text(ctx context.Context) ([]byte, error) {
	patience := time.NewTimer(answerPatience)
	defer patience.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-patience.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if time.Now().Before(s.until) {
		return s.text, nil
	}
	// For others, too: that this one goes away doesn't end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	x := &Snapshot{Version: s.Version, Started: s.Started}
	x.Status, x.Waited = s.status(ctx)
	x.Sockets, x.Process = s.Sockets(), ReadProcess()
	s.text, s.until = Text(x), time.Now().Add(fresh)
	return s.text, nil
}

// status asks the daemon, unless it has not answered the one before. It returns nil
// if there is no answer, and how long that has been waited for.
func (s *Scraper) status(ctx context.Context) (*control.Status, time.Duration) {
	select {
	case s.asked <- struct{}{}:
	default:
		return nil, time.Since(s.since)
	}
	s.since = time.Now()
	done := make(chan *control.Status, 1)
	go func() {
		status := s.ask(ctx)
		<-s.asked
		done <- status
	}()
	select {
	case status := <-done:
		return status, time.Since(s.since)
	case <-ctx.Done():
		return nil, time.Since(s.since)
	}
}

// ask is Status, with whatever goes wrong made no answer.
func (s *Scraper) ask(ctx context.Context) (status *control.Status) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("a scrape panicked; the daemon goes on", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			status = nil
		}
	}()
	status, err := s.Status(ctx)
	if err != nil {
		return nil
	}
	return status
}
