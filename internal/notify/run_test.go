package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/syncbuf"
)

// endpoint takes the place of one: it answers as it is told, and notes when it
// was asked.
type endpoint struct {
	mu      sync.Mutex
	answers []answer // what it says first; then it takes all
	got     []delivery
	took    time.Duration // an answer
}

type delivery struct {
	at time.Time
	message
	answer
}

func (e *endpoint) post(ctx context.Context, m message) answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.took > 0 {
		select {
		case <-time.After(e.took):
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		}
	}
	var a answer
	if len(e.answers) > 0 {
		a, e.answers = e.answers[0], e.answers[1:]
	}
	e.got = append(e.got, delivery{time.Now(), m, a})
	return a
}

func (e *endpoint) taken() (all []delivery) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.got {
		if d.err == nil {
			all = append(all, d)
		}
	}
	return all
}

func (e *endpoint) tries() []delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// started is a notifier that runs, in a bubble; stop ends it.
func started(t *testing.T, o Options, e *endpoint) (n *Notifier, stop func()) {
	t.Helper()
	o.Name, o.Host, o.Format = "ops", "web1", FormatJSON
	o.URL = Secret{Text: "http://127.0.0.1:1/"}
	if o.Kinds == nil {
		o.Kinds = Kinds()
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.PerHour == 0 {
		o.PerHour = MaxPerHour
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	n.post = e.post
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, slog.New(slog.NewTextHandler(io.Discard, nil)))
	}()
	return n, func() { cancel(); <-done }
}

func ban(i int) Event {
	return Event{Time: time.Now(), Kind: Ban, Jail: "web", Target: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
}

func broken(texts ...string) (all []answer) {
	for _, s := range texts {
		all = append(all, answer{err: errors.New(s)})
	}
	return all
}

func TestEventsAreToldTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{}, e)
		begin := time.Now()
		n.Publish(ban(1))
		n.Publish(ban(2))
		time.Sleep(settle + 1)
		synctest.Wait()
		n.Publish(ban(3)) // too soon for a message of its own
		time.Sleep(10 * time.Second)
		n.Publish(Event{Time: time.Now(), Kind: Alarm, Reason: "blind"})
		if got := n.Stats().Waiting; got != 2 {
			t.Errorf("%d events wait, want 2", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		got := e.taken()
		if len(got) != 2 {
			t.Fatalf("%d messages, want 2", len(got))
		}
		if at := got[0].at.Sub(begin); at != settle || got[0].digest.total() != 2 {
			t.Errorf("the first came after %v with %d events", at, got[0].digest.total())
		}
		if at := got[1].at.Sub(got[0].at); at != DefaultInterval || got[1].digest.counts[Ban] != 1 || got[1].digest.counts[Alarm] != 1 {
			t.Errorf("the second came %v later with %v", at, got[1].digest.counts)
		}
		if s := n.Stats(); s.Sent != 2 || s.Waiting != 0 || s.Failing || !s.Last.Equal(got[1].at) {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestOnlyWhatWasAskedForIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{Kinds: []Kind{Alarm}}, e)
		n.Publish(ban(1))
		time.Sleep(time.Hour)
		if got := e.tries(); len(got) != 0 {
			t.Errorf("posted: %+v", got)
		}
		stop()
		if got := e.tries(); len(got) != 0 {
			t.Errorf("posted at the end: %+v", got)
		}
	})
}

// However many bans there are, a message and what waits stay small, nothing is
// lost from the counts, and an alarm in the midst of them is there.
func TestStormStaysSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{}, e)
		for i := range 100_000 {
			n.Publish(ban(i))
		}
		n.Publish(Event{Time: time.Now(), Kind: Alarm, Reason: "a storm"})
		n.mu.Lock()
		if kept := len(n.next.listed); kept > maxUrgent+maxOther {
			t.Errorf("%d events are kept", kept)
		}
		n.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		got := e.taken()
		if len(got) != 1 {
			t.Fatalf("%d messages", len(got))
		}
		d := got[0].digest
		if d.counts[Ban] != 100_000 || d.counts[Alarm] != 1 || !slices.ContainsFunc(d.listed, func(e Event) bool { return e.Kind == Alarm }) {
			t.Errorf("counts %v, %d listed", d.counts, len(d.listed))
		}
	})
}

