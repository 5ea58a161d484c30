package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/source"
)

func TestEndOfBanIsStored(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1")
	r.took()

	r.expire(r.now.Add(time.Hour - time.Nanosecond))
	if puts := r.took(); puts != nil {
		t.Fatalf("before its end: %+v", puts)
	}
	r.expire(r.now.Add(time.Hour))
	if u := r.one(); len(u.Unbans) != 1 || u.Unbans[0] != pfx("192.0.2.1/32") || u.Len() != 1 {
		t.Errorf("got %+v, want an unban", u)
	}
	if d := r.action["firewall"].deleted; d != nil {
		t.Errorf("the action was told to let go of %v, which it does by itself", d)
	}
	r.journal.want(t, 1, "ban over", "target", "192.0.2.1/32")

	r.now = r.now.Add(time.Hour + time.Minute)
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); len(u.Bans) != 1 || u.Bans[0].Owners[0].Offence != 2 {
		t.Errorf("got %+v, want a second ban", u)
	}
}

// The loop wakes up for ends without any line coming in.
func TestLoopEndsBansInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, start{config: web, actions: []string{"firewall"}})
		ctx, cancel := context.WithCancel(t.Context())
		batches := make(chan *source.Batch)
		done := make(chan struct{})
		go func() { r.loop(ctx, batches, nil); close(done) }()

		time.Sleep(3 * time.Second) // so that the end meets no upkeep
		batches <- r.lines(line("192.0.2.1", r.now), line("192.0.2.1", r.now))
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		r.journal.want(t, 0, "ban over")
		time.Sleep(time.Second)
		synctest.Wait()
		r.journal.want(t, 1, "ban over")
		cancel()
		<-done
		if last := r.puts[len(r.puts)-1]; len(last.Unbans) != 1 {
			t.Errorf("the last update is %+v, want an unban", last)
		}
	})
}
