package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Follow sends what happens from now on, until ctx is done. Whatever else ends
// it, the last event is of kind "lost" and says why: the daemon stops, the
// connection broke, or the follower was too slow.
func (c *Client) Follow(ctx context.Context) (<-chan Event, error) {
	body, err := send(ctx, c.view, http.MethodGet, "/v1/events", nil)
	if err != nil {
		return nil, err
	}
	events := make(chan Event, 16)
	go func() {
		defer close(events)
		defer body.Close()
		readEvents(ctx, body, events)
	}()
	return events, nil
}

// readEvents sends the events of r, and one of kind "lost" if they end without.
func readEvents(ctx context.Context, r io.Reader, events chan<- Event) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEventLine)
	reason := "the daemon ended the connection"
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			reason = "the daemon sent what is no event: " + err.Error()
			break
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
		if e.Kind == EventLost {
			return
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		reason = "the connection to the daemon broke: " + err.Error()
	}
	if ctx.Err() != nil {
		return
	}
	select {
	case events <- Event{Time: time.Now().UTC(), Kind: EventLost, Reason: reason}:
	case <-ctx.Done():
	}
}
