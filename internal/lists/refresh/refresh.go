// Package refresh keeps the ranges that providers publish current, in the
// background: it fetches them, looks whether they can be right, and stores them
// where the configuration finds them. See package lists for what is stored.
package refresh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/internal/sleep"
)

const (
	// firstAfter and firstSpread say when a list is fetched of which nothing is
	// known: not at once, as a daemon that starts again and again would ask each
	// time, and many hosts are started at the same time.
	firstAfter  = time.Minute
	firstSpread = 9 * time.Minute

	// Retry is when the sources of a list are asked again after an attempt that
	// came to nothing; it doubles up to the interval. It is the least time between
	// two attempts.
	Retry = 15 * time.Minute
)

// List is a list to be kept current.
type List struct {
	Name    string
	Sources []string
	Strict  bool // see lists.Stored.Settle
}

// Options make a Refresher.
type Options struct {
	StateDir string
	Every    time.Duration // give or take a tenth
	Lists    []List
	Log      *slog.Logger

	// Transport is how servers are reached; nil: as usual.
	Transport http.RoundTripper

	// First is when a list is fetched for the first time; 0: within ten minutes.
	First time.Duration

	// Changed is called from Run, at its begin and then when what is stored to be
	// used, or spared, may have changed. It may take its time.
	Changed func(context.Context)

	// Waits is called when ranges begin to wait for somebody to accept them, with
	// the reason, and with "" when they don't any more. It may be called from
	// several goroutines.
	Waits func(name, why string)
}

// Refresher keeps lists current.
type Refresher struct {
	opt    Options
	client *http.Client

	saving sync.Mutex // held while a list is changed, which takes as long as the disk
	mu     sync.Mutex // of what is stored of each; never held for longer than a moment
	list   []*one
}

// one is a list with what is known of it.
type one struct {
	List
	built  *lists.Provider // as built in
	stored *lists.Stored   // never nil; what is in it isn't changed
}

// inUse is the list as it is used.
func (l *one) inUse() *lists.Provider { return l.stored.InUse(l.built, l.Strict) }

// New makes a Refresher, and reads what is stored. That a file can't be read is
// for whoever uses it to say; it is replaced.
func New(o Options) *Refresher {
	r := &Refresher{opt: o, client: newClient(o.Transport)}
	now := time.Now()
	for _, l := range o.Lists {
		built, ok := lists.Lookup(l.Name)
		if !ok {
			continue
		}
		s, err := lists.Load(o.StateDir, l.Name)
		if err != nil || s == nil {
			s = &lists.Stored{Name: l.Name}
		}
		if !slices.EqualFunc(s.Latest, l.Sources, func(f lists.Fetched, url string) bool { return f.URL == url }) {
			s.Latest, s.Waiting, s.Next = nil, nil, time.Time{} // these are other sources
		}
		s.Settle(built, l.Strict, now)
		if s.Next.Before(now) || s.Next.After(now.Add(o.Every+o.Every/10)) {
			s.Next = r.first(now)
		}
		r.list = append(r.list, &one{List: l, built: built, stored: s})
	}
	return r
}

func (r *Refresher) first(now time.Time) time.Time {
	if r.opt.First > 0 {
		return now.Add(r.opt.First)
	}
	return now.Add(firstAfter + rand.N(firstSpread))
}

// Run fetches each list at its time, one after the other, until ctx is done. It is
// called once.
func (r *Refresher) Run(ctx context.Context) {
	r.begin()
	r.opt.Changed(ctx)
	for len(r.list) > 0 {
		l, at := r.due()
		if !sleep.For(ctx, time.Until(at)) {
			return
		}
		if r.refresh(ctx, l) {
			r.opt.Changed(ctx)
		}
	}
	<-ctx.Done()
}

// begin stores what is known as it is by now, and tells what waits.
func (r *Refresher) begin() {
	r.saving.Lock()
	defer r.saving.Unlock()
	for _, l := range r.list {
		if err := l.stored.Save(r.opt.StateDir); err != nil {
			r.opt.Log.Warn("what is known of published ranges can't be stored", "list", l.Name, "err", err)
		}
		why := ""
		if w := l.stored.Waiting; w != nil {
			why = w.Why
		}
		r.opt.Waits(l.Name, why)
	}
}

// due returns the list that is next, and when.
func (r *Refresher) due() (*one, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := slices.MinFunc(r.list, func(a, b *one) int { return a.stored.Next.Compare(b.stored.Next) })
	return l, l.stored.Next
}

