package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// The first commit never comes back. Detection and enforcement go on, and the
// daemon ends soon after it was asked to.
func TestHungDiskStopsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	hung := newHungStore()
	r := s.start(s.config(logOnly), func(ctx context.Context, o Options) error {
		d := newDaemon(o)
		defer d.close()
		if err := d.prepare(ctx); err != nil {
			return err
		}
		defer d.store.open.Close()
		d.store.open = hung
		return d.run(ctx)
	})
	wait(t, "the log to be read", func() bool { return len(r.journal.said("reading log")) > 0 })
	<-hung.called
	for _, client := range []string{"203.0.113.201", "203.0.113.202"} {
		s.requests(client, 3)
		r.waitBanned(client)
		r.waitEnforced(client)
	}

	r.cancel()
	select {
	case err := <-r.done:
		check(t, err)
	case <-time.After(patience + state.DefaultShutdownTimeout):
		t.Errorf("the daemon has not ended, want about %v", state.DefaultShutdownTimeout)
	}
	r.journal.want(t, 1, "the last changes could not be stored")
	close(hung.release)
}
