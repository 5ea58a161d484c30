// Package daemon follows logs, decides, and has bans enforced: the live
// counterpart of a replay.
//
// One goroutine owns parser, detector and ban table (engine.go). It never
// waits for the disk or for an action: both have goroutines of their own that
// are handed the latest state.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/resolve"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// stateFile is the name of the state file in the state folder.
const stateFile = "tailban.db"

// Options make a daemon.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Host   string // the name that bans decided here carry as their origin
	Ready  func() // called once everything runs; may be nil

	// Lookup finds the addresses of host names that are allowed; nil: the
	// system's resolver.
	Lookup resolve.Lookup
}

// Run runs the daemon until ctx is done. Bans stay in force where they are
// enforced. An error means that it could not start.
func Run(ctx context.Context, o Options) error {
	d := &daemon{Options: o}
	defer d.close()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.run(ctx)
}

// prepare takes hold of all that run needs.
func (d *daemon) prepare(ctx context.Context) error {
	if err := d.lockTables(); err != nil {
		return err
	}
	if err := d.openState(); err != nil {
		return err
	}
	d.loadHosts()
	return d.makeActions(ctx)
}

type daemon struct {
	Options
	locks   []*actions.TableLock
	store   *store
	loaded  *state.Loaded
	adopted map[netip.Prefix]struct{} // targets of those, which are not stored yet
	hosts   *resolve.Hosts
	allow   *swap[[]netip.Prefix] // who is allowed, when that changes
	guard   *guard.Set
	hangs   bool // some part did not end
	action  []*enforcer
}

// enforcer is an action that enforces, and its reconciler.
type enforcer struct {
	name       string
	enforces   bool // it does more than log
	action     actions.Action
	reconciler *actions.Reconciler
}

// enforcing lists the configured actions that some jail uses to enforce. No
// other is touched.
func (d *daemon) enforcing() []config.Action {
	used := map[string]bool{}
	for i := range d.Config.Jails {
		if j := &d.Config.Jails[i]; !j.Observe {
			for _, a := range j.Actions {
				used[a] = true
			}
		}
	}
	if deny := d.Config.Deny; deny != nil && !deny.Observe {
		for _, a := range deny.Actions {
			used[a] = true
		}
	}
	var out []config.Action
	for _, a := range d.Config.Actions {
		if used[a.Name] {
			out = append(out, a)
		}
	}
	return out
}

func (d *daemon) lockTables() error {
	for _, a := range d.enforcing() {
		if a.Type != config.TypeNftables {
			continue
		}
		l, err := actions.LockTable(a.Table)
		if err != nil {
			return fmt.Errorf("action %s: %w", a.Name, err)
		}
		if w := l.Warning(); w != "" {
			d.Log.Warn("going on without the lock of the table", "action", a.Name, "table", a.Table, "reason", w)
		}
		d.locks = append(d.locks, l)
	}
	return nil
}

// openState opens the state file. Only another daemon's lock, or a newer
// daemon's file, keeps this one from starting: without a disk it still bans.
func (d *daemon) openState() error {
	d.store = newStore(filepath.Join(d.Config.StateDir, stateFile), d.Log)
	loaded, err := d.store.start()
	switch {
	case errors.Is(err, state.ErrLocked), errors.Is(err, state.ErrNewer):
		return err
	case err != nil:
		d.Log.Error("no state can be kept for now: bans go on, but a restart would forget what is not in the firewall", "path", d.store.path, "err", err)
		loaded = &state.Loaded{}
	default:
		sayLosses(d.Log, d.store.path, loaded)
	}
	d.loaded = loaded
	return nil
}

// makeActions makes the actions that enforce, and takes over what they hold.
func (d *daemon) makeActions(ctx context.Context) error {
	d.guard = guard.New(guard.FromConfig(d.Config.TrustedProxies, d.Config.Allow))
	hosts := d.hosts.Known()
	d.guard.UpdateNames(hostEntries(hosts))
	if entries, err := guard.Host(); err != nil {
		d.Log.Warn("cannot read the host's own addresses", "err", err)
	} else {
		d.guard.Update(entries)
	}
	for _, a := range d.enforcing() {
		log := d.Log.With("action", a.Name)
		e := &enforcer{name: a.Name, enforces: a.Type != config.TypeLog}
		switch a.Type {
		case config.TypeLog:
			e.action = actions.NewLog(log)
		case config.TypeNftables:
			e.action = actions.NewNftables(actions.NftablesOptions{
				Table: a.Table, Ports: a.Ports, AllPorts: a.AllPorts,
				Allow: d.allowed(hosts), Protected: d.guard.Protected,
				Size: setSize(d.Config.MaxBans), Log: log,
			})
		default:
			return fmt.Errorf("action %s: no action is of type %q", a.Name, a.Type)
		}
		e.reconciler = actions.NewReconciler(actions.Options{
			Name: a.Name, Action: e.action, Log: d.Log, Interval: a.Reconcile,
		})
		d.action = append(d.action, e)
		if a.Type == config.TypeNftables {
			d.adoptFrom(ctx, e)
		}
	}
	return nil
}

