package cli

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	logQueue = 1024            // messages waiting for a slow reader
	logFlush = 2 * time.Second // how long the end waits for them
)

// logWriter hands messages to a writer that may block, such as a pipe nobody
// reads or a file on a disk that hangs: detection must not wait for its own
// log. What doesn't fit into the queue is dropped, and counted in the log.
type logWriter struct {
	to      io.Writer
	queue   chan []byte
	ending  chan struct{}
	done    chan struct{}
	dropped atomic.Uint64
}

// newLogWriter makes one; run writes, until close.
func newLogWriter(to io.Writer) *logWriter {
	return &logWriter{to: to, queue: make(chan []byte, logQueue), ending: make(chan struct{}), done: make(chan struct{})}
}

// Write takes a message and never fails; after close it may be lost.
func (w *logWriter) Write(p []byte) (int, error) {
	select {
	case w.queue <- append([]byte(nil), p...):
	default:
		w.dropped.Add(1)
	}
	return len(p), nil
}

// run writes messages until close. direct logs to the same end without the
// queue.
func (w *logWriter) run(direct *slog.Logger) {
	defer close(w.done)
	for {
		select {
		case p := <-w.queue:
			w.write(p, direct)
		case <-w.ending:
			for {
				select {
				case p := <-w.queue:
					w.write(p, direct)
				default:
					return
				}
			}
		}
	}
}

func (w *logWriter) write(p []byte, direct *slog.Logger) {
	// An error is the reader's: there is nowhere else to say it.
	_, _ = w.to.Write(p)
	if n := w.dropped.Swap(0); n > 0 {
		direct.Warn("log messages were dropped: nobody read them fast enough", "dropped", n)
	}
}

// close waits a moment for what is queued.
func (w *logWriter) close() {
	close(w.ending)
	select {
	case <-w.done:
	case <-time.After(logFlush):
	}
}
