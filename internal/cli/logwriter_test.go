package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// blocked is a writer that hangs until it is told.
type blocked struct {
	open chan struct{}
	buf  bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.open
	return b.buf.Write(p)
}

func TestLogWriterNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &blocked{open: make(chan struct{})}
		w := newLogWriter(to)
		go w.run(slog.New(slog.NewTextHandler(to, nil)))
		const extra = 100
		for i := range logQueue + extra {
			fmt.Fprintf(w, "message %d\n", i) // must return although nobody reads
		}
		close(to.open)
		w.close()
		text := to.buf.String()
		if got := strings.Count(text, "message "); got < logQueue || got > logQueue+1 {
			t.Errorf("%d messages written, want the queue's %d", got, logQueue)
		}
		if !strings.Contains(text, "were dropped") {
			t.Error("the loss is not told")
		}
	})
}

func TestLogWriterEndsAlthoughNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &blocked{open: make(chan struct{})}
		w := newLogWriter(to)
		go w.run(slog.New(slog.NewTextHandler(to, nil)))
		fmt.Fprintln(w, "last words")
		start := time.Now()
		w.close()
		if took := time.Since(start); took != logFlush {
			t.Errorf("closed after %v, want %v", took, logFlush)
		}
		fmt.Fprintln(w, "a straggler") // must neither panic nor wait
		close(to.open)
	})
}
