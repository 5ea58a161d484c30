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
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/metrics"
	"github.com/tailban/tailban/internal/prove"
	"github.com/tailban/tailban/internal/resolve"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// stateFile is the name of the state file in the state folder.
const stateFile = "tailban.db"

// Options make a daemon.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger
	Host    string // the name that bans decided here carry as their origin
	Version string // of the program
	Manager Manager

	// Paths says where the host tells of its name servers and SSH sessions;
	// none of them are protected if it is empty.
	Paths guard.Paths

	// Lookup finds the addresses of host names that are allowed; nil: the
	// system's resolver.
	Lookup resolve.Lookup

	// Fetch is how published ranges are reached, and FetchFirst after which time
	// for the first time; nil and 0: as usual.
	Fetch      http.RoundTripper
	FetchFirst time.Duration

	// Resolver looks up the names of clients that claim to be wanted machines;
	// nil: the system's.
	Resolver prove.Resolver

	// Load reads the configuration again, for a reload; nil: it comes from no
	// file. A configuration with problems is an error of type config.Problems.
	Load func() (*config.Config, error)

	// Reloads are signals that ask for a reload; nil: there are none.
	Reloads <-chan os.Signal

	// Sockets are those that the service manager has made, by the log that
	// takes them; Stdin is what a log with stdin reads. Both stay open.
	Sockets map[string]*os.File
	Stdin   *os.File

	// Confirm is how long bans may last, from the start on, unless somebody says
	// that the start is right; 0: as long as they should.
	Confirm time.Duration

	// Source says where Config comes from.
	Source control.ConfigStatus
}

// Run runs the daemon until ctx is done. Bans stay in force where they are
// enforced. An error means that it could not start.
func Run(ctx context.Context, o Options) error {
	return newDaemon(o).live(ctx)
}

func (d *daemon) live(ctx context.Context) error {
	defer d.close()
	defer context.AfterFunc(ctx, func() { d.tell("STOPPING=1", "STATUS=stopping") })()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.run(ctx)
}

func newDaemon(o Options) *daemon {
	set := guard.New(guard.FromConfig(o.Config.TrustedProxies, o.Config.WaitingProxies(), o.Config.Allow))
	return &daemon{
		Options: o, config: o.Config, started: time.Now(),
		guard:     set,
		sessions:  guard.NewSessions(set, o.Paths, o.Log),
		locks:     map[string]*actions.TableLock{},
		allow:     newAllowList(o.Config.Allow),
		hub:       newHub(),
		tentative: newTentative(o.Confirm, time.Now()),
		breaker:   newBreaker(),
		questions: make(chan question),
		pulses:    make(chan chan<- vitals),
		look:      lookFor,
		reloading: make(chan struct{}, 1),
		keep:      newSwap[*config.Config](),

		keepPlaces: newSwap[[]config.UsedPlace](),

		listing: make(chan struct{}, 1),
		ended:   make(chan struct{}),
		batches: make(chan *source.Batch, 16),
		logs:    map[string]*reading{},

		snapshotEvery: snapshotEvery,
	}
}

// prepare takes hold of all that run needs.
func (d *daemon) prepare(ctx context.Context) error {
	d.starting.begin(ctx, d)
	for _, a := range enforcing(d.config) {
		if err := d.lock(a); err != nil {
			return err
		}
	}
	d.starting.is("reading what is stored")
	if err := d.openState(); err != nil {
		return err
	}
	d.loadAlarms()
	d.loadAllowances(d.loaded.Allowances)
	d.loadHosts()
	d.loadProofs()
	d.before = d.placesBefore()
	d.starting.is("looking at actions")
	return d.makeActions(ctx)
}

type daemon struct {
	Options
	started time.Time
	store   *store
	loaded  *state.Loaded
	windows *state.Windows             // what an earlier daemon had counted; nil: not known
	counted map[string]source.Position // up to where journals are read again, by log
	adopted map[netip.Prefix]bool      // targets whose bans aren't stored as they are loaded; true: they have an owner more
	guard   *guard.Set
	allow   *allowList
	hub     *hub

	tentative *tentative
	breaker   *breaker // of the engine
	hangs     bool     // some part did not end
	unsaved   bool     // the last commit failed; to be read when the writer has ended

	sessions *guard.Sessions

	scraper *metrics.Scraper
	control *control.Server // nil: there are no control sockets

	prover *prove.Prover
	proved []detector.Answer // of an earlier daemon, until the engine has them

	snapshotEvery time.Duration

	writer    *state.Writer
	starting  starting
	questions chan question
	pulses    chan chan<- vitals // asks the engine whether it goes on
	ended     chan struct{}      // closed when the engine takes no more questions
	batches   chan *source.Batch

	reading context.Context // of what reads logs
	serving context.Context // of what serves the engine, and outlives it

	reloading chan struct{} // holds a token while a reload is under way, or must not begin
	look      looker
	listing   chan struct{}         // holds a token while bans are listed
	keep      *swap[*config.Config] // of which a copy is to be kept

	keepPlaces *swap[[]config.UsedPlace] // likewise; put while places is locked

	mu      sync.Mutex // of what a reload changes
	config  *config.Config
	logs    map[string]*reading
	claims  *source.Claims
	folders *source.Folders // nil: inotify can't be had
	action  []*enforcer
	hosts   *hosts
	lists   *published
	scraped *scraped // nil: metrics are not served

	notifiers []*notifier

	places       sync.Mutex
	iptablesRuns actions.IptablesRuns // of all actions

	locks   map[string]*actions.TableLock // by place
	planned []string                      // places that are about to be used
	left    []*leaving
	before  []*leaving // what an earlier daemon has used; until this one runs
}

