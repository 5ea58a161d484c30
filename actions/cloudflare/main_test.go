package cloudflare_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

const listName = "tailban"

// edge is a Cloudflare with a list, and a reconciler with the action beside it.
type edge struct {
	*testing.T
	server     *fake.Server
	action     *cloudflare.Action
	reconciler *actions.Reconciler
	log        *lockedBuffer

	stop context.CancelFunc
	all  sync.WaitGroup
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func secret() (string, error) { return fake.Secret, nil }

// newAction returns an action for a server.
func newAction(t *testing.T, s *fake.Server, change func(*cloudflare.Options)) *cloudflare.Action {
	t.Helper()
	o := cloudflare.Options{
		Account: fake.AccountID, Token: secret, List: listName, Create: true, Instance: "web-1", Transport: s.Transport(),
	}
	if change != nil {
		change(&o)
	}
	a, err := cloudflare.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// atEdge runs a test in a bubble, with a server and the action running against it.
func atEdge(t *testing.T, so fake.Options, change func(*cloudflare.Options), f func(*edge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &edge{T: t, server: fake.New(so)}
		e.start(change)
		defer e.end()
		f(e)
	})
}

// start starts another daemon's worth of it.
func (e *edge) start(change func(*cloudflare.Options)) {
	e.Helper()
	e.log = &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(e.log, nil))
	e.action = newAction(e.T, e.server, func(o *cloudflare.Options) {
		o.Log = log
		if change != nil {
			change(o)
		}
	})
	e.reconciler = actions.NewReconciler(actions.Options{
		Name: "edge", Action: e.action, Log: log, Interval: 10 * time.Minute,
		MinBackoff: 15 * time.Second, MaxBackoff: 5 * time.Minute, Patience: 6 * time.Minute,
	})
	ctx, stop := context.WithCancel(e.Context())
	e.stop = stop
	e.all.Go(func() { _ = e.reconciler.Run(ctx) })
	e.all.Go(func() { _ = e.action.Run(ctx) })
	if len(e.action.Leases()) > 0 {
		e.all.Go(func() { _ = e.action.RunLease(ctx) })
	}
}

func (e *edge) end() {
	e.stop()
	e.all.Wait()
}

// after lets time pass, and everything that happens in it happen.
func (e *edge) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (e *edge) ban(target string, d time.Duration) {
	e.reconciler.Set(netip.MustParsePrefix(target), time.Now().Add(d))
}

// items is what the list holds, by address, and the comment of each.
func (e *edge) items() map[string]string {
	m := map[string]string{}
	for _, it := range e.server.Items(listName) {
		m[it.IP] = it.Comment
	}
	return m
}

// holds fails unless the list holds exactly these addresses.
func (e *edge) holds(want ...string) {
	e.Helper()
	got := e.items()
	if len(got) != len(want) {
		e.Errorf("the list holds %v, want %v", got, want)
	}
	for _, w := range want {
		if _, ok := got[w]; !ok {
			e.Errorf("the list does not hold %s, but %v", w, got)
		}
	}
}

func (e *edge) said(text string, want int) {
	e.Helper()
	if got := strings.Count(e.log.String(), text); got != want {
		e.Errorf("%q was said %d times, want %d:\n%s", text, got, want, e.log)
	}
}

// requests counts the requests that a method and a part of a path fit.
func (e *edge) requests(method, path string) (n int) {
	log, _ := e.server.Requests()
	for _, r := range log {
		if (method == "" || r.Method == method) && strings.Contains(r.Path, path) {
			n++
		}
	}
	return n
}

// address is one of many.
func address(i int) string { return fmt.Sprintf("100.%d.%d.%d/32", 64+i>>16, i>>8&255, i&255) }

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
