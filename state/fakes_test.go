package state

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// call is a commit that waits for its answer.
type call struct {
	Update
	at     time.Time
	answer chan<- error
}

// fakeDisk hands each commit to the test, which answers when it likes.
type fakeDisk chan call

func (d fakeDisk) Commit(u Update) error {
	answer := make(chan error)
	d <- call{u, time.Now(), answer}
	return <-answer
}

// countingDisk answers at once and keeps a model of what it holds.
type countingDisk struct {
	mu      sync.Mutex
	holds   model
	commits []time.Time
	err     error
}

func (d *countingDisk) Commit(u Update) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits = append(d.commits, time.Now())
	if d.err != nil {
		return d.err
	}
	d.holds.apply(u)
	return nil
}

func (d *countingDisk) setErr(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *countingDisk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.commits)
}

// running is a writer whose Run is under way.
type running struct {
	*Writer
	log    *bytes.Buffer
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, to Committer, opts ...Option) *running {
	t.Helper()
	r := &running{log: &bytes.Buffer{}, done: make(chan error, 1)}
	r.Writer = NewWriter(to, slog.New(slog.NewTextHandler(r.log, nil)), append(opts, Clock(time.Now))...)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	go func() { r.done <- r.Run(ctx) }()
	return r
}

func (r *running) stop() error {
	r.cancel()
	return <-r.done
}
