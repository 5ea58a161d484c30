package daemon

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/resolve"
	"github.com/tailban/tailban/state"
)

// Whoever is allowed from now on, as a name has his address, is let go, and
// counted no more; the others stay where they are.
func TestAllowedLaterIsLetGo(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "2001:db8::1", "2001:db8::1")
	if n := len(r.one().Bans); n != 3 {
		t.Fatalf("%d bans, want 3", n)
	}
	allow := []netip.Prefix{pfx("192.0.2.1/32"), pfx("2001:db8::9/128")}
	r.guard.UpdateNames([]guard.Entry{{Prefix: allow[0], Reason: "allowed: a.example"}, {Prefix: allow[1], Reason: "allowed: a.example"}})
	r.setAllow(allowed{1, allow}, r.now)
	u := r.one()
	slices.SortFunc(u.Unbans, netip.Prefix.Compare)
	if !slices.Equal(u.Unbans, []netip.Prefix{pfx("192.0.2.1/32"), pfx("2001:db8::/64")}) || u.Len() != 2 {
		t.Errorf("got %+v, want two unbans", u)
	}
	if until := r.action["firewall"].until; len(until) != 1 || until[pfx("192.0.2.2/32")].IsZero() {
		t.Errorf("enforced: %v, want the other one", until)
	}
	r.journal.want(t, 1, "ban lifted: its target is protected now", "target", "192.0.2.1/32", "reason", "allowed: a.example")

	r.requests("192.0.2.1", "192.0.2.1", "2001:db8::9", "2001:db8::9", "2001:db8::1", "2001:db8::1")
	if u := r.one(); targets(u) != "2001:db8::1/128" {
		t.Errorf("banned: %s, want only the neighbour of the allowed address, by himself", targets(u))
	}

	r.guard.UpdateNames(nil)
	r.setAllow(allowed{2, nil}, r.now)
	r.took()
	r.requests("192.0.2.1", "192.0.2.1")
	if u := r.one(); targets(u) != "192.0.2.1/32" {
		t.Errorf("banned: %q, want who is no longer allowed", targets(u))
	}
}

// fakeAllower is an action that lets some pass.
type fakeAllower struct {
	actions.Action
	allow []netip.Prefix
	err   error
}

func (f *fakeAllower) SetAllow(_ context.Context, allow []netip.Prefix) error {
	f.allow = allow
	return f.err
}

