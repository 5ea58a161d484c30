//go:build linux

package actions_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// paced is a fake that wants changes at most every so often, and takes so many
// additions at a time.
type paced struct {
	*fake
	every time.Duration
	takes int
	last  time.Time
	size  atomic.Int64
}

func (p *paced) Pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		return 0
	}
	return p.every - time.Since(p.last)
}

func (p *paced) Room(netip.Prefix) (string, int) {
	if n := p.size.Load(); n > 0 {
		return "all", int(n)
	}
	return "", 0
}

func (p *paced) Apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error {
	var waiting []netip.Prefix
	for len(add) > p.takes {
		waiting = append(waiting, add[len(add)-1].Target)
		add = add[:len(add)-1]
	}
	err := p.fake.Apply(ctx, add, remove)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if len(waiting) > 0 {
		err = errors.Join(err, &actions.WaitingError{Targets: waiting})
	}
	return err
}

func pacing(t *testing.T, takes int, f func(b *bench, p *paced)) {
	p := &paced{fake: &fake{}, every: 10 * time.Second, takes: takes}
	reconcilingAction(t, p.fake, p, func(b *bench) {
		b.start()
		b.fake.took()
		f(b, p)
	})
}

// TestPaced is that the first change is made at once, and those within the pause
// behind it together.
func TestPaced(t *testing.T) {
	pacing(t, 1000, func(b *bench, _ *paced) {
		b.in("192.0.2.1/32", time.Hour)
		b.after(time.Millisecond)
		b.calls("apply")
		for i := range 9 {
			b.in(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}), 32).String(), time.Hour)
			b.after(time.Second)
		}
		b.calls("")
		b.after(2 * time.Second)
		b.calls("apply")
		if n := len(b.held()); n != 10 {
			b.Errorf("%d bans are held, want 10", n)
		}
		b.after(time.Minute) // nothing more is to do
		b.calls("prepare list prepare list")
	})
}

// TestWaiting is that what the action puts off is neither in force nor lost, and no
// failure.
func TestWaiting(t *testing.T) {
	pacing(t, 2, func(b *bench, _ *paced) {
		for _, x := range []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "192.0.2.5/32"} {
			b.in(x, time.Hour)
		}
		b.after(time.Second)
		if s := b.Stats(); s.Failing || s.Pending != 3 {
			b.Errorf("stats are %+v", s)
		}
		b.after(10 * time.Second)
		if s := b.Stats(); s.Failing || s.Pending != 1 {
			b.Errorf("stats are %+v", s)
		}
		b.after(10 * time.Second)
		if n := len(b.held()); n != 5 {
			b.Errorf("%d bans are held, want 5", n)
		}
		if s := b.Stats(); s.Failing || s.Pending != 0 || s.DriftAdded > 0 {
			b.Errorf("stats are %+v", s)
		}
	})
}

// TestRoomChanges is that bans leave when less fit, and come back when more do.
func TestRoomChanges(t *testing.T) {
	p := &paced{fake: &fake{}, takes: 1000}
	p.size.Store(4)
	reconcilingAction(t, p.fake, p, func(b *bench) {
		b.start()
		for i, x := range []string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32"} {
			b.in(x, time.Duration(i+1)*time.Hour)
		}
		b.after(time.Second)
		p.size.Store(2)
		b.after(time.Minute)
		b.holds("192.0.2.3/32", "192.0.2.4/32")
		if s := b.Stats(); s.LeftOut != 2 || s.DriftRemoved > 0 {
			b.Errorf("stats are %+v", s)
		}
		p.size.Store(3)
		b.after(time.Minute)
		b.holds("192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32")
	})
}
