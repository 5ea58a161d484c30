package daemon

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/notify"
)

// notifyPatience is how long those who tell others may take at the end for their
// last message. No one waits longer: nothing depends on them.
const notifyPatience = 5 * time.Second

// notifier tells others what happens.
type notifier struct {
	*notify.Notifier
	options notify.Options // as configured
	running *part          // nil: not started
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
// them any more tell what they still have to, and end.
func (d *daemon) useNotifiers(all []*notifier) {
	for _, n := range all {
		if n.running == nil {
			log := d.Log.With("notify", n.options.Name)
			n.running = startPart(d.serving, func(ctx context.Context) { n.Run(ctx, log) })
		}
	}
	d.mu.Lock()
	old := d.notifiers
	d.notifiers = all
	d.mu.Unlock()
	told := make([]*notify.Notifier, len(all))
	for i, n := range all {
		told[i] = n.Notifier
	}
	d.hub.tell(told)
	for _, n := range old {
		if !slices.Contains(all, n) {
			n.running.cancel()
		}
	}
}

// awaitNotifiers gives them time for their last message.
func (d *daemon) awaitNotifiers() {
	d.mu.Lock()
	var parts []*part
	for _, n := range d.notifiers {
		parts = append(parts, n.running)
	}
	d.mu.Unlock()
	if !waitFor(allOf(parts), notifyPatience) {
		d.Log.Warn("going on without the last messages to others")
	}
}

// notifyStatus is how they do.
func (d *daemon) notifyStatus() []control.NotifyStatus {
	d.mu.Lock()
	all := d.notifiers
	d.mu.Unlock()
	var out []control.NotifyStatus
	for _, n := range all {
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