// A try that fails may have arrived: it is the same message that is tried again,
// later and later, and what happens meanwhile is in the next.
func TestFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: broken("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")}
		n, stop := started(t, Options{}, e)
		n.Publish(ban(1))
		time.Sleep(settle + 1)
		synctest.Wait()
		n.Publish(ban(2))
		if s := n.Stats(); !s.Failing || s.Err == nil || s.Err.Error() != "a" || s.Waiting != 2 || s.Since.IsZero() {
			t.Errorf("stats: %+v", s)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		stop()
		tries := e.tries()
		if len(tries) != 12 {
			t.Fatalf("%d tries", len(tries))
		}
		var waits []time.Duration
		for i := 1; i < 11; i++ {
			if tries[i].id != tries[0].id || string(tries[i].body) != string(tries[0].body) {
				t.Errorf("try %d is another message", i)
			}
			waits = append(waits, tries[i].at.Sub(tries[i-1].at))
		}
		s := time.Second
		if want := []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 640 * s, 900 * s, 900 * s}; !slices.Equal(waits, want) {
			t.Errorf("waits: %v, want %v", waits, want)
		}
		if last := tries[11]; last.id == tries[0].id || last.digest.counts[Ban] != 1 || last.digest.listed[0].Target != ban(2).Target {
			t.Errorf("the last: %+v", last.digest)
		}
		if st := n.Stats(); st.Failing || st.Sent != 2 || st.Err != nil || st.Waiting != 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestEndpointMayAskForTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: []answer{{err: errors.New("busy"), retryAfter: 10 * time.Minute}}}
		n, stop := started(t, Options{}, e)
		n.Publish(ban(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		if got := e.tries(); len(got) != 2 || got[1].at.Sub(got[0].at) != 10*time.Minute {
			t.Errorf("%d tries, %v", len(got), got)
		}
	})
}

// What the endpoint will never take doesn't hold up what comes after it.
func TestRefusedMessageIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: []answer{{err: errors.New("400"), refused: true}}}
		n, stop := started(t, Options{}, e)
		n.Publish(ban(1))
		n.Publish(ban(2))
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := n.Stats(); !s.Failing || s.Lost != 2 || s.Waiting != 0 {
			t.Errorf("stats: %+v", s)
		}
		n.Publish(ban(3))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if got := e.taken(); len(got) != 1 || got[0].digest.listed[0].Target != ban(3).Target {
			t.Errorf("taken: %+v", got)
		}
		if s := n.Stats(); s.Failing || s.Lost != 2 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// In no hour are there more tries than per_hour, whether they succeed or not, and
// each event is told in the end.
func TestRateIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: broken("a", "b", "c")}
		n, stop := started(t, Options{Interval: time.Second, PerHour: 12}, e)
		const events = 2000
		for i := range events {
			n.Publish(ban(i))
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		tries, most := e.tries(), 0
		for i := range tries {
			in := 0
			for _, other := range tries[i:] {
				if other.at.Sub(tries[i].at) < time.Hour {
					in++
				}
			}
			if in > 12 {
				t.Fatalf("%d tries in an hour", in)
			}
			most = max(most, in)
		}
		told := 0
		for _, d := range e.taken() {
			told += d.digest.total()
		}
		if told != events || most != 12 {
			t.Errorf("%d events told of %d, %d tries in an hour at most", told, events, most)
		}
	})
}

// A message that is never taken, for whatever is in it, doesn't hold up for ever
// what comes after it, nor is it forgotten that there was something.
func TestMessageThatIsNeverTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{}, e)
		taken := n.post
		n.post = func(ctx context.Context, m message) answer {
			for _, ev := range m.digest.listed {
				if ev.Reason == "poison" {
					return answer{err: errors.New("403")}
				}
			}
			return taken(ctx, m)
		}
		ev := ban(1)
		ev.Reason = "poison"
		n.Publish(ev)
		time.Sleep(30 * time.Minute)
		n.Publish(Event{Time: time.Now(), Kind: Alarm, Reason: "blind"})
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		got := e.taken()
		if len(got) != 1 || got[0].digest.counts[Ban] != 1 || got[0].digest.counts[Alarm] != 1 {
			t.Fatalf("taken: %+v", got)
		}
		n.Publish(ban(2))
		time.Sleep(time.Minute)
		stop()
		if got := e.taken(); len(got) != 2 || got[1].digest.listed[0].Target != ban(2).Target {
			t.Errorf("taken then: %+v", got)
		}
	})
}

// Whoever was away for long gets one message with all, and its alarms.
func TestLongOutageEndsWithOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{}, e)
		back := time.Now().Add(5 * time.Hour)
		taken := n.post
		n.post = func(ctx context.Context, m message) answer {
			if time.Now().Before(back) {
				return answer{err: errors.New("503")}
			}
			return taken(ctx, m)
		}
		for i := range 100 {
			n.Publish(ban(i))
			time.Sleep(2 * time.Minute)
		}
		n.Publish(Event{Time: time.Now(), Kind: Alarm, Reason: "blind"})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		stop()
		told, alarms := 0, 0
		for _, d := range e.taken() {
			told += d.digest.total()
			for _, ev := range d.digest.listed {
				if ev.Kind == Alarm {
					alarms++
				}
			}
		}
		if got := e.taken(); len(got) > 2 || told != 101 || alarms != 1 {
			t.Errorf("%d messages with %d events, %d alarms", len(got), told, alarms)
		}
	})
}

