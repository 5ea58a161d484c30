package actions

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// maxLogged is how many bans the log action holds.
const maxLogged = 131072

// Log enforces nothing: it writes each ban and its end on request to a
// logger. It holds the bans in memory, so that its listing is true; they are
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

// Apply implements [Action]. A change of the time left alone is not logged.
func (l *Log) Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.expire(now)
	for _, target := range remove {
		if _, ok := l.bans[target]; ok {
			delete(l.bans, target)
			l.log.Info("unban", slog.String("target", target.String()))
		}
	}
	for _, e := range add {
		if e.Left <= 0 {
			continue
		}
		if _, ok := l.bans[e.Target]; !ok {
			if len(l.bans) >= maxLogged {
				return fmt.Errorf("log ban of %s: the log action is full, it holds %d", e.Target, len(l.bans))
			}
			l.log.Info("ban", slog.String("target", e.Target.String()), slog.Duration("for", e.Left.Round(time.Second)))
		}
		l.bans[e.Target] = now.Add(e.Left)
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
