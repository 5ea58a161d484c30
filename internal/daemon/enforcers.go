package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/guard"
)

// enforcer is an action that is in use, and its reconciler.
type enforcer struct {
	name       string
	enforces   bool // it does more than log
	config     config.Action
	action     actions.Action
	reconciler *actions.Reconciler
	merger     *actions.Merger       // before the reconciler; nil: no network is banned as one
	cutter     *actions.Cutter       // nil: connections are not cut
	allow      *swap[[]netip.Prefix] // whom to let pass, when that changes; nil: it lets nobody
	running    []*part               // empty: not started

	// beside makes the same action once more, to list what is held beside the
	// reconciler's work; nil: it holds nothing that would outlive it.
	beside func() actions.Action

	// ends is what takes out bans at their time; nil: they end by themselves.
	ends func(context.Context) error

	// teardown removes all that the action has in the kernel or at an edge, and programs take out
	// what they hold; nil: it has nothing that stays.
	teardown func(context.Context) (existed bool, err error)
	programs *actions.Command

	edge *cloudflare.Action // nil: it is none at Cloudflare
}

// enforcing lists the configured actions that some jail uses to enforce. No
// other is touched.
func enforcing(c *config.Config) []config.Action {
	used := map[string]bool{}
	for i := range c.Jails {
		if j := &c.Jails[i]; !j.Observe {
			for _, a := range j.Actions {
				used[a] = true
			}
		}
	}
	if deny := c.Deny; deny != nil && !deny.Observe {
		for _, a := range deny.Actions {
			used[a] = true
		}
	}
	var out []config.Action
	for _, a := range c.Actions {
		if used[a.Name] {
			out = append(out, a)
		}
	}
	return out
}

