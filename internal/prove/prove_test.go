package prove

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/sleep"
	"github.com/tailban/tailban/internal/syncbuf"
)

func options(t *testing.T, r Resolver, log *syncbuf.Buffer) Options {
	return Options{Resolver: r, File: filepath.Join(t.TempDir(), "proved.json"), Log: slog.New(slog.NewTextHandler(log, nil))}
}

// running runs a Prover, and returns what ends it.
func running(t *testing.T, p *Prover) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil as it was cancelled", err)
		}
	}
}

func question(client string) detector.Question {
	return detector.Question{Client: netip.MustParseAddr(client), Domains: []string{"googlebot.com"}, Rules: 7}
}

// meter counts what a resolver is asked.
type meter struct {
	mu       sync.Mutex
	now      int
	most     int
	begun    []time.Time
	overtime int // look-ups whose context had no end
}

func (m *meter) begin(ctx context.Context) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = append(m.begun, time.Now())
	m.now++
	m.most = max(m.most, m.now)
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > Timeout {
		m.overtime++
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now--
	}
}

// A flood of claimants, of whom some have a DNS that is slow, fails or says nothing:
// there are never more look-ups at a time or in a second than there may be, each
// gets its answer, and in time for a decision that waits if it is asked at all.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		resolver := fake{
			addr: func(ctx context.Context, addr string) ([]string, error) {
				defer m.begin(ctx)()
				a := netip.MustParseAddr(addr).As4()
				switch a[3] % 4 {
				case 0:
					<-ctx.Done()
					return nil, ctx.Err()
				case 1:
					sleep.For(ctx, 3*time.Second)
					return nil, errors.New("broken")
				case 2:
					return []string{"a.googlebot.com.", "b.googlebot.com.", "c.googlebot.com.", "d.googlebot.com.", "e.googlebot.com."}, nil
				}
				return nil, &net.DNSError{IsNotFound: true}
			},
			ip: func(ctx context.Context, _ string) ([]netip.Addr, error) {
				defer m.begin(ctx)()
				return nil, nil
			},
		}
		p := New(options(t, resolver, &syncbuf.Buffer{}))
		stop := running(t, p)
		const clients = 1000
		taken, answered := map[netip.Addr]time.Time{}, 0
		next := 0
		for answered < clients {
			var questions chan detector.Question
			var q detector.Question
			if next < clients {
				questions, q = p.Questions, question(fmt.Sprintf("10.0.%d.%d", next>>8, next&255))
			}
			select {
			case questions <- q:
				taken[q.Client] = time.Now()
				next++
			case a := <-p.Answers:
				answered++
				if a.Rules != 7 || a.Reason == "" || a.Until <= time.Now().UnixNano() {
					t.Fatalf("%+v", a)
				}
				if took := time.Since(taken[a.Client]); took >= detector.MaxPostponement {
					t.Errorf("%s waited for %v", a.Client, took)
				}
			}
		}
		stop()
		if m.most > AtOnce+Again || m.most < AtOnce/2 {
			t.Errorf("%d look-ups at once, %d may be", m.most, AtOnce+Again)
		}
		for i := range m.begun {
			if j := i + PerSecond; j < len(m.begun) && m.begun[j].Sub(m.begun[i]) < time.Second {
				t.Fatalf("%d look-ups within %v", PerSecond+1, m.begun[j].Sub(m.begun[i]))
			}
		}
		if m.overtime > 0 {
			t.Errorf("%d look-ups may take longer than %v", m.overtime, Timeout)
		}
		if st := p.Stats(); st.LookUps != uint64(len(m.begun)) || st.Disproved+st.Failed != clients || st.Failed < clients/2 {
			t.Errorf("%+v of %d", st, len(m.begun))
		}
	})
}

// However many others there are whose DNS never answers, before and behind it, a
// machine whose DNS does has its answer at once.
func TestSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := fake{
			addr: func(ctx context.Context, addr string) ([]string, error) {
				if addr != "192.0.2.1" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []string{"a.googlebot.com.", "b.googlebot.com."}, nil
			},
			ip: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
			},
		}
		p := New(options(t, resolver, &syncbuf.Buffer{}))
		stop := running(t, p)
		defer stop()
		const before = 300 // by then those come again that have failed
		begun := time.Time{}
		for n := 0; ; {
			q := question(fmt.Sprintf("10.0.%d.%d", n>>8, n&255))
			if n == before {
				q = question("192.0.2.1")
				if begun.IsZero() {
					begun = time.Now()
				}
			}
			select {
			case p.Questions <- q:
				n++
			case a := <-p.Answers:
				if a.Client != netip.MustParseAddr("192.0.2.1") {
					continue
				}
				if got, took := say(a), time.Since(begun); got != "proved a.googlebot.com b.googlebot.com" || took > time.Second {
					t.Errorf("%s after %v", got, took)
				}
				return
			}
		}
	})
}

