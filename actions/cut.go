//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	// cutInterval is between two looks at the sockets, at least.
	cutInterval = time.Second

	// cutShare is how many times longer than a look the pause behind it is at
	// least: with very many sockets, looks take a small share of the time.
	cutShare = 10

	// maxCutQueued bounds the targets that wait for the next look. More come
	// into force within an interval only when a full firewall is filled anew.
	maxCutQueued = 1 << 17
)

// CutOptions say whose connections are cut.
type CutOptions struct {
	Ports     []uint16     // local ports that a ban covers; none: DefaultPorts
	AllPorts  bool         // all are covered; Ports is ignored
	Protected Protected    // nobody of them is cut off; nil: nobody is protected
	NetNS     int          // descriptor of the network namespace to work in; 0: our own
	Log       *slog.Logger // nil: none
}

// CutStats are counts since NewCutter.
type CutStats struct {
	Cut     uint64 // connections
	Failed  uint64 // connections that the kernel did not end
	Dropped uint64 // targets of whom no connection was looked for: too many at once, or sockets can't be listed
	Looks   uint64 // listings of all sockets
}

// Cutter ends the TCP connections that are open to this host from targets that
// have come in force at an action, so that what serves them is free at once:
// with the client's packets dropped it would notice at some timeout only. The
// server gets ECONNABORTED, the client a reset.
//
// Of the network namespace it works in, it ends connections that were accepted
// at a local port that the bans cover: some socket must be listening there.
// What this host opened itself has another local port and stays, and so does a
// socket that listens.
//
// It is told by Changed and works in Run. One listing of all sockets serves all
// targets that have come in force since the last, and there is one in
// cutInterval at most, the first at once.
type Cutter struct {
	opt   CutOptions
	log   *slog.Logger
	ports map[uint16]struct{} // nil: all
	wake  chan struct{}       // holds one token while something is queued
	look  func(context.Context, cutTargets) (cutResult, error)

	mu     sync.Mutex
	queued cutTargets
	stats  CutStats

	failing bool // Run's: the last look failed, which has been said
}

// NewCutter returns a Cutter, which does nothing until Run.
func NewCutter(opt CutOptions) *Cutter {
	if len(opt.Ports) == 0 {
		opt.Ports = DefaultPorts()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cutter{opt: opt, log: opt.Log, wake: make(chan struct{}, 1), queued: cutTargets{}}
	if !opt.AllPorts {
		c.ports = map[uint16]struct{}{}
		for _, p := range opt.Ports {
			c.ports[p] = struct{}{}
		}
	}
	c.look = c.lookAtSockets
	return c
}

// Changed says which targets have come in force and which are not in force any
// longer. It never waits, and may be called from any goroutine; see
// [Options.OnChange].
func (c *Cutter) Changed(begun, ended []netip.Prefix) {
	c.mu.Lock()
	for _, t := range ended {
		delete(c.queued, t)
	}
	for _, t := range begun {
		if len(c.queued) >= maxCutQueued {
			c.stats.Dropped++
			continue
		}
		c.queued[t] = struct{}{}
	}
	some := len(c.queued) > 0
	c.mu.Unlock()
	if !some {
		return
	}
	signal(c.wake)
}

// Stats returns the counts. It may be called from any goroutine.
func (c *Cutter) Stats() CutStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Run cuts connections until ctx is done, which is success. No failure ends it:
// bans are in force without it.
func (c *Cutter) Run(ctx context.Context) error {
	c.say(c.check())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		began := time.Now()
		c.cut(ctx)
		sleep.For(ctx, max(cutInterval, cutShare*time.Since(began)))
	}
}

// cut ends the connections of all that are queued.
func (c *Cutter) cut(ctx context.Context) {
	c.mu.Lock()
	targets := c.queued
	c.queued = cutTargets{}
	c.mu.Unlock()
	if len(targets) == 0 || ctx.Err() != nil {
		return
	}
	r, err := c.look(ctx, targets)
	c.mu.Lock()
	c.stats.Looks++
	c.stats.Cut += r.cut
	c.stats.Failed += r.failed
	if err != nil {
		c.stats.Dropped += uint64(len(targets))
	}
	c.mu.Unlock()
	if r.cut+r.failed > 0 {
		attrs := []any{slog.Uint64("cut", r.cut), slog.Uint64("failed", r.failed), slog.Int("targets", len(targets))}
		if r.failure != nil {
			attrs = append(attrs, slog.Any("err", r.failure))
		}
		c.log.Info("open connections of banned clients cut", attrs...)
	}
	if ctx.Err() == nil {
		c.say(err)
	}
}

// say says that connections can't be cut, once, and when they can be again.
func (c *Cutter) say(err error) {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("open connections of banned clients are not cut; their bans are in force", slog.Any("err", err))
	case err == nil && c.failing:
		c.log.Info("open connections of banned clients are cut again")
	}
	c.failing = err != nil
}

// check tells ahead whether the kernel can do it.
func (c *Cutter) check() (err error) {
	d, err := openSockDiag(c.opt.NetNS)
	if err != nil {
		return explainCut(err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.destroys(); err != nil {
		return explainCut(fmt.Errorf("end a TCP socket: %w", err))
	}
	return nil
}

// explainCut adds a hint where the cause can be guessed.
func explainCut(err error) error {
	hint := ""
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		hint = hintCapability
	case errors.Is(err, unix.EAFNOSUPPORT):
		hint = hintNetlink
	case errors.Is(err, unix.EOPNOTSUPP):
		hint = "this kernel was built without CONFIG_INET_DIAG_DESTROY"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPROTONOSUPPORT):
		hint = "does this kernel have tcp_diag? (try: modprobe tcp_diag)"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