// lock locks what an action has for itself, if it has anything and that isn't
// locked yet.
func (d *daemon) lock(a config.Action) error {
	place := a.Place()
	if place == "" || d.lockOf(place) != nil {
		return nil
	}
	var l *actions.TableLock
	var err error
	switch a.Type {
	case config.TypeNftables:
		l, err = actions.LockTable(a.Table)
	case config.TypeIptables:
		l, err = actions.LockIptables(IptablesOptions(&a))
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	if w := l.Warning(); w != "" {
		d.Log.Warn("going on without a lock", "action", a.Name, "of", place, "reason", w)
	}
	d.places.Lock()
	defer d.places.Unlock()
	d.locks[place] = l
	return nil
}

// makeActions makes the actions that enforce, and takes over what they hold.
func (d *daemon) makeActions(ctx context.Context) error {
	if entries, err := guard.Host(d.Paths); err != nil {
		d.Log.Warn("cannot read the host's own addresses", "err", err)
	} else {
		d.guard.Update(entries)
	}
	d.sessions.Protect(d.config.ProtectSessions, time.Now())
	for _, a := range enforcing(d.config) {
		e, err := d.makeEnforcer(a, d.config)
		if err != nil {
			return err
		}
		d.action = append(d.action, e)
		if a.Kernel() { // programs may take long, and tell less
			d.adoptFrom(ctx, e)
		}
		d.adoptAtEdge(e)
	}
	return nil
}

// makeEnforcer makes an action, which does nothing until it is started.
func (d *daemon) makeEnforcer(a config.Action, c *config.Config) (*enforcer, error) {
	log := d.Log.With("action", a.Name)
	e := &enforcer{name: a.Name, enforces: a.Type != config.TypeLog, config: a}
	switch a.Type {
	case config.TypeLog:
		e.action = actions.NewLog(log)
	case config.TypeNftables:
		o := nftablesOptions(&a)
		o.Allow, o.Protected, o.Size, o.Log = d.allow.all(), d.guard.Protected, setSize(c.MaxBans), log
		e.action = actions.NewNftables(o)
		e.beside = func() actions.Action { return actions.NewNftables(o) }
		e.teardown = func(ctx context.Context) (bool, error) { return actions.Teardown(ctx, o) }
	case config.TypeIptables:
		o := IptablesOptions(&a)
		o.Runs, o.Contested = &d.iptablesRuns, d.hub.alarms.goesOn(aboutContested(a.Name))
		o.Allow, o.Protected, o.Size, o.Log = d.allow.all(), d.guard.Protected, setSize(c.MaxBans), log
		e.action = actions.NewIptables(o)
		e.beside = func() actions.Action { return actions.NewIptables(o) }
		e.teardown = func(ctx context.Context) (bool, error) { return actions.TeardownIptables(ctx, o) }
	case config.TypeCommand:
		if err := d.useCommand(e, &a, log); err != nil {
			return nil, err
		}
	case config.TypeCloudflare:
		if err := d.useCloudflare(e, &a, log); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("action %s: no action is of type %q", a.Name, a.Type)
	}
	if _, ok := e.action.(allower); ok {
		e.allow = newSwap[[]netip.Prefix]()
	}
	o := actions.Options{Name: a.Name, Action: e.action, Log: d.Log, Interval: a.Reconcile, OnState: d.stateChanged(a.Name)}
	o.Failed, o.Contested = d.hub.alarms.goesOn(aboutFailing(a.Name)), d.hub.alarms.goesOn(aboutContested(a.Name))
	if c := a.Command; c != nil { // a program that is late ends, and says so, before the action is late
		o.Patience = max(actions.DefaultPatience, 2*c.Timeout)
	}
	if e.edge != nil {
		o.MinBackoff, o.MaxBackoff, o.Patience = edgeMinBackoff, edgeMaxBackoff, edgePatience
	}
	if a.CutConnections {
		e.cutter = actions.NewCutter(actions.CutOptions{Ports: a.Ports, AllPorts: a.AllPorts, Protected: d.guard.Protected, Log: log})
		o.OnChange = e.cutter.Changed
	}
	e.reconciler = actions.NewReconciler(o)
	if a.Merge > 0 {
		bounded, _ := e.action.(actions.Bounded)
		e.merger = actions.NewMerger(actions.MergeOptions{
			Name: a.Name, Least: a.Merge, Enforcer: e.reconciler, Bounded: bounded, Protected: d.guard.Protected, Log: d.Log,
		})
	}
	return e, nil
}

// checkPatience is how long a check may take.
const checkPatience = 10 * time.Second

// check tells why the action could not work, as far as that can be told without
// changing anything.
func (e *enforcer) check(ctx context.Context) error {
	c, ok := e.action.(actions.Checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	if err := c.Check(ctx); err != nil {
		return fmt.Errorf("action %s would not work: %w", e.name, err)
	}
	return nil
}

// start has the action enforce. What it does to hear who is allowed may wait for
// its other work, so that is done apart.
func (e *enforcer) start(d *daemon) {
	e.reconciler.Cap(d.tentative.until())
	e.running = append(e.running, startPart(d.serving, func(ctx context.Context) {
		if err := e.reconciler.Run(ctx); err != nil {
			d.Log.Error("an action has stopped", "action", e.name, "err", err)
		}
	}))
	if _, ok := e.action.(actions.Watcher); ok {
		e.running = append(e.running, startPart(d.serving, func(ctx context.Context) {
			if err := e.reconciler.Watch(ctx); err != nil {
				d.Log.Error("an action is no longer listened to", "action", e.name, "err", err)
			}
		}))
	}
	if e.ends != nil {
		e.running = append(e.running, startPart(d.serving, func(ctx context.Context) {
			if err := e.ends(ctx); err != nil {
				d.Log.Error("bans are no longer taken out at their time", "action", e.name, "err", err)
			}
		}))
	}
	if e.edge != nil && e.config.Cloudflare.Leases() {
		e.running = append(e.running, startPart(d.serving, func(ctx context.Context) {
			if err := e.edge.RunLease(ctx); err != nil {
				d.Log.Error("rules at the edge are no longer renewed", "action", e.name, "err", err)
			}
		}))
	}
	if e.cutter != nil {
		e.running = append(e.running, startPart(d.serving, func(ctx context.Context) {
			if err := e.cutter.Run(ctx); err != nil {
				d.Log.Error("connections are no longer cut", "action", e.name, "err", err)
			}
		}))
	}
	if action, ok := e.action.(allower); ok {
		e.running = append(e.running, startPart(d.serving, func(ctx context.Context) { d.tellAction(ctx, e, action) }))
	}
}

// cancelled has all of it end, and returns it.
func (e *enforcer) cancelled() []*part {
	for _, p := range e.running {
		p.cancel()
	}
	return e.running
}

// stopOld ends the work of the actions that are not used any more: two must not
// work on one table. Those that end are closed, as one that protects its table
// would keep the next from it; closing another could hang as well.
func (d *daemon) stopOld(n *next) {
	for _, e := range n.old {
		e.cancelled()
	}
	for _, e := range n.old {
		if !waitFor(allOf(e.cancelled()), actionPatience) {
			d.Log.Warn("an action that is replaced does not end", "action", e.name)
		} else if err := e.action.Close(); err != nil {
			d.Log.Warn("cannot close an action", "action", e.name, "err", err)
		}
	}
}

// list lists what the action holds, beside its reconciler's work.
func (e *enforcer) list(ctx context.Context) (entries []actions.Entry, err error) {
	if e.beside == nil {
		return nil, nil
	}
	a := e.beside()
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.List(ctx)
}

// nftablesOptions are those that the configuration says.
func nftablesOptions(a *config.Action) actions.NftablesOptions {
	return actions.NftablesOptions{Table: a.Table, Ports: a.Ports, AllPorts: a.AllPorts, Reject: a.Reject, Protect: a.Protect}
}

// IptablesOptions are those that the configuration says.
func IptablesOptions(a *config.Action) actions.IptablesOptions {
	return actions.IptablesOptions{
		Chain: a.Chain, Siblings: a.Siblings, Prefix: a.Sets, Variant: a.Variant, Ports: a.Ports, AllPorts: a.AllPorts, Reject: a.Reject,
	}
}

// stateChanged tells those who follow events when an action fails or is
// contested, and when that is over.
func (d *daemon) stateChanged(name string) func(actions.State) {
	where, failing, contested := "action "+name+": ", aboutFailing(name), aboutContested(name)
	return func(s actions.State) {
		var over []string
		if s.Failing {
			d.hub.begins(s.Since, failing, where+"bans are not enforced: "+s.Err.Error())
		} else {
			over = append(over, failing)
		}
		if s.Contested {
			d.hub.begins(s.Since, contested, where+"somebody else changes its bans or rules again and again, so repairs wait")
		} else {
			over = append(over, contested)
		}
		if !s.Failing {
			d.hub.ends(s.Since, where+"bans are enforced again", over...)
		}
	}
}

func aboutFailing(action string) string   { return "action " + action + ": failing" }
func aboutContested(action string) string { return "action " + action + ": contested" }

// setSize is the size of the kernel's sets: more than there are bans, and in
// few steps, since another size means another table.
func setSize(maxBans int) int {
	size := actions.DefaultSize
	for size < maxBans+maxBans/8 {
		size *= 2
	}
	return size
}