// A look-up that fails is tried once more; how long an answer holds depends on
// what it is.
func TestAnswersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		resolver := fake{
			addr: func(_ context.Context, addr string) ([]string, error) {
				calls[addr]++
				switch {
				case addr == "192.0.2.1" || addr == "192.0.2.4" && calls[addr] > 1:
					return []string{"x.googlebot.com."}, nil
				case addr == "192.0.2.2":
					return nil, &net.DNSError{IsNotFound: true}
				}
				return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
			},
			ip: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.4")}, nil
			},
		}
		p := New(options(t, resolver, &syncbuf.Buffer{}))
		stop := running(t, p)
		for _, tt := range []struct {
			client, want string
			holds        time.Duration
			calls        int
		}{
			{"192.0.2.1", "proved x.googlebot.com", ProvedFor, 1},
			{"192.0.2.2", "disproved it has no name", DisprovedFor, 1},
			{"192.0.2.3", "unknown its name can't be looked up: server misbehaving", FailedFor, 2},
			{"192.0.2.4", "proved x.googlebot.com", ProvedFor, 2},
		} {
			p.Questions <- question(tt.client)
			a := <-p.Answers
			if got, holds := say(a), time.Duration(a.Until-time.Now().UnixNano()); got != tt.want || holds != tt.holds || calls[tt.client] != tt.calls {
				t.Errorf("%s: %s for %v after %d calls, want %s for %v after %d", tt.client, got, holds, calls[tt.client], tt.want, tt.holds, tt.calls)
			}
		}
		stop()
		if ProvedFor <= DisprovedFor || DisprovedFor <= FailedFor {
			t.Error("what is surer must hold longer")
		}
	})
}

// The end comes at once, whatever the DNS does.
func TestStopWhileNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &syncbuf.Buffer{}
		p := New(options(t, fake{addr: func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, log))
		stop := running(t, p)
		for i := range 2 * AtOnce {
			select {
			case p.Questions <- question(fmt.Sprintf("192.0.2.%d", i)):
			default:
			}
			synctest.Wait()
		}
		before := time.Now()
		stop()
		if took := time.Since(before); took != 0 || log.String() != "" {
			t.Errorf("it took %v, and said %q", took, log)
		}
	})
}

// A server that says nothing, one that fails, and one that changes its mind.
func TestServers(t *testing.T) {
	s := newServer(t)
	ptr := "PTR " + reversed("203.0.113.1")
	s.silence(ptr)
	p := New(Options{Resolver: s.resolver()})
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan detector.Answer)
	go func() { asked <- p.look(ctx, netip.MustParseAddr("203.0.113.1"), []string{"googlebot.com"}) }()
	s.ptr("203.0.113.2", "x.googlebot.com")
	s.host("x.googlebot.com", "203.0.113.2")
	two := func() string {
		return say(p.look(t.Context(), netip.MustParseAddr("203.0.113.2"), []string{"googlebot.com"}))
	}
	if got := two(); got != "proved x.googlebot.com" { // beside the one that hangs
		t.Errorf("good: %s", got)
	}
	s.fail("A x.googlebot.com.", dns.RcodeServerFailure)
	if got := two(); !strings.HasPrefix(got, "unknown") {
		t.Errorf("failing: %s", got)
	}
	s.fail("A x.googlebot.com.", 0)
	s.set("A x.googlebot.com.", "203.0.113.99")
	if got := two(); !strings.HasPrefix(got, "disproved") {
		t.Errorf("with another address: %s", got)
	}
	s.set("A x.googlebot.com.", "203.0.113.99", "203.0.113.2")
	if got := two(); got != "proved x.googlebot.com" {
		t.Errorf("good again: %s", got)
	}
	cancel()
	if a := <-asked; a.Result != detector.Unknown {
		t.Errorf("silent: %s", say(a))
	}
}
