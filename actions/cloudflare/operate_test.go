package cloudflare_test

import (
	"testing"

	"github.com/tailban/tailban/actions/cloudflare"
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