// current is the configuration that runs.
func (d *daemon) current() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

// enforcers are the actions in use.
func (d *daemon) enforcers() []*enforcer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.action)
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
		d.windows = d.loadWindows()
	}
	d.loaded = loaded
	return nil
}

func (d *daemon) run(ctx context.Context) error {
	d.starting.is("taking up what is stored")
	d.reloading <- struct{}{} // until everything runs
	d.writer = state.NewWriter(d.store, d.Log, state.Clock(time.Now))
	engine, err := newEngine(d, d.writer.Put)
	if err != nil {
		return err
	}
	notifiers, err := d.makeNotifiers(d.config, nil)
	if err != nil {
		return err
	}
	d.loadRegulars(engine)
	engine.restore(d)

	// What serves the engine outlives it, so that nothing it hands over last
	// is lost.
	var stopServing context.CancelFunc
	d.serving, stopServing = context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	d.reading = ctx
	engine.snapshots.flush = d.writer.Flush
	servers := []*part{d.startWriter(), d.startGuard(), startPart(d.serving, d.sessions.Run), d.startAllowances(), startPart(d.serving, engine.snapshots.run),
		startPart(d.serving, func(ctx context.Context) { d.remember(ctx, engine.memory) })}
	servers = append(servers, startPart(d.serving, d.keepAlarms))
	d.useNotifiers(notifiers)
	d.dropAlarms(d.config)
	keeper := d.startKeeper()
	d.hosts.start(d)
	d.useLists(d.config)
	servers = append(servers, d.startProofs())
	for _, e := range d.action {
		e.start(d)
	}
	d.scraper = d.newScraper()
	if p := d.startControl(); p != nil {
		servers = append(servers, p)
	}
	d.useMetrics(d.config)
	d.startTentative()
	d.sayUnusedSockets()
	if folders := d.startFolders(); folders != nil {
		servers = append(servers, folders)
	}
	d.claims = source.NewClaims(sourcePositions(d.loaded.Positions))
	d.assign(d.config)
	for i := range d.config.Logs {
		d.follow(&d.config.Logs[i], d.loaded.Positions)
	}
	d.loaded, d.adopted, d.windows, d.counted = nil, nil, nil, nil // the engine has them now
	d.keepConfig(d.config)
	d.leaveBefore()
	running := []any{"logs", len(d.config.Logs), "jails", len(d.config.Jails), "actions", len(d.action), "bans", len(engine.bans.bans)}
	<-d.reloading // before anybody is told that we run: a reload right then is not refused
	d.Log.Info("running", running...)
	d.starting.over()
	d.tell("READY=1")
	reloads := startPart(ctx, d.reloadWhenAsked) // a signal that came meanwhile included
	servers = append(servers, startPart(ctx, d.keepTelling))
	engine.loop(d.untilSourcesEnd(ctx), d.batches, d.questions)
	close(d.ended)
	whole := engine.again == nil
	if whole {
		engine.drain(d.batches, time.Now())
	} else {
		engine.lastOfStreams(d.batches, time.Now())
	}
	var last *snapshot
	if whole {
		last = engine.last(time.Now())
	}

	d.await([]*part{reloads}, reloadPatience, "a reload")
	select {
	case d.reloading <- struct{}{}: // no part is begun behind this
	case <-time.After(reloadPatience):
		d.hangs = true
		d.Log.Error("going on without what hangs", "what", "a reload", "after", reloadPatience.String())
	}
	d.await(d.sources(), sourcePatience, "the reading of logs")
	d.await(d.leavers(), actionPatience, "the clearing of what is not used any more")
	stopServing()
	d.mu.Lock()
	servers = append(servers, d.hosts.part, d.lists.part)
	if d.scraped != nil {
		servers = append(servers, d.scraped.part)
	}
	for _, e := range d.action {
		servers = append(servers, e.running...)
	}
	d.mu.Unlock()
	d.await(servers, serverPatience, "an action or the state file")
	if !waitFor(keeper.done, lastWords) {
		d.Log.Warn("the copy of the configuration is not written: does the disk hang?")
	}
	if last != nil && !d.hangs && !d.unsaved {
		d.hangs = !engine.snapshots.saveLast(last)
	}
	if engine.breaker.regulars.changed && !d.hangs {
		d.hangs = !d.saveLastRegulars(engine.memory, engine.memories())
	}
	d.awaitNotifiers()
	d.forgetUntold()
	d.Log.Info("stopped; bans stay in force until their time is up")
	return nil
}

// lastWords is how long what reads logs may take at the end to hand over what
// can't be read again: messages that a socket has received.
const lastWords = time.Second

// untilSourcesEnd returns a context that ends shortly after ctx, when nothing is
// read any more.
func (d *daemon) untilSourcesEnd(ctx context.Context) context.Context {
	later, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer end()
		waitFor(allOf(d.sources()), lastWords)
	})
	return later
}

func (d *daemon) startWriter() *part {
	return startPart(d.serving, func(ctx context.Context) {
		if err := d.writer.Run(ctx); err != nil {
			d.Log.Error("the last changes could not be stored", "err", err)
			d.unsaved = true
			d.store.abandon = errors.Is(err, state.ErrHung)
		}
	})
}

func (d *daemon) startGuard() *part {
	return startPart(d.serving, func(ctx context.Context) {
		if err := d.guard.Run(ctx, d.Paths, d.Log); err != nil {
			d.Log.Error("the never-ban set is no longer kept current", "err", err)
		}
	})
}
