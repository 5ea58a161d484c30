package actions

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Log enforces nothing. Whoever decides a ban says so in the log anyway, and
// bounds how much; here it is only said at the level of debugging. Bans are
// remembered so that the listing is true, as many as the caller makes, and are
// gone with the process.
type Log struct {
	log *slog.Logger

	mu   sync.Mutex
	bans map[netip.Prefix]time.Time // until
}

var _ Action = (*Log)(nil)

// NewLog returns the action.
func NewLog(log *slog.Logger) *Log {
	return &Log{log: log, bans: map[netip.Prefix]time.Time{}}
}

// Prepare implements [Action].
func (l *Log) Prepare(ctx context.Context) error { return ctx.Err() }

// Apply implements [Action].
func (l *Log) Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.expire(now)
	for _, target := range remove {
		delete(l.bans, target)
		l.log.Debug("unban", slog.String("target", target.String()))
	}
	for _, e := range add {
		if e.Left > 0 {
			l.bans[e.Target] = now.Add(e.Left)
			l.log.Debug("ban", slog.String("target", e.Target.String()), slog.Duration("for", e.Left))
		}
	}
	return ctx.Err()
}

// expire drops the bans that have ended.
func (l *Log) expire(now time.Time) {
	for target, until := range l.bans {
		if !until.After(now) {
			delete(l.bans, target)
		}
	}
}

// List implements [Action].
func (l *Log) List(ctx context.Context) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.expire(now)
	entries := make([]Entry, 0, len(l.bans))
	for target, until := range l.bans {
		entries = append(entries, Entry{Target: target, Left: until.Sub(now)})
	}
	return entries, ctx.Err()
}

// Close implements [Action].
func (l *Log) Close() error { return nil }
