package cloudflare_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestSuite runs the suite of all actions, in real time against a quick double.
func TestSuite(t *testing.T) {
	t.Parallel()
	actionstest.RunSized(t, 2500, func(t *testing.T) actions.Action {
		s := fake.New(fake.Options{Delay: time.Nanosecond})
		a := newAction(t, s, nil)
		a.Quicken(time.Millisecond)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { _ = a.Run(ctx) })
		t.Cleanup(func() { stop(); all.Wait() })
		return a
	})
}
