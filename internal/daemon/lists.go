package daemon

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/internal/lists/refresh"
)

// published are the lists of providers that are kept current.
type published struct {
	every time.Duration
	lists []config.RefreshedList
	*refresh.Refresher
	*part
}

// useLists keeps the lists of a configuration current from now on. It is called
// by one at a time, and waits for a disk only where another reload would.
func (d *daemon) useLists(c *config.Config) {
	d.mu.Lock()
	old := d.lists
	d.mu.Unlock()
	wanted := c.Refreshed()
	if old != nil {
		if old.every == c.Refresh && reflect.DeepEqual(old.lists, wanted) {
			return
		}
		old.stop(sourcePatience)
	}
	o := refresh.Options{
		StateDir: d.Config.StateDir, Every: c.Refresh, Log: d.Log, Transport: d.Fetch, First: d.FetchFirst,
		Changed: d.applyLists, Waits: d.listWaits,
	}
	for _, l := range wanted {
		o.Lists = append(o.Lists, refresh.List(l))
	}
	p := &published{every: c.Refresh, lists: wanted, Refresher: refresh.New(o)}
	p.part = startPart(d.serving, p.Run)
	d.mu.Lock()
	d.lists = p
	d.mu.Unlock()
}

// listWaits tells that ranges wait for somebody to accept them, or don't any
// more.
func (d *daemon) listWaits(name, why string) {
	about := "list " + name
	if why == "" {
		d.hub.ends(time.Now(), about+": no ranges wait any more", about+": waits")
		return
	}
	d.hub.begins(time.Now(), about+": waits", about+": "+waitsText(name, why))
}

func waitsText(name, why string) string {
	return "what was published is not used: " + why + " (tailban lists shows it, tailban lists accept " + name + " uses it)"
}

// applyLists has the ranges used that are stored now: as by a reload, but of the
// configuration that runs, whatever its file holds by now.
func (d *daemon) applyLists(ctx context.Context) {
	if d.current().Refresh == 0 {
		return // and is in the way of no reload right after the start
	}
	done, err := d.mayReload(ctx)
	if err == nil {
		defer done()
		err = d.applyListsNow(ctx)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errEnding) {
		d.Log.Error("published ranges that were fetched are not in use: they are from the next reload or start on", "err", err)
	}
}

// mayReload waits until nobody else swaps a configuration in.
func (d *daemon) mayReload(ctx context.Context) (done func(), err error) {
	select {
	case d.reloading <- struct{}{}:
		return func() { <-d.reloading }, nil
	case <-ctx.Done():
		return nil, &control.Error{Code: control.CodeBusy, Message: "a reload is under way, or the daemon is starting"}
	}
}

func (d *daemon) applyListsNow(ctx context.Context) error {
	was := d.current()
	if was.Refresh == 0 {
		return nil
	}
	c, err := answer(loadPatience, errors.New("the state folder is not read in time: does the disk hang?"), was.Again)
	if err != nil || reflect.DeepEqual(was.Providers, c.Providers) {
		return err
	}
	defer d.planOver()
	n, err := d.plan(ctx, was, c)
	if err != nil {
		return err
	}
	// Lines that are read again after the start come first.
	if err := d.ask(ctx, func(*engine, time.Time) {}); err != nil {
		return err
	}
	_, _, err = d.change(ctx, was, n)
	return err
}

// AcceptList implements control.Operator.
func (d *daemon) AcceptList(ctx context.Context, c control.Caller, r control.AcceptListRequest) (*control.AcceptListResult, error) {
	done, err := d.mayReload(ctx) // which could have others keep the lists
	if err != nil {
		return nil, err
	}
	defer done()
	d.mu.Lock()
	p := d.lists
	d.mu.Unlock()
	if p == nil || p.every == 0 {
		return nil, &control.Error{Code: control.CodeRefused, Message: "no list is refreshed", Hint: "lists.refresh in the configuration has them refreshed"}
	}
	change, err := answer(loadPatience, &control.Error{
		Code: control.CodeBusy, Message: "it is not stored in time: does the disk hang?", Hint: "if it is stored later, a reload has it used",
	}, func() (lists.Change, error) { return p.Accept(r.Name, r.ID) })
	switch {
	case errors.Is(err, refresh.ErrUnknown):
		var names []string
		for _, l := range p.lists {
			names = append(names, l.Name)
		}
		return nil, &control.Error{Code: control.CodeNotFound, Message: quote(r.Name) + " is no list that is refreshed", Hint: "there are: " + list(names)}
	case errors.Is(err, refresh.ErrNothing):
		return nil, &control.Error{Code: control.CodeNotFound, Message: "nothing of " + r.Name + " waits to be accepted"}
	case errors.Is(err, refresh.ErrOther):
		return nil, &control.Error{Code: control.CodeRefused, Message: err.Error(), Hint: "tailban lists shows them"}
	case err != nil:
		return nil, err
	}
	d.Log.Info("published ranges accepted", "list", r.Name, "added", len(change.Added), "removed", len(change.Removed), "reason", reasonOf(r.Reason), "by", by(c))
	d.hub.publish(control.Event{Time: time.Now(), Kind: "accept", Reason: "list " + r.Name + orText(reasonOf(r.Reason)), By: by(c)})
	out := &control.AcceptListResult{Name: r.Name, Added: len(change.Added), Removed: len(change.Removed)}
	if err := d.applyListsNow(ctx); err != nil {
		d.Log.Error("published ranges that were accepted are not in use: they are from the next reload or start on", "list", r.Name, "err", err)
		out.Notes = []string{"accepted, but not in use yet: " + err.Error() + "; a reload has it used"}
	}
	return out, nil
}

// listsStatus is how the lists are that are kept current.
func (d *daemon) listsStatus() []control.ListStatus {
	d.mu.Lock()
	p := d.lists
	d.mu.Unlock()
	if p == nil {
		return nil
	}
	var out []control.ListStatus
	for _, s := range p.Status() {
		out = append(out, listStatus(s))
	}
	return out
}

// widestShown is how many of the ranges that wait are shown.
const widestShown = 5

func listStatus(s refresh.Status) control.ListStatus {
	out := control.ListStatus{
		Name: s.InUse.Name, Ranges: len(s.InUse.Prefixes), Date: s.InUse.Date, Fetched: s.InUse.Fetched,
		Sources: s.Sources, Checked: utc(s.Stored.Checked), Next: utc(s.Stored.Next),
	}
	if f := s.Stored.Failing; f != nil {
		out.Err, out.Failures, out.Since = f.Err, f.Times, utc(f.Since)
	}
	if w := s.Stored.Waiting; w != nil {
		out.Waiting = &control.WaitingList{
			ID: w.ID, Why: w.Why, Since: utc(w.Since), Added: len(s.Pending.Added), Removed: len(s.Pending.Removed),
			Widest: lists.Widest(s.Pending.Added, widestShown),
		}
	}
	return out
}
