package state

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Flush returns when all that was put before is durable, whatever was put
// since, and not before.
func TestFlush(t *testing.T) {
	disk := make(fakeDisk)
	w := start(t, disk)
	if err := w.Flush(t.Context()); err != nil {
		t.Fatalf("with nothing put: %v", err)
	}
	w.Put(Update{Bans: []Ban{testBan(1)}})
	first := <-disk
	w.Put(Update{Bans: []Ban{testBan(2)}}) // while the first is being committed
	flushed := make(chan error, 1)
	go func() { flushed <- w.Flush(t.Context()) }()
	first.answer <- nil
	second := <-disk
	select {
	case err := <-flushed:
		t.Fatalf("returned %v before the second commit came back", err)
	default:
	}
	w.Put(Update{Bans: []Ban{testBan(3)}})
	second.answer <- errors.New("disk full")
	third := <-disk
	third.answer <- nil
	if err := <-flushed; err != nil {
		t.Errorf("Flush: %v", err)
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
}

func TestFlushGivesUp(t *testing.T) {
	disk := make(fakeDisk)
	w := start(t, disk)
	w.Put(Update{Bans: []Ban{testBan(1)}})
	hung := <-disk
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := w.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush: %v", err)
	}
	hung.answer <- nil
	if err := w.stop(); err != nil {
		t.Error(err)
	}
}
