package daemon

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// fakeFirewall is an action that counts as one that keeps clients away.
type fakeFirewall struct {
	mu      sync.Mutex
	bans    map[netip.Prefix]time.Time
	packets uint64 // of each ban
	err     error  // of all that changes it
	blind   error  // of all that looks at it
	loses   bool   // says that it holds nothing
	full    bool   // has no room for any ban that is new to it
	closed  bool
}

func (f *fakeFirewall) set(change func(*fakeFirewall)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeFirewall) Prepare(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fakeFirewall) Apply(_ context.Context, add []actions.Entry, remove []netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	for _, target := range remove {
		delete(f.bans, target)
	}
	for _, e := range add {
		f.bans[e.Target] = time.Now().Add(e.Left)
	}
	return nil
}

func (f *fakeFirewall) List(context.Context) ([]actions.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []actions.Entry
	for target, end := range f.bans {
		out = append(out, actions.Entry{Target: target, Left: time.Until(end), Packets: f.packets})
	}
	return out, f.blind
}

func (f *fakeFirewall) Held(_ context.Context, target netip.Prefix) (actions.Entry, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end, held := f.bans[target]
	return actions.Entry{Target: target, Left: time.Until(end), Packets: f.packets}, held && !f.loses, f.blind
}

// Room has it bounded if it is full.
func (f *fakeFirewall) Room(netip.Prefix) (place string, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return "everything", 0
	}
	return "", 0
}

func (f *fakeFirewall) Close() error {
	f.set(func(f *fakeFirewall) { f.closed = true })
	return nil
}

func (f *fakeFirewall) holds(target string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.bans[pfx(target)].IsZero()
}

// live is a whole daemon in this process, but for its firewall: the action of
// that name, which the configuration has as one that only logs.
type live struct {
	*reloadable
	d        *daemon
	firewall *fakeFirewall
}

// enforced is a jail that bans by the firewall of a live daemon.
const enforced = `
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[actions.firewall]
type = "log"
`

// newLive starts one; change may alter its options first.
func newLive(t *testing.T, s *siteFiles, text string, change func(*Options)) *live {
	t.Helper()
	firewall := &fakeFirewall{bans: map[netip.Prefix]time.Time{}}
	l := newLiveWith(t, s, text, map[string]actions.Action{"firewall": firewall}, change)
	l.firewall = firewall
	return l
}

// newLiveWith starts one with other actions in the place of those of the
// configuration; change may alter its options first.
func newLiveWith(t *testing.T, s *siteFiles, text string, instead map[string]actions.Action, change func(*Options)) *live {
	t.Helper()
	l := &live{}
	made := make(chan *daemon, 1)
	l.reloadable = startReloadable(t, s, text, func(ctx context.Context, o Options) error {
		if change != nil {
			change(&o)
		}
		d := newDaemon(o)
		defer d.close()
		if err := d.prepare(ctx); err != nil {
			return err
		}
		for _, e := range d.action {
			if a := instead[e.name]; a != nil {
				e.enforces, e.action = true, a
				if _, ok := a.(allower); ok {
					e.allow = newSwap[[]netip.Prefix]()
				}
				e.reconciler = actions.NewReconciler(actions.Options{
					Name: e.name, Action: a, Log: d.Log, OnState: d.stateChanged(e.name), Failed: d.hub.alarms.goesOn(aboutFailing(e.name)),
					MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, Patience: quickly,
				})
			}
		}
		made <- d
		return d.run(ctx)
	})
	l.d = <-made
	return l
}

// quickly is how long an action may take here until it is said to hang.
const quickly = 2 * time.Second

// counted waits until n lines have been counted.
func (l *live) counted(n int) {
	l.siteFiles.Helper()
	wait(l.siteFiles, "the lines to be counted", func() bool {
		st, err := l.d.Status(context.Background())
		if err != nil {
			return false
		}
		lines := uint64(0)
		for i := range st.Logs {
			lines += st.Logs[i].Lines
		}
		return lines == uint64(n)
	})
}

func (l *live) explain(address string) *control.Explanation {
	l.siteFiles.Helper()
	x, err := l.d.Explain(context.Background(), netip.MustParseAddr(address))
	check(l.siteFiles, err)
	return x
}

func (l *live) status() *control.Status {
	l.siteFiles.Helper()
	s, err := l.d.Status(context.Background())
	check(l.siteFiles, err)
	return s
}
