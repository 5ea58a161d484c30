//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// script is what happens in the calls, before the model changes; nil: nothing.
type script struct {
	onPrepare func() error
	onApply   func(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error
	onList    func() error
}

// fake is an action as a test scripts it: a model that works, in whose calls
// the test can interfere.
type fake struct {
	mu sync.Mutex
	script
	held  map[netip.Prefix]time.Time // until; zero: for good
	as    map[netip.Prefix]int       // of how many members, those of held that are merged
	calls []string                   // in order, without their arguments
	adds  [][]actions.Entry
	gone  [][]netip.Prefix
}

// note records a call and returns the fake's script as it is now.
func (f *fake) note(call string) script {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	return f.script
}

// interfere changes the script while the reconciler runs.
func (f *fake) interfere(s script) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = s
}

func (f *fake) Prepare(context.Context) error {
	if s := f.note("prepare"); s.onPrepare != nil {
		return s.onPrepare()
	}
	return nil
}

func (f *fake) Apply(ctx context.Context, add []actions.Entry, remove []netip.Prefix) error {
	var rejected *actions.RejectedError
	if s := f.note("apply"); s.onApply != nil {
		if err := s.onApply(ctx, add, remove); errors.As(err, &rejected) {
			add = slices.DeleteFunc(slices.Clone(add), func(e actions.Entry) bool {
				return slices.ContainsFunc(rejected.Rejected, func(x actions.Rejection) bool { return x.Target == e.Target })
			})
			remove = slices.DeleteFunc(slices.Clone(remove), func(target netip.Prefix) bool {
				return slices.ContainsFunc(rejected.Kept, func(x actions.Rejection) bool { return x.Target == target })
			})
		} else if err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[netip.Prefix]time.Time{}
	}
	if f.as == nil {
		f.as = map[netip.Prefix]int{}
	}
	f.adds, f.gone = append(f.adds, add), append(f.gone, remove)
	for _, e := range add {
		f.held[e.Target] = time.Now().Add(e.Left)
		if delete(f.as, e.Target); e.Merged > 0 {
			f.as[e.Target] = e.Merged
		}
	}
	for _, t := range remove {
		delete(f.held, t)
	}
	if rejected != nil {
		return rejected
	}
	return nil
}

func (f *fake) List(context.Context) ([]actions.Entry, error) {
	if s := f.note("list"); s.onList != nil {
		if err := s.onList(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var entries []actions.Entry
	for t, until := range f.held {
		e := actions.Entry{Target: t, Merged: f.as[t]}
		if !until.IsZero() {
			if e.Left = time.Until(until); e.Left <= 0 {
				continue
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (f *fake) Close() error { f.note("close"); return nil }

// edit changes what the fake holds as somebody else would.
func (f *fake) edit(target string, left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[netip.Prefix]time.Time{}
	}
	switch {
	case left < 0:
		delete(f.held, pfx(target))
	case left == 0:
		f.held[pfx(target)] = time.Time{}
	default:
		f.held[pfx(target)] = time.Now().Add(left)
	}
}

// took returns and forgets the calls so far.
func (f *fake) took() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := strings.Join(f.calls, " ")
	f.calls = nil
	return s
}

func (f *fake) left(target string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.held[pfx(target)]
	if !ok {
		return -1
	}
	return time.Until(until)
}

// bench is a reconciler that runs on a fake, under a fake clock.
type bench struct {
	*testing.T
	*actions.Reconciler
	fake   *fake
	log    *bytes.Buffer
	states *[]actions.State
}

// reconciling runs f with a reconciler in a synctest bubble.
func reconciling(t *testing.T, fa *fake, f func(b *bench)) {
	reconcilingAction(t, fa, fa, f)
}

// reconcilingAction is reconciling with an action around the fake.
func reconcilingAction(t *testing.T, fa *fake, a actions.Action, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		log, states := new(bytes.Buffer), new([]actions.State)
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: a,
			Log:     slog.New(slog.NewTextHandler(log, nil)),
			OnState: func(s actions.State) { *states = append(*states, s) },
		})
		b := &bench{T: t, Reconciler: r, fake: fa, log: log, states: states}
		f(b)
	})
}

// start runs the reconciler until the end of the test.
func (b *bench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Reconciler.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run returned %v, want nil as it was cancelled", err)
		}
		if strings.Contains(b.fake.took(), "close") {
			b.Error("Run has closed the action")
		}
	})
	synctest.Wait()
}

// in bans a target for some time from now.
func (b *bench) in(target string, left time.Duration) {
	b.Set(pfx(target), time.Now().Add(left))
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) calls(want string) {
	b.Helper()
	if got := b.fake.took(); got != want {
		b.Errorf("calls were %q, want %q", got, want)
	}
}

func (b *bench) said(text string, want int) {
	b.Helper()
	if got := strings.Count(b.log.String(), text); got != want {
		b.Errorf("%q was said %d times, want %d:\n%s", text, got, want, b.log)
	}
}
