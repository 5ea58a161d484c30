package metrics

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/syncbuf"
)

// scraper is one of a daemon that does as status says, and of what is logged.
func scraper(status func(context.Context) (*control.Status, error)) (*Scraper, *syncbuf.Buffer) {
	log := &syncbuf.Buffer{}
	return NewScraper(Options{
		Version: "1.4.0", Started: at(0), Log: slog.New(slog.NewTextHandler(log, nil)),
		Status: status, Sockets: func() control.Counters { return control.Counters{} },
	}), log
}

func answered(t *testing.T, text []byte) bool {
	t.Helper()
	yes, no := bytes.Contains(text, []byte("\ntailban_engine_answered 1\n")), bytes.Contains(text, []byte("\ntailban_engine_answered 0\n"))
	if yes == no {
		t.Fatalf("no figure of that in:\n%s", text)
	}
	return yes
}

// Many who scrape at a time have the daemon asked once, and so have those who come
// right after; a second later it is asked anew.
func TestScrapesAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := atomic.Int64{}
		s, _ := scraper(func(context.Context) (*control.Status, error) {
			asked.Add(1)
			<-time.After(100 * time.Millisecond)
			return &control.Status{}, nil
		})
		for round := range 3 {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					text, err := s.Text(t.Context())
					if err != nil || !answered(t, text) {
						t.Errorf("%v", err)
					}
				})
			}
			all.Wait()
			<-time.After(500 * time.Millisecond)
			_, err := s.Text(t.Context())
			check(t, err)
			if n := asked.Load(); n != int64(round+1) {
				t.Errorf("asked %d times in round %d", n, round)
			}
			<-time.After(time.Second)
		}
	})
}

// A daemon that hangs holds a scrape up for so long, and is not asked again until it
// has come back. Who waits for their turn meanwhile gets it, too.
func TestHangingDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, release := atomic.Int64{}, make(chan struct{})
		s, _ := scraper(func(context.Context) (*control.Status, error) { // not even its context ends it
			asked.Add(1)
			<-release
			return &control.Status{}, nil
		})
		for i := range 20 {
			begun := time.Now()
			text, err := s.Text(t.Context())
			check(t, err)
			if answered(t, text) {
				t.Fatal("it has answered")
			}
			if took := time.Since(begun); took > answerPatience || i > 0 && took != 0 {
				t.Errorf("scrape %d took %v", i, took)
			}
			<-time.After(fresh)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		text, _ := s.Text(t.Context())
		if want := "\ntailban_engine_wait_seconds 24\n"; !strings.Contains(string(text), want) { // of the first, and a second for each
			t.Errorf("no %q in:\n%s", want, text)
		}
		close(release)
		<-time.After(fresh)
		synctest.Wait()
		if text, err := s.Text(t.Context()); err != nil || !answered(t, text) {
			t.Errorf("it has not come back: %v", err)
		}
	})
}

// Who waits for their turn doesn't do so forever, and may go away.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := scraper(nil)
		s.turn <- struct{}{} // somebody has it
		if _, err := s.Text(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Text(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// That one who scrapes goes away takes nothing from others, and what goes wrong with
// one answer is no end of the daemon.
func TestOneScrapeFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var do func() (*control.Status, error)
		s, log := scraper(func(ctx context.Context) (*control.Status, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return do()
		})
		do = func() (*control.Status, error) { panic("of a test") }
		text, err := s.Text(t.Context())
		if err != nil || answered(t, text) || !strings.Contains(log.String(), "of a test") {
			t.Errorf("%v, log %q", err, log)
		}
		<-time.After(fresh)
		ctx, cancel := context.WithCancel(t.Context())
		do = func() (*control.Status, error) { cancel(); return &control.Status{}, nil }
		text, err = s.Text(ctx)
		if err != nil || !answered(t, text) {
			t.Errorf("%v", err)
		}
		<-time.After(fresh)
		do = func() (*control.Status, error) { return nil, errors.New("busy") }
		if text, err = s.Text(t.Context()); err != nil || answered(t, text) {
			t.Errorf("%v", err)
		}
	})
}
