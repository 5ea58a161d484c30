//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
)

// heard is a fake that hears of what others do, when the test says so.
type heard struct {
	*fake
	changes chan actions.Change
	fails   chan error
}

func (h *heard) Watch(ctx context.Context, ready func(), changed func(actions.Change)) error {
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-h.fails:
			return err
		case c := <-h.changes:
			changed(c)
		}
	}
}

// watching runs f with a reconciler that runs and watches.
func watching(t *testing.T, f func(b *bench, h *heard)) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{fake: &fake{}, changes: make(chan actions.Change), fails: make(chan error)}
		log, states := new(bytes.Buffer), new([]actions.State)
		r := actions.NewReconciler(actions.Options{
			Name: "test", Action: h, Log: slog.New(slog.NewTextHandler(log, nil)),
			OnState: func(s actions.State) { *states = append(*states, s) },
		})
		b := &bench{T: t, Reconciler: r, fake: h.fake, log: log, states: states}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Watch(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error("Watch: ", err)
			}
		})
		synctest.Wait()
		b.start()
		h.took()
		f(b, h)
	})
}

// Single bans are repaired by themselves; anything else takes a full pass.
func TestNoticedIsRepaired(t *testing.T) {
	watching(t, func(b *bench, h *heard) {
		b.in("10.0.0.1/32", time.Hour)
		b.in("10.0.0.2/32", time.Hour)
		synctest.Wait()
		h.took()

		h.edit("10.0.0.1/32", -1)
		h.changes <- actions.Change{Gone: []netip.Prefix{pfx("10.0.0.1/32")}}
		synctest.Wait()
		b.calls("apply")
		if h.left("10.0.0.1/32") != time.Hour {
			b.Error("what was taken out is not back")
		}

		h.edit("10.0.0.2/32", time.Minute)
		h.edit("10.0.0.3/32", time.Hour)
		h.changes <- actions.Change{Came: []netip.Prefix{pfx("10.0.0.2/32"), pfx("10.0.0.3/32")}}
		synctest.Wait()
		b.calls("apply")
		if h.left("10.0.0.2/32") != time.Hour || h.left("10.0.0.3/32") >= 0 {
			b.Error("what was put in is not repaired")
		}

		h.edit("10.0.0.1/32", -1)
		h.changes <- actions.Change{All: true}
		synctest.Wait()
		b.calls("prepare list apply list")
		if s := b.Stats(); s.DriftAdded != 2 || s.DriftCorrected != 1 || s.DriftRemoved != 1 || s.Noticed != 4 {
			b.Errorf("stats are %+v", s)
		}
		b.said("the action held other bans than it should", 3)
	})
}

// Somebody who changes things again and again is answered more and more rarely,
// and at once again after a quiet time. New bans don't wait for that.
func TestContested(t *testing.T) {
	watching(t, func(b *bench, h *heard) {
		b.in("10.0.0.1/32", 24*time.Hour)
		synctest.Wait()
		remove := func() {
			h.edit("10.0.0.1/32", -1)
			h.changes <- actions.Change{Gone: []netip.Prefix{pfx("10.0.0.1/32")}}
			synctest.Wait()
		}
		atOnce := 0
		for range 50 {
			remove()
			if h.left("10.0.0.1/32") < 0 {
				break
			}
			atOnce++
			b.after(time.Second)
		}
		if atOnce < 10 || atOnce > 12 {
			b.Errorf("%d repairs were made at once, want about 10", atOnce)
		}
		if s := b.Stats(); !s.Contested {
			b.Error("not contested")
		}
		b.said("again and again", 1)
		h.took()
		b.in("10.0.0.2/32", time.Hour)
		synctest.Wait()
		if h.left("10.0.0.2/32") != time.Hour {
			b.Error("a new ban waits")
		}
		b.after(2 * time.Second)
		if h.left("10.0.0.1/32") < 0 {
			b.Error("the repair did not come after its delay")
		}
		repairs := 0
		for range 600 {
			remove()
			if h.left("10.0.0.1/32") >= 0 {
				repairs++
			}
			b.after(time.Second)
		}
		if applies := b.Stats().DriftAdded; applies > 60 {
			b.Errorf("%d repairs in ten minutes of a fight", applies)
		}
		// What is left is repaired, and peace returns.
		b.after(10 * time.Minute)
		if h.left("10.0.0.1/32") < 0 || b.Stats().Contested {
			b.Error("the fight is not over")
		}
		b.said("nobody else has changed", 1)
		remove()
		if h.left("10.0.0.1/32") < 0 {
			b.Error("not repaired at once after peace")
		}
		var told []bool
		for _, s := range *b.states {
			told = append(told, s.Contested)
		}
		if len(told) != 2 || !told[0] || told[1] {
			b.Errorf("states told: %v", told)
		}
	})
}

// A failure that somebody else has caused is not waited out.
func TestNoticedCutsThePause(t *testing.T) {
	watching(t, func(b *bench, h *heard) {
		fails := 1
		h.interfere(script{onApply: func(context.Context, []actions.Entry, []netip.Prefix) error {
			if fails--; fails < 0 {
				return nil
			}
			return errors.New("no such table")
		}})
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait()
		h.changes <- actions.Change{All: true}
		synctest.Wait()
		if h.left("10.0.0.1/32") != time.Hour {
			b.Error("the pause after an error was waited for")
		}
	})
}

// When listening fails, it is begun again, and what was missed is looked for.
func TestWatchBeginsAgain(t *testing.T) {
	watching(t, func(b *bench, h *heard) {
		h.fails <- errors.New("no buffer")
		synctest.Wait()
		if b.Stats().Watched {
			b.Error("watched after a failure")
		}
		b.said("can't hear", 1)
		b.after(time.Second)
		if !b.Stats().Watched {
			b.Error("not watched again")
		}
		b.calls("prepare list")
		if s := b.Stats(); s.Noticed != 0 {
			b.Errorf("%d changes noticed, want 0", s.Noticed)
		}
	})
}

// Listening that fails again and again is not somebody else's fight, and does
// not make one's repairs wait. A change that comes along with it counts.
func TestListeningAgainIsNoFight(t *testing.T) {
	watching(t, func(b *bench, h *heard) {
		b.in("10.0.0.1/32", time.Hour)
		synctest.Wait()
		for range 30 {
			h.fails <- errors.New("no buffer")
			b.after(time.Second)
		}
		if !b.Stats().Watched {
			b.Fatal("not watched")
		}
		if s := b.Stats(); s.Contested || s.Noticed != 0 {
			b.Errorf("contested is %t, %d changes noticed: want neither", s.Contested, s.Noticed)
		}
		b.said("again and again", 0)
		remove := func() {
			h.edit("10.0.0.1/32", -1)
			h.changes <- actions.Change{Gone: []netip.Prefix{pfx("10.0.0.1/32")}}
			synctest.Wait()
		}
		remove()
		if h.left("10.0.0.1/32") < 0 {
			b.Error("the repair waits")
		}
		for range 12 {
			h.fails <- errors.New("no buffer")
			b.after(time.Second)
			remove()
		}
		if !b.Stats().Contested {
			b.Error("not contested, by changes between failures of listening")
		}
	})
}
