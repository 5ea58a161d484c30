package cloudflare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestFailedForAnotherReason is that an operation that failed for want of time says
// nothing of how much room there is.
func TestFailedForAnotherReason(t *testing.T) {
	for text, full := range map[string]bool{
		"context deadline exceeded": false, "request timeout exceeded": false, "rate limit exceeded": false, "time limit exceeded": false,
		"maximum number of items across all lists exceeded": true, "not_entitled": true, "you have reached the quota": true, "you have exceeded the limit of items": true,
	} {
		if got := cloudflare.IsFull(text); got != full {
			t.Errorf("%q is full: %v, want %v", text, got, full)
		}
	}
}

// TestNeverDone is that a change that Cloudflare does not get done is a failure, that
// is told, and tried again.
func TestNeverDone(t *testing.T) {
	atEdge(t, fake.Options{Delay: 20 * time.Minute}, nil, func(e *edge) {
		e.after(time.Minute)
		e.ban("192.0.2.1/32", 10*time.Hour)
		e.after(6 * time.Minute)
		if s := e.reconciler.Stats(); !s.Failing || !strings.Contains(s.Err.Error(), "is not done within 5m") {
			e.Errorf("stats are %+v", s)
		}
		e.after(time.Hour)
		e.holds("192.0.2.1")
	})
}
