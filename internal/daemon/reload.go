package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/state"
)

// actionPatience is how long an action that is replaced may take to end.
const actionPatience = 5 * time.Second

// reloadWhenAsked reloads whenever a signal asks for it.
func (d *daemon) reloadWhenAsked(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Reloads:
		}
		d.sayReload(d.reload(ctx))
	}
}

// Reload implements control.Operator.
func (d *daemon) Reload(ctx context.Context, _ control.Caller) (*control.ReloadResult, error) {
	r, err := d.reload(ctx)
	d.sayReload(r, err)
	return r, err
}

func (d *daemon) sayReload(r *control.ReloadResult, err error) {
	var refused *control.Error
	if errors.As(err, &refused) && refused.Code == control.CodeConfig {
		d.mu.Lock()
		d.Source.Refused = time.Now().UTC()
		d.mu.Unlock()
	}
	switch {
	case refused != nil:
		d.Log.Error("the configuration was not reloaded, the one before goes on", "err", refused.Message, "problems", refused.Problems)
	case err != nil:
		d.Log.Error("the configuration was not reloaded, the one before goes on", "err", err)
	default:
		d.Log.Info("configuration reloaded", "changes", r.Changes)
		for _, w := range r.Warnings {
			d.Log.Warn("configuration", "problem", w)
		}
		for _, x := range r.Restart {
			d.Log.Warn("a setting only counts after a restart", "setting", x)
		}
	}
}

// next is a configuration that is about to run, with all that takes long or
// can fail already done.
type next struct {
	config   *config.Config
	formats  map[string]formats
	rules    *detector.Rules
	fresh    []*enforcer // actions that are new, or other than before
	kept     []*enforcer
	old      []*enforcer // that are replaced, or gone
	restart  []string    // logs whose reading begins anew
	stop     []string    // logs that are gone
	start    []string    // logs that are new
	newNames bool        // other host names are allowed

	notifiers []*notifier
}

// reload goes on with the configuration as it is in its file now: it reads all
// of it, makes all of it, and swaps it in between two events. Whatever is
// wrong is found before anything has changed.
func (d *daemon) reload(ctx context.Context) (*control.ReloadResult, error) {
	if d.Load == nil {
		return nil, &control.Error{Code: control.CodeRefused, Message: "there is no configuration file to read again"}
	}
	select {
	case d.reloading <- struct{}{}:
	default:
		return nil, &control.Error{Code: control.CodeBusy, Message: "another reload is under way, or the daemon is starting"}
	}
	defer func() { <-d.reloading }()
	c, err := d.loadConfig(ctx)
	if err != nil {
		return nil, configError(err)
	}
	was := d.current()
	defer d.planOver()
	n, err := d.plan(ctx, was, c)
	if err != nil {
		return nil, &control.Error{Code: control.CodeConfig, Message: err.Error()}
	}
	r := &control.ReloadResult{Changes: changes(was, c), Restart: needRestart(d.Config, c), Warnings: []string{}}
	for _, w := range c.Warnings() {
		r.Warnings = append(r.Warnings, w.String())
	}
	// Lines that are read again after the start come first.
	if err := d.ask(ctx, func(*engine, time.Time) {}); err != nil {
		return nil, err
	}
	freed, late, err := d.change(ctx, was, n)
	if err != nil {
		return nil, err
	}
	d.keepConfig(c)
	d.mu.Lock()
	d.Source.Loaded, d.Source.LastGood, d.Source.Problems, d.Source.Refused = time.Now().UTC(), false, nil, time.Time{}
	d.mu.Unlock()
	d.useLists(c)
	d.useMetrics(c)
	for _, l := range late {
		r.Warnings = append(r.Warnings, "action "+l.Action.Name+": its bans are still being taken out, or wait for what takes its place to work; see the log")
	}
	if freed > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("bans that are no longer enforced, as no action of theirs is in use: %d", freed))
	}
	d.hub.publish(control.Event{Time: time.Now(), Kind: "reload", Reason: list(r.Changes)})
	return r, nil
}

// loadPatience is how long a reload waits for the disk.
const loadPatience = 10 * time.Second

// loadConfig reads the configuration, and gives up on a disk that hangs.
func (d *daemon) loadConfig(ctx context.Context) (*config.Config, error) {
	type result struct {
		config *config.Config
		err    error
	}
	r, ok := within(ctx, loadPatience, func() result {
		c, err := d.Load()
		return result{c, err}
	})
	switch {
	case ok:
		return r.config, r.err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("the file is not read in time: does the disk hang?")
}

// configError is what to tell of a configuration that can't be used.
func configError(err error) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return &control.Error{Code: control.CodeConfig, Message: err.Error()}
	}
	e := &control.Error{Code: control.CodeConfig, Message: "the configuration has problems: nothing has changed"}
	for _, p := range problems {
		e.Problems = append(e.Problems, p.String())
	}
	return e
}

