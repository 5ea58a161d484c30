package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Manager is the service manager that has started the daemon. Its zero value is
// none.
type Manager struct {
	// Tell sends it assignments as of sd_notify(3), one in a line. It may take a
	// moment, and is safe for concurrent use; nil: nobody listens.
	Tell func(assignments string)

	// Watchdog is how long it waits for WATCHDOG=1 until it ends the daemon; 0:
	// it doesn't.
	Watchdog time.Duration
}

const (
	// tellEvery is how far apart it is told what the daemon does.
	tellEvery = 20 * time.Second

	// A start that takes longer than startQuiet asks for more time, again and again,
	// for startMore each, until startLimit has passed.
	startQuiet = 5 * time.Second
	startMore  = 30 * time.Second
	startLimit = 10 * time.Minute
)

// tell tells the service manager, if there is one.
func (d *daemon) tell(assignments ...string) {
	if d.Manager.Tell != nil {
		d.Manager.Tell(strings.Join(assignments, "\n"))
	}
}

// starting is what the start is about, until it is over.
type starting struct {
	step   atomic.Value // a string
	extend *part        // nil: nobody waits
}

func (s *starting) is(step string) { s.step.Store(step) }

func (s *starting) begin(ctx context.Context, d *daemon) {
	s.is("locking what bans are enforced by")
	if d.Manager.Tell != nil {
		s.extend = startPart(ctx, func(ctx context.Context) { s.askForTime(ctx, d) })
	}
}

// over ends the asking for time: nothing of it is told any more.
func (s *starting) over() {
	if s.extend != nil {
		s.extend.cancel()
		<-s.extend.done
	}
}

// askForTime asks the service manager for more time, again and again, until ctx
// is done. It gives up on a start that takes too long by far: that won't end.
func (s *starting) askForTime(ctx context.Context, d *daemon) {
	tick := time.NewTicker(startQuiet)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(began) > startLimit {
				d.Log.Error("the start takes too long: the service manager is asked for no more time", "step", s.step.Load(), "after", startLimit.String())
				return
			}
			d.tell(fmt.Sprintf("STATUS=still starting: %s", s.step.Load()), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startMore.Microseconds()))
		}
	}
}

// tellReloading tells the service manager of a reload; what it returns tells of
// its end.
func (d *daemon) tellReloading() (done func()) {
	if d.Manager.Tell == nil {
		return func() {}
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // which every kernel has
	d.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	return func() { d.tell("READY=1") }
}

// keepTelling asks the engine whether it goes on, and tells the service manager
// that it does, until ctx is done. While there is no answer nothing is told, so
// that the watchdog does its work. What the engine doesn't wait for, such as a disk,
// has no part in this.
func (d *daemon) keepTelling(ctx context.Context) {
	if d.Manager.Tell == nil {
		return
	}
	every := tellEvery
	if w := d.Manager.Watchdog; w > 0 {
		every = min(every, w/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last vitals
	var at time.Time
	said := ""
	for {
		answer := make(chan vitals, 1)
		select {
		case <-ctx.Done():
			return
		case d.pulses <- answer:
		}
		v, now := <-answer, time.Now()
		say := []string{}
		if d.Manager.Watchdog > 0 {
			say = append(say, "WATCHDOG=1")
		}
		if since := now.Sub(at); since >= tellEvery-every/2 { // a tick may come early
			text := v.text()
			if !at.IsZero() {
				text = v.textSince(last, since)
			}
			if text += d.troublesText(now); text != said {
				said = text
				say = append(say, "STATUS="+text)
			}
			last, at = v, now
		}
		if len(say) > 0 {
			d.tell(say...)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