// setSize is the size of the kernel's sets: more than there are bans, and in
// few steps, since another size means another table.
func setSize(maxBans int) int {
	size := actions.DefaultSize
	for size < maxBans+maxBans/8 {
		size *= 2
	}
	return size
}

func (d *daemon) run(ctx context.Context) error {
	writer := state.NewWriter(d.store, d.Log, state.Clock(time.Now))
	engine, err := newEngine(d, writer.Put)
	if err != nil {
		return err
	}
	engine.restore(d)

	// What serves the engine outlives it, so that nothing it hands over last
	// is lost.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var servers, sources sync.WaitGroup
	servers.Go(func() {
		if err := writer.Run(serving); err != nil {
			d.Log.Error("the last changes could not be stored", "err", err)
			d.store.abandon = errors.Is(err, state.ErrHung)
		}
	})
	for _, e := range d.action {
		servers.Go(func() {
			if err := e.reconciler.Run(serving); err != nil {
				d.Log.Error("an action has stopped", "action", e.name, "err", err)
			}
		})
	}
	servers.Go(func() {
		if err := d.guard.Run(serving, d.Log); err != nil {
			d.Log.Error("the never-ban set is no longer kept current", "err", err)
		}
	})
	servers.Go(func() {
		if err := d.hosts.Run(serving); err != nil {
			d.Log.Error("host names are no longer looked up", "err", err)
		}
	})

	batches := make(chan *source.Batch, 16)
	for i := range d.Config.Logs {
		l := &d.Config.Logs[i]
		files := source.NewFiles(source.FilesOptions{
			Log: l.Name, Patterns: l.Files, MaxLine: l.MaxLine,
			Resume: resume(d.loaded.Positions, l.Name), Logger: d.Log,
		})
		sources.Go(func() {
			if err := files.Run(ctx, batches); err != nil {
				d.Log.Error("a log is no longer read", "log", l.Name, "err", err)
			}
		})
	}
	d.loaded, d.adopted = nil, nil // the engine has them now
	if d.Ready != nil {
		d.Ready()
	}
	d.Log.Info("running", "logs", len(d.Config.Logs), "jails", len(d.Config.Jails), "actions", len(d.action), "bans", len(engine.bans.bans))
	engine.loop(ctx, batches)
	d.await(&sources, sourcePatience, "the reading of logs")
	stopServing()
	d.await(&servers, serverPatience, "an action or the state file")
	d.Log.Info("stopped; bans stay in force until their time is up")
	return nil
}

// How long parts may take to end; what serves has to store and enforce the last
// changes.
const (
	sourcePatience = 5 * time.Second
	serverPatience = state.DefaultShutdownTimeout + 5*time.Second
)

// await waits for a part to end, and goes on without it if it hangs: the
// process ends then, and it with it.
func (d *daemon) await(part *sync.WaitGroup, patience time.Duration, what string) {
	done := make(chan struct{})
	go func() {
		part.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		d.hangs = true
		d.Log.Error("going on without what hangs", "what", what, "after", patience.String())
	}
}

// close lets go of everything, bans aside.
func (d *daemon) close() {
	if d.hangs {
		return // closing could hang as well
	}
	for _, e := range d.action {
		if err := e.action.Close(); err != nil {
			d.Log.Warn("cannot close an action", "action", e.name, "err", err)
		}
	}
	if d.store != nil {
		if err := d.store.close(); err != nil {
			d.Log.Warn("cannot close the state file", "err", err)
		}
	}
	for _, l := range d.locks {
		if err := l.Close(); err != nil {
			d.Log.Warn("cannot unlock a table", "err", err)
		}
	}
}

// resume picks a log's positions.
func resume(all []state.Position, log string) []source.Position {
	var out []source.Position
	for _, p := range all {
		if p.Log == log {
			out = append(out, source.Position(p))
		}
	}
	return out
}
