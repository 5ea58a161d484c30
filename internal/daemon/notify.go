package daemon

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/notify"
)

// notifyPatience is how long those who tell others may take at the end for their
// last message. No one waits longer: nothing depends on them.
const notifyPatience = 4 * time.Second

// notifier tells others what happens.
type notifier struct {
	*notify.Notifier
	options notify.Options // as configured
	running *part          // nil: not started

	succeeded atomic.Bool // by another one, which tells what it could not
}

// makeNotifiers makes those of a configuration; ones that run and have not changed
// are kept.
func (d *daemon) makeNotifiers(c *config.Config, running []*notifier) ([]*notifier, error) {
	var all []*notifier
	for _, o := range c.Notify {
		i := slices.IndexFunc(running, func(n *notifier) bool { return reflect.DeepEqual(n.options, o) })
		if i >= 0 {
			all = append(all, running[i])
			continue
		}
		hosted := o
		hosted.Host = d.Host
		n, err := notify.New(hosted)
		if err != nil {
			return nil, fmt.Errorf("notify %s: %w", o.Name, err)
		}
		all = append(all, &notifier{Notifier: n, options: o})
	}
	return all, nil
}

// useNotifiers has these told what happens from now on. Those that aren't among
// them any more tell what they still have to, and end; what they could not tell,
// those of the same name do.
func (d *daemon) useNotifiers(all []*notifier) {
	d.mu.Lock()
	old := d.notifiers
	d.notifiers = all
	d.mu.Unlock()
	told := make([]*notify.Notifier, len(all))
	for i, n := range all {
		told[i] = n.Notifier
	}
	d.hub.tell(told)
	for _, n := range all {
		if n.running != nil {
			continue
		}
		i := slices.IndexFunc(old, func(o *notifier) bool { return o.options.Name == n.options.Name })
		if i < 0 {
			n.start(d, nil)
			continue
		}
		old[i].succeeded.Store(true)
		n.start(d, old[i])
	}
	for _, n := range old {
		if !slices.Contains(all, n) {
			n.running.cancel()
		}
	}
}

// start has it tell what it is told, and what another one, which ends, could not.
func (n *notifier) start(d *daemon, before *notifier) {
	log := d.Log.With("notify", n.options.Name)
	n.running = startPart(d.serving, func(ctx context.Context) {
		if before != nil {
			<-before.running.done
			n.Inherit(before.Notifier)
		}
		n.Run(ctx, log)
		if left := n.Stats().Waiting; left > 0 && !n.succeeded.Load() {
			log.Warn("events were not told", "events", left)
		}
	})
}

// told are those who are told what happens.
func (d *daemon) told() []*notifier {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notifiers // which is replaced, never changed
}

// awaitNotifiers gives them time for their last message.
func (d *daemon) awaitNotifiers() {
	var parts []*part
	for _, n := range d.told() {
		parts = append(parts, n.running)
	}
	if !waitFor(allOf(parts), notifyPatience) {
		d.Log.Warn("going on without the last messages to others")
	}
}

// notifyStatus is how they do.
func (d *daemon) notifyStatus() []control.NotifyStatus {
	var out []control.NotifyStatus
	for _, n := range d.told() {
		s := n.Stats()
		x := control.NotifyStatus{
			Name: n.options.Name, Format: n.options.Format, Failing: s.Failing, Since: utc(s.Since),
			Sent: s.Sent, LastSent: utc(s.Last), Waiting: s.Waiting, Lost: s.Lost,
		}
		if s.Err != nil {
			x.Err = s.Err.Error()
		}
		out = append(out, x)
	}
	return out
}

// toldOf is what others are told of an event. Its line stays here.
func toldOf(ev *control.Event) notify.Event {
	return notify.Event{
		Time: ev.Time, Kind: notify.Kind(ev.Kind), Target: ev.Target, Client: ev.Client, Jail: ev.Jail, Until: ev.Until,
		Offence: ev.Offence, Count: ev.Count, Limit: ev.Limit, Window: time.Duration(ev.Window * float64(time.Second)),
		Reason: ev.Reason, By: ev.By,
	}
}
