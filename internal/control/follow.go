package control

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"time"
)

// follow streams events, a line each, until the other side ends it, the
// daemon stops, or the follower is too slow: for the daemon, whose channel is
// bounded, or for a write.
func (e *endpoint) follow(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r.URL.RawQuery); err != nil {
		return err
	}
	select {
	case e.followers <- struct{}{}:
		defer func() { <-e.followers }()
	default:
		return &Error{Code: CodeBusy, Message: "too many follow the events already", Hint: "end some of them"}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := e.Daemon.Follow(ctx)
	if err != nil {
		return err
	}
	s := newStream(w, e.limits.follow)
	if s.flush() != nil { // the header: from here on nothing is missed
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.stopping:
			s.end("the daemon stops")
			return nil
		case event, ok := <-events:
			if !ok {
				if ctx.Err() == nil {
					e.lost.Add(1)
					s.end("the follower is too slow")
				}
				return nil
			}
			if err := s.send(event, len(events) == 0); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					e.lost.Add(1)
				}
				return nil
			}
		}
	}
}

// stream is an answer without end.
type stream struct {
	out  *answer
	conn *http.ResponseController
	wait time.Duration
}

func newStream(w http.ResponseWriter, wait time.Duration) *stream {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	return &stream{out: newAnswer(bufio.NewWriter(w)), conn: http.NewResponseController(w), wait: wait}
}

// send writes an event, and with last all that is written already.
func (s *stream) send(event Event, last bool) error {
	if err := s.deadline(); err != nil {
		return err
	}
	if err := s.out.json(&event); err != nil || !last {
		return err
	}
	return s.flush()
}

// end sends the last event, if it can.
func (s *stream) end(reason string) {
	s.send(Event{Time: time.Now().UTC(), Kind: EventLost, Reason: reason}, true)
}

func (s *stream) flush() error {
	if err := s.deadline(); err != nil {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.conn.Flush()
}

func (s *stream) deadline() error { return s.conn.SetWriteDeadline(time.Now().Add(s.wait)) }