// refresh fetches a list, all of its sources or none, and reports whether what
// is to be used may have changed.
func (r *Refresher) refresh(ctx context.Context, l *one) (changed bool) {
	r.mu.Lock()
	have := slices.Clone(l.stored.Latest)
	r.mu.Unlock()
	latest, err := r.fetchAll(ctx, l, have)
	if ctx.Err() != nil {
		return false // what failed, failed because of that
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	now := time.Now()
	before := *l.stored
	after := before // which is in the place of it when it is stored
	if err != nil {
		r.failed(l, &after, err, now)
	} else {
		after.Latest, after.Checked, after.Failing = latest, now.UTC(), nil
		after.Next = now.Add(r.opt.Every - r.opt.Every/10 + rand.N(r.opt.Every/5+1)).UTC()
		after.Settle(l.built, l.Strict, now)
	}
	if err := after.Save(r.opt.StateDir); err != nil {
		// What is used is what is stored, so that check and replay, and the next
		// start, know it, too.
		if before.Failing == nil {
			r.opt.Log.Warn("published ranges can't be stored: those from before stay", "list", l.Name, "err", err)
		}
		before.Next = now.Add(Retry)
		before.Failing = failing(before.Failing, fmt.Errorf("what was fetched can't be stored, so it is not used: %w", err), now)
		r.set(l, &before)
		return false
	}
	r.set(l, &after)
	if before.Failing != nil && after.Failing == nil {
		r.opt.Log.Info("published ranges can be fetched again", "list", l.Name)
	}
	return r.say(l, &before)
}

func (r *Refresher) fetchAll(ctx context.Context, l *one, have []lists.Fetched) ([]lists.Fetched, error) {
	latest := make([]lists.Fetched, 0, len(l.Sources))
	entries := 0
	for i, source := range l.Sources {
		var before *lists.Fetched
		if len(have) == len(l.Sources) {
			before = &have[i]
		}
		f, err := fetch(ctx, r.client, source, before)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		if entries += len(f.Ranges); entries > lists.MaxEntries {
			return nil, fmt.Errorf("%s: with this it has more than %d ranges", source, lists.MaxEntries)
		}
		latest = append(latest, *f)
	}
	return latest, nil
}

// failed notes an attempt that came to nothing. That is said once.
func (r *Refresher) failed(l *one, s *lists.Stored, err error, now time.Time) {
	if s.Failing == nil {
		r.opt.Log.Warn("published ranges can't be fetched: those from before stay", "list", l.Name, "err", err)
	}
	s.Failing = failing(s.Failing, err, now)
	wait := r.opt.Every
	if n := s.Failing.Times - 1; n < 20 {
		wait = min(wait, Retry<<n)
	}
	s.Next = now.Add(wait + rand.N(wait/10)).UTC()
}

// failing is one attempt more that failed.
func failing(before *lists.Failing, err error, now time.Time) *lists.Failing {
	f := &lists.Failing{Err: err.Error(), Since: now.UTC(), Times: 1}
	if before != nil {
		f.Since, f.Times = before.Since, before.Times+1
	}
	return f
}

// set has something else be what is stored of a list.
func (r *Refresher) set(l *one, s *lists.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.stored = s
}

// say tells what is new about a list, and reports whether anything is.
func (r *Refresher) say(l *one, before *lists.Stored) (changed bool) {
	s := l.stored
	was, is := before.InUse(l.built, l.Strict), l.inUse()
	if c := lists.Compare(was.Prefixes, is.Prefixes); !c.None() {
		changed = true
		r.opt.Log.Info("published ranges have changed", "list", l.Name, "ranges", len(is.Prefixes), "added", len(c.Added), "removed", len(c.Removed))
	}
	switch {
	case s.Waiting != nil && (before.Waiting == nil || before.Waiting.ID != s.Waiting.ID):
		c := lists.Compare(is.Prefixes, s.Fresh())
		r.opt.Log.Warn("published ranges wait for an administrator: tailban lists shows them, tailban lists accept uses them",
			"list", l.Name, "why", s.Waiting.Why, "id", s.Waiting.ID, "added", len(c.Added), "removed", len(c.Removed))
		r.opt.Waits(l.Name, s.Waiting.Why)
		return true
	case s.Waiting == nil && before.Waiting != nil:
		r.opt.Log.Info("published ranges don't wait any more", "list", l.Name)
		r.opt.Waits(l.Name, "")
		return true
	}
	return changed
}

// Errors of Accept.
var (
	ErrUnknown = errors.New("it is no list that is refreshed")
	ErrNothing = errors.New("nothing of it waits to be accepted")
	ErrOther   = errors.New("other ranges wait than those")
)

// Accept uses ranges of a list that wait. With an id, only those of that id. They
// are stored then, which takes as long as the disk does; the caller has them used.
func (r *Refresher) Accept(name, id string) (lists.Change, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	i := slices.IndexFunc(r.list, func(l *one) bool { return l.Name == name })
	if i < 0 {
		return lists.Change{}, ErrUnknown
	}
	l := r.list[i]
	switch w := l.stored.Waiting; {
	case w == nil:
		return lists.Change{}, ErrNothing
	case id != "" && id != w.ID:
		return lists.Change{}, fmt.Errorf("%w: they have the id %s", ErrOther, w.ID)
	}
	c := lists.Compare(l.inUse().Prefixes, l.stored.Fresh())
	after := *l.stored
	after.Accept(time.Now())
	if err := after.Save(r.opt.StateDir); err != nil {
		return lists.Change{}, fmt.Errorf("store what is accepted: %w", err)
	}
	r.set(l, &after)
	r.opt.Waits(name, "")
	return c, nil
}

// Status is a list as it is now.
type Status struct {
	InUse   *lists.Provider
	Sources []string
	Stored  lists.Stored // whose lists are not to be changed
	Pending lists.Change // if it waits: what it would change
}

// Status returns all lists.
func (r *Refresher) Status() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Status, len(r.list))
	for i, l := range r.list {
		out[i] = StatusOf(l.List, l.built, l.stored)
	}
	return out
}

// StatusOf is the status of a list by what is stored of it; nil: nothing.
func StatusOf(l List, built *lists.Provider, stored *lists.Stored) Status {
	s := Status{InUse: stored.InUse(built, l.Strict), Sources: l.Sources}
	if stored != nil {
		s.Stored = *stored
	}
	if s.Stored.Waiting != nil {
		s.Pending = lists.Compare(s.InUse.Prefixes, stored.Fresh())
	}
	return s
}
