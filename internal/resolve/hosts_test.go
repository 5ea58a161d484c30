package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/sleep"
	"github.com/tailban/tailban/internal/syncbuf"
)

var errNoDNS = errors.New("no DNS")

// fakeDNS answers look-ups.
type fakeDNS struct {
	mu    sync.Mutex
	zone  map[string][]string      // a name that is not there can't be looked up
	slow  map[string]time.Duration // how long an answer takes
	asked map[string][]time.Time
	begun time.Time
}

func newDNS() *fakeDNS {
	return &fakeDNS{zone: map[string][]string{}, slow: map[string]time.Duration{}, asked: map[string][]time.Time{}, begun: time.Now()}
}

func (d *fakeDNS) set(name string, addresses ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone[name] = addresses
}

func (d *fakeDNS) fail(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.zone, name)
}

// times returns when a name was asked for, in whole seconds since the begin.
func (d *fakeDNS) times(name string) (out []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.asked[name] {
		out = append(out, int(t.Sub(d.begun)/time.Second))
	}
	return out
}

func (d *fakeDNS) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	d.mu.Lock()
	texts, ok := d.zone[name]
	slow := d.slow[name]
	d.asked[name] = append(d.asked[name], time.Now())
	d.mu.Unlock()
	if !sleep.For(ctx, slow) {
		return nil, ctx.Err()
	}
	if !ok {
		return nil, errNoDNS
	}
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

// journal is our own log, to be read while it is written.
type journal struct{ syncbuf.Buffer }

// rig is Hosts that run in a bubble.
type rig struct {
	*testing.T
	*Hosts
	dns     *fakeDNS
	log     *journal
	mu      sync.Mutex
	changes []string
	cancel  context.CancelFunc
	done    chan error
}

func options(t *testing.T, dns *fakeDNS, log *journal, names ...string) Options {
	return Options{
		Names: names, Lookup: dns.lookup, File: filepath.Join(t.TempDir(), "hosts.json"),
		Log: slog.New(slog.NewTextHandler(log, nil)), Changed: func([]Host) {},
	}
}

// start runs Hosts, and waits until they wait.
func start(t *testing.T, dns *fakeDNS, o Options, log *journal) *rig {
	t.Helper()
	r := &rig{T: t, dns: dns, log: log, done: make(chan error, 1)}
	o.Changed = func(hosts []Host) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = append(r.changes, text(hosts))
	}
	r.Hosts = New(o)
	if err := r.Load(); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	go func() { r.done <- r.Hosts.Run(ctx) }()
	synctest.Wait()
	return r
}

func (r *rig) stop() {
	r.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.Errorf("Run returned %v, want nil as it was cancelled", err)
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// want compares the changes so far, and forgets them.
func (r *rig) want(why string, changes ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.changes) != fmt.Sprint(changes) {
		r.Errorf("%s: changes %q, want %q", why, r.changes, changes)
	}
	r.changes = nil
}

// said counts what the log says of something.
func (r *rig) said(n int, what string) {
	r.Helper()
	if got := strings.Count(r.log.String(), what); got != n {
		r.Errorf("%q was said %d times, want %d:\n%s", what, got, n, r.log)
	}
}

func text(hosts []Host) string {
	var b strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&b, "%s=%v", h.Name, h.Addresses)
	}
	return b.String()
}

// longest and shortest pause between two rounds.
const (
	longest  = Interval + Interval/10
	shortest = Interval - Interval/10
)

func TestGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("b.example", "2001:db8::1", "::ffff:192.0.2.9", "192.0.2.3", "192.0.2.9", "10.0.0.1", "127.0.0.1", "fe80::1%eth0")
		dns.set("a.example", "192.0.2.1")
		r := start(t, dns, options(t, dns, log, "b.example", "a.example"), log)
		r.want("at the start", "b.example=[10.0.0.1 127.0.0.1 192.0.2.3 192.0.2.9 2001:db8::1]a.example=[192.0.2.1]")
		pass(longest)
		r.want("with the same answers")
		dns.set("a.example", "192.0.2.2", "192.0.2.1")
		pass(longest)
		r.want("with another answer", "b.example=[10.0.0.1 127.0.0.1 192.0.2.3 192.0.2.9 2001:db8::1]a.example=[192.0.2.1 192.0.2.2]")
		pass(24 * time.Hour)
		r.want("for a day")
		r.stop()
		if log.String() != "" {
			t.Errorf("said without need: %s", log)
		}
		last := -1
		for _, at := range dns.times("a.example") {
			if gap := time.Duration(at-last) * time.Second; last >= 0 && (gap < shortest-time.Second || gap > longest+time.Second) {
				t.Errorf("asked at %d s and then at %d s", last, at)
			}
			last = at
		}
		if n := len(dns.times("a.example")); n < 200 {
			t.Errorf("asked %d times in a day", n)
		}
	})
}

func TestFailingKeepsTheLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1")
		r := start(t, dns, options(t, dns, log, "a.example"), log)
		r.want("at the start", "a.example=[192.0.2.1]")
		for _, how := range []string{"an error", "an empty answer"} {
			if dns.fail("a.example"); how == "an empty answer" {
				dns.set("a.example")
			}
			pass(48 * time.Hour)
			r.want("after two days of " + how)
		}
		r.said(1, "can't be looked up")
		r.said(1, "addresses=1 err=\"no DNS\"")
		r.said(0, "again")
		dns.set("a.example", "192.0.2.2")
		pass(longest)
		r.want("when it is over", "a.example=[192.0.2.2]")
		r.said(1, "host name can be looked up again")
		r.stop()
	})
}

func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1")
		r := start(t, dns, options(t, dns, log, "a.example"), log)
		r.want("at the start", "a.example=[192.0.2.1]")
		for range 3 {
			dns.fail("a.example")
			pass(longest)
			dns.set("a.example", "192.0.2.1")
			pass(longest)
		}
		r.want("as the address stays the same")
		r.said(3, "can't be looked up")
		r.said(3, "can be looked up again")
		r.stop()
	})
}

// A name of which nothing is known is asked for soon again, and less and less
// often.
func TestUnknownIsRetriedSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		r := start(t, dns, options(t, dns, log, "a.example"), log)
		pass(10 * time.Minute)
		if got, want := fmt.Sprint(dns.times("a.example")[:6]), "[0 10 30 70 150 310]"; got != want {
			t.Errorf("asked at %s, want %s", got, want)
		}
		r.want("while nothing is known")
		r.said(1, "can't be looked up")
		dns.set("a.example", "192.0.2.1")
		pass(longest)
		r.want("when it is known", "a.example=[192.0.2.1]")
		r.stop()
	})
}

func TestTooManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []string
		for i := range MaxAddresses + 6 {
			many = append(many, fmt.Sprintf("192.0.2.%d", 200-i))
		}
		dns, log := newDNS(), &journal{}
		dns.set("a.example", many...)
		r := start(t, dns, options(t, dns, log, "a.example"), log)
		known := r.Known() // Run is waiting
		if n := len(known[0].Addresses); n != MaxAddresses || known[0].Addresses[0].String() != "192.0.2.131" {
			t.Errorf("%d addresses, the first is %v; want the first %d in order", n, known[0].Addresses[0], MaxAddresses)
		}
		pass(24 * time.Hour)
		r.said(1, "addresses=70 used=64")
		dns.set("a.example", many[6:]...)
		pass(longest)
		dns.set("a.example", many...)
		pass(longest)
		r.said(2, "addresses=70 used=64") // it had been over
		r.stop()
	})
}

// A name that takes too long is given up, and holds up no other for longer.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		var names []string
		for i := range 31 {
			names = append(names, fmt.Sprintf("slow%d.example", i))
			dns.set(names[i], "192.0.2.7")
			dns.slow[names[i]] = time.Hour
		}
		dns.set("a.example", "192.0.2.1")
		dns.slow["a.example"] = Timeout - time.Second
		r := start(t, dns, options(t, dns, log, append(names, "a.example")...), log)
		r.want("at once")
		pass(Timeout)
		r.want("after the timeout", "a.example=[192.0.2.1]")
		r.said(31, "context deadline exceeded")
		r.stop()
	})
}

func TestStopDuringALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1")
		dns.slow["a.example"] = time.Second
		r := start(t, dns, options(t, dns, log, "a.example"), log)
		before := time.Now()
		r.stop()
		if took := time.Since(before); took != 0 {
			t.Errorf("stopping took %v", took)
		}
		r.want("nothing was found")
		r.said(0, "can't be looked up")
	})
}

func TestNoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		r := start(t, dns, options(t, dns, log), log)
		pass(time.Hour)
		r.stop()
		r.want("there is nothing to change")
	})
}