// plan makes all that a configuration needs, without touching what runs.
func (d *daemon) plan(ctx context.Context, was, c *config.Config) (*next, error) {
	n := &next{config: c, newNames: !slices.Equal(was.AllowHosts, c.AllowHosts)}
	var err error
	if n.formats, err = formatsOf(c); err != nil {
		return nil, err
	}
	n.rules = detector.Compile(rulesOf(c, nil, &sparing{d.guard, d.breaker}))
	for i := range c.Logs {
		l := &c.Logs[i]
		switch old := logNamed(was, l.Name); {
		case old == nil:
			n.start = append(n.start, l.Name)
		case !sameSource(old, l):
			n.restart = append(n.restart, l.Name)
		}
	}
	for i := range was.Logs {
		if logNamed(c, was.Logs[i].Name) == nil {
			n.stop = append(n.stop, was.Logs[i].Name)
		}
	}
	for _, a := range enforcing(c) {
		if e := d.enforcer(a.Name); e != nil && reflect.DeepEqual(e.config, a) && setSize(was.MaxBans) == setSize(c.MaxBans) {
			n.kept = append(n.kept, e)
			continue
		}
		if err := d.mayFollow(&a); err != nil {
			return nil, err
		}
		if err := d.lock(a); err != nil {
			return nil, err
		}
		e, err := d.makeEnforcer(a, c)
		if err != nil {
			return nil, err
		}
		if err := e.check(ctx); err != nil {
			return nil, err
		}
		n.fresh = append(n.fresh, e)
	}
	for _, e := range d.enforcers() {
		if !slices.Contains(n.kept, e) {
			n.old = append(n.old, e)
		}
	}
	if n.notifiers, err = d.makeNotifiers(c, d.told()); err != nil {
		return nil, err
	}
	return n, nil
}

// mayFollow refuses an action that can't take the place of one that runs: of an
// iptables action, the one before is removed as a whole or not at all.
func (d *daemon) mayFollow(a *config.Action) error {
	if a.Type != config.TypeIptables {
		return nil
	}
	for _, old := range d.lastActions() {
		chain, sets := old.Chain == a.Chain, old.Sets == a.Sets
		switch {
		case old.Type != config.TypeIptables:
		case chain != sets:
			return fmt.Errorf("action %s: chain %q with sets %q can't follow chain %q with sets %q: a reload changes both or neither",
				a.Name, a.Chain, a.Sets, old.Chain, old.Sets)
		case chain && old.Variant != a.Variant:
			return fmt.Errorf("action %s: a reload can't change the variant of iptables: stop the daemon, run tailban teardown, and start it with the new variant", a.Name)
		}
	}
	return nil
}

// change swaps a configuration in. It returns how many bans are not enforced any
// more, and which places are not cleared yet.
func (d *daemon) change(ctx context.Context, was *config.Config, n *next) (freed int, late []*leaving, err error) {
	// Positions are read off when what reads a log has ended.
	for _, name := range append(slices.Clone(n.restart), n.stop...) {
		d.unfollow(name)
	}
	d.stopOld(n)
	d.stay(n)
	d.mu.Lock()
	d.config = n.config
	d.action = append(slices.Clone(n.kept), n.fresh...)
	d.mu.Unlock()
	d.guard.UpdateConfigured(guard.FromConfig(n.config.TrustedProxies, n.config.WaitingProxies(), n.config.Allow))
	d.sessions.Protect(n.config.ProtectSessions, time.Now())
	if n.newNames {
		d.hosts.stop(sourcePatience)
		d.mu.Lock()
		d.hosts = d.newHosts(n.config)
		d.mu.Unlock()
	}
	known := d.hosts.Known
	allow := d.setAllowed(func(l *allowList) {
		l.config = n.config.Allow
		if n.newNames {
			l.hosts = known()
		}
	})
	if n.newNames {
		d.hosts.start(d)
	}

	// From here on it is done whatever the caller's patience: half a change
	// would be worse than a late answer.
	positions, err := asked(context.WithoutCancel(ctx), d, func(e *engine, now time.Time) ([]state.Position, error) {
		e.drain(d.batches, now)
		before, after := e.use(n, d.enforcers(), now)
		freed = before - after
		e.setAllow(allow, now)
		return e.positionsOf(append(n.restart, n.start...)), nil
	})
	if err != nil { // the daemon ends
		d.closeOld(n)
		return 0, nil, err
	}
	for _, e := range n.fresh {
		e.start(d)
	}
	d.assign(n.config)
	for _, name := range append(n.restart, n.start...) {
		d.follow(logNamed(n.config, name), positions)
	}
	late = d.retire(n)
	d.useNotifiers(n.notifiers)
	d.dropAlarms(n.config)
	return freed, late, nil
}

// unfollow ends the reading of a log. What it has sent is still counted.
func (d *daemon) unfollow(name string) {
	d.mu.Lock()
	r := d.logs[name]
	delete(d.logs, name)
	d.mu.Unlock()
	if r != nil && !r.stop(sourcePatience) {
		d.Log.Error("the reading of a log does not end: some of its lines may be counted twice", "log", name)
	}
}

// closeOld closes the actions that are not used any more.
func (d *daemon) closeOld(n *next) {
	for _, e := range n.old {
		if err := e.action.Close(); err != nil {
			d.Log.Warn("cannot close an action", "action", e.name, "err", err)
		}
	}
}