// New addresses reach the guard, the engine and each action that lets some
// pass; the configuration's own entries stay.
func TestNewAddressesReachAll(t *testing.T) {
	j := &journal{}
	d := newDaemon(Options{Config: parse(t, `allow = ["198.51.100.0/24", "a.example"]`+"\n"+web), Log: j.logger()})
	good := &enforcer{name: "good", action: &fakeAllower{}, allow: newSwap[[]netip.Prefix]()}
	d.action = []*enforcer{good, {name: "log", action: actions.NewLog(j.logger())}}
	d.Config.StateDir = t.TempDir()
	d.loadHosts()
	first := []resolve.Host{{Name: "a.example", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
	second := []resolve.Host{{Name: "a.example", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")}}}
	d.hostsChanged(first)
	d.hostsChanged(second) // before the engine has asked
	want := []netip.Prefix{pfx("198.51.100.0/24"), pfx("192.0.2.2/32"), pfx("2001:db8::1/128")}
	if got := (<-d.allow.changed.latest).list; !slices.Equal(got, want) {
		t.Errorf("the engine hears of %v, want %v", got, want)
	}
	if got := <-good.allow.latest; !slices.Equal(got, want) {
		t.Errorf("an action hears of %v, want %v", got, want)
	}
	if reason, _ := d.guard.Protected(pfx("192.0.2.2/32")); reason != "allowed: a.example" {
		t.Errorf("the guard says %q", reason)
	}
	if _, yes := d.guard.Protected(pfx("192.0.2.1/32")); yes {
		t.Error("the guard still knows an address that the name has no more")
	}
}

// An action that can't be told is said; one that hangs keeps nobody waiting.
func TestActionsAreToldApart(t *testing.T) {
	j := &journal{}
	d := newDaemon(Options{Config: parse(t, web), Log: j.logger()})
	var stop context.CancelFunc
	d.serving, stop = context.WithCancel(t.Context())
	failing, hanging := &fakeAllower{err: errors.New("no table")}, &hangingAllower{make(chan struct{})}
	var parts []*part
	for name, a := range map[string]allower{"failing": failing, "hanging": hanging} {
		e := &enforcer{name: name, allow: newSwap[[]netip.Prefix]()}
		d.action = append(d.action, e)
		parts = append(parts, startPart(d.serving, func(ctx context.Context) { d.tellAction(ctx, e, a) }))
	}
	for range 3 {
		d.setAllowed(func(l *allowList) { l.config = []netip.Prefix{pfx("192.0.2.1/32")} })
	}
	wait(t, "the failure to be said", func() bool {
		return len(j.said("who is allowed reaches this action with its next reconciliation", "action", "failing", "err", "no table")) > 0
	})
	if by, yes := d.allow.allowed(netip.MustParseAddr("192.0.2.1")); !yes {
		t.Errorf("the list says %q", by)
	}
	close(hanging.release)
	stop()
	<-allOf(parts)
}

// hangingAllower hangs until it is released.
type hangingAllower struct{ release chan struct{} }

func (h *hangingAllower) SetAllow(context.Context, []netip.Prefix) error {
	<-h.release
	return nil
}

// The whole daemon: a name is looked up, its address is spared, and still is
// after a restart without any DNS.
func TestAllowedNameSurvivesRestartWithoutDNS(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	text := `allow = ["office.example.net"]` + "\n" + s.config(logOnly)
	var asked atomic.Int32
	runWith := func(lookup resolve.Lookup) *running {
		return s.start(text, func(ctx context.Context, o Options) error {
			o.Lookup = lookup
			return Run(ctx, o)
		})
	}
	r := runWith(func(_ context.Context, name string) ([]netip.Addr, error) {
		if name != "office.example.net" {
			t.Errorf("%s is looked up", name)
		}
		asked.Add(1)
		return []netip.Addr{netip.MustParseAddr("198.51.100.1")}, nil
	})
	wait(t, "the file", func() bool {
		found, err := filepath.Glob(filepath.Join(s.state, hostsFile))
		return err == nil && found != nil && len(r.journal.said("reading log")) > 0
	})
	r.stop()
	if asked.Load() == 0 {
		t.Fatal("nobody was asked")
	}

	r = runWith(func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no DNS") })
	wait(t, "the log to be read", func() bool { return len(r.journal.said("reading log")) > 0 })
	s.requests("198.51.100.1", 5)
	s.requests("198.51.100.2", 5)
	r.waitBanned("198.51.100.2")
	wait(t, "the failure to be said", func() bool {
		return len(r.journal.said("host name can't be looked up: its last good addresses stay", "addresses", 1)) == 1
	})
	r.stop()
	r.journal.want(t, 0, "banned", "client", "198.51.100.1")
	r.journal.want(t, 0, "not banned: protected") // he is not even counted
}

// From the first line on, guard and actions know the addresses of an earlier
// run.
func TestStoredAddressesAreGuardedFromTheStart(t *testing.T) {
	j := &journal{}
	d := newDaemon(Options{Config: parse(t, `allow = ["a.example"]`+"\n"+web), Log: j.logger()})
	d.Config.StateDir = t.TempDir()
	stored := `[{"name": "a.example", "addresses": ["198.51.100.1"]}]`
	check(t, os.WriteFile(filepath.Join(d.Config.StateDir, hostsFile), []byte(stored), 0o600))
	d.loadHosts()
	d.loaded = &state.Loaded{}
	check(t, d.makeActions(t.Context()))
	t.Cleanup(d.close)
	if reason, _ := d.guard.Protected(pfx("198.51.100.1/32")); reason != "allowed: a.example" {
		t.Errorf("the guard says %q", reason)
	}
	if got := d.allow.all(); !slices.Contains(got, pfx("198.51.100.1/32")) {
		t.Errorf("allowed: %v", got)
	}
}

// A file that can't be read is said, and no reason not to start.
func TestDamagedHostsFile(t *testing.T) {
	j := &journal{}
	d := newDaemon(Options{Config: parse(t, `allow = ["a.example"]`+"\n"+web), Log: j.logger()})
	d.Config.StateDir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(d.Config.StateDir, hostsFile), []byte("{"), 0o600))
	d.loadHosts()
	j.want(t, 1, "allowed host names are unknown until they are looked up")
	if known := d.hosts.Known(); known != nil {
		t.Errorf("known: %v", known)
	}
}

// The address of a name that is known only while lines are coming in.
func TestNameIsTakenUpWhileRunning(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	answer := make(chan []netip.Addr)
	r := s.start(`allow = ["office.example.net"]`+"\n"+s.config(logOnly), func(ctx context.Context, o Options) error {
		o.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			select {
			case a := <-answer:
				return a, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return Run(ctx, o)
	})
	wait(t, "the log to be read", func() bool { return len(r.journal.said("reading log")) > 0 })
	s.requests("198.51.100.1", 5)
	r.waitBanned("198.51.100.1")
	r.waitEnforced("198.51.100.1")
	select {
	case answer <- []netip.Addr{netip.MustParseAddr("198.51.100.1")}:
	case <-time.After(patience):
		t.Fatal("nobody asks for the name")
	}
	wait(t, "the ban to be lifted", func() bool {
		return len(r.journal.said("ban lifted: its target is protected now", "target", "198.51.100.1/32")) == 1
	})
	r.stop()
	if bans := s.stored().Bans; len(bans) != 0 {
		t.Errorf("stored: %+v, want no ban", bans)
	}
	if strings.Contains(r.journal.String(), "ERROR") {
		t.Errorf("errors were said:\n%s", r.journal)
	}
}

func TestSwapKeepsTheLatest(t *testing.T) {
	s := newSwap[int]()
	for i := range 3 {
		s.put(i)
	}
	if got := <-s.latest; got != 2 {
		t.Errorf("got %d, want the latest", got)
	}
	s.put(3)
	if got := <-s.latest; got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}