// A successor tells what another one could not, of what it is asked for, and is
// bound by the pace so far.
func TestInherit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &endpoint{answers: broken("a", "b", "c", "d", "e", "f", "g", "h")}
		old, stop := started(t, Options{PerHour: 3}, bad)
		old.Publish(ban(1))
		old.Publish(Event{Time: time.Now(), Kind: Hold, Jail: "web"})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		stop()
		if s := old.Stats(); len(bad.tries()) != 3 || s.Waiting != 2 {
			t.Fatalf("%d tries, %+v", len(bad.tries()), s)
		}
		good := &endpoint{}
		n, stop := started(t, Options{PerHour: 3, Kinds: []Kind{Ban}}, good)
		begin := time.Now()
		n.Publish(ban(2))
		n.Inherit(old)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		stop()
		got := good.taken()
		if len(got) != 1 || got[0].digest.total() != 2 || got[0].digest.listed[0].Target != ban(1).Target {
			t.Fatalf("taken: %+v", got)
		}
		if at := got[0].at.Sub(begin); at < 50*time.Minute {
			t.Errorf("taken after %v, in spite of three tries before", at)
		}
		if old.Stats().Waiting != 0 {
			t.Error("the old one still has something to tell")
		}
	})
}

// An endpoint that comes and goes doesn't fill our log.
func TestFailuresAreSaidOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		for range 500 {
			e.answers = append(e.answers, answer{err: errors.New("gone")}, answer{})
		}
		var log syncbuf.Buffer
		n, err := New(Options{URL: Secret{Text: "http://127.0.0.1:1/"}, Format: FormatJSON, Kinds: Kinds(), Interval: time.Second, PerHour: MaxPerHour})
		if err != nil {
			t.Fatal(err)
		}
		n.post = e.post
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		for range 200 {
			n.Publish(ban(1))
			time.Sleep(30 * time.Second)
		}
		cancel()
		<-done
		if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 4 {
			t.Errorf("%d lines in 100 minutes:\n%s", lines, log.String())
		}
	})
}

func TestEndTellsTheRest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers []answer
		took    time.Duration
		do      func(n *Notifier)
		tries   int
		taken   int // events
		within  time.Duration
	}{
		{"nothing", nil, 0, func(*Notifier) {}, 0, 0, 0},
		{"before the message", nil, 0, func(n *Notifier) { n.Publish(ban(1)) }, 1, 1, 0},
		{"during the interval", nil, 0, func(n *Notifier) {
			n.Publish(ban(1))
			time.Sleep(5 * time.Second)
			n.Publish(ban(2))
			synctest.Wait()
		}, 2, 2, 0},
		{"while it fails", broken("gone"), 0, func(n *Notifier) {
			n.Publish(ban(1))
			time.Sleep(2 * time.Second)
			n.Publish(ban(2))
			synctest.Wait()
		}, 1, 0, 0},
		{"while it hangs", nil, time.Hour, func(n *Notifier) {
			n.Publish(ban(1))
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}, 0, 0, lastPost},
		{"held by the pace", nil, 0, func(n *Notifier) {
			for i := range 5 {
				n.Publish(ban(i))
				time.Sleep(time.Minute)
			}
			synctest.Wait()
		}, 4, 5, 0},
		{"after a message that was refused", []answer{{err: errors.New("400"), refused: true}}, 0, func(n *Notifier) {
			n.Publish(ban(1))
			time.Sleep(2 * time.Second)
			n.Publish(ban(2))
			synctest.Wait()
		}, 2, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{answers: test.answers, took: test.took}
				n, stop := started(t, Options{PerHour: 3}, e)
				test.do(n)
				begin := time.Now()
				stop()
				if took := time.Since(begin); took != test.within {
					t.Errorf("the end took %v, want %v", took, test.within)
				}
				told := 0
				for _, d := range e.taken() {
					told += d.digest.total()
				}
				if got := len(e.tries()); got != test.tries || told != test.taken {
					t.Errorf("%d tries with %d events taken, want %d and %d", got, told, test.tries, test.taken)
				}
			})
		})
	}
}

// Many publish at once while messages are made.
func TestPublishByMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		n, stop := started(t, Options{Interval: time.Second}, e)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 100 {
					n.Publish(ban(g*100 + i))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		stop()
		told := 0
		for _, d := range e.taken() {
			told += d.digest.total()
		}
		if told != 800 {
			t.Errorf("%d events told", told)
		}
	})
}

func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{PerHour: 1}, {Interval: time.Second}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "least") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func ExampleDefaultKinds() {
	fmt.Println(DefaultKinds())
	// Output: [ban unban allow hold resume alarm recover]
}
