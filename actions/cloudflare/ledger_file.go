package cloudflare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// margin is how many requests may be made until what is left of the budgets is
// written down once more: a crash costs that many, and never makes a budget larger.
const margin = 20

// kept is what a file says is left of the budgets.
type kept struct {
	Requests, Writes, Changes keptBucket
}

type keptBucket struct {
	Tokens float64
	At     time.Time
}

// load takes up what an earlier process has left of the budgets.
func (l *ledger) load(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path, l.unsaved = path, margin
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return fmt.Errorf("read what is left of the budgets: %w", err)
	}
	now := l.now()
	for _, x := range []struct {
		b *bucket
		k keptBucket
	}{{l.requests, k.Requests}, {l.writes, k.Writes}, {l.changes, k.Changes}} {
		x.b.tokens = min(x.b.size, max(x.k.Tokens, -x.b.size))
		x.b.at = x.k.At
		if x.b.at.After(now) { // by a clock that was wrong, then or now
			x.b.at = now
		}
		x.b.fill(now)
	}
	return nil
}

// keep writes down what is left, if that is due: before it is used. l.mu must be
// held.
func (l *ledger) keep(now time.Time, at bool) {
	if l.path == "" || !at && l.unsaved < l.ahead() {
		return
	}
	if l.late != nil {
		select {
		case <-l.late:
			l.late = nil
		default:
			return // it is told already
		}
	}
	l.unsaved = 0
	ahead := float64(l.ahead())
	k := kept{
		Requests: keptBucket{l.requests.tokens - ahead, now.Round(0)},
		Writes:   keptBucket{l.writes.tokens - ahead, now.Round(0)},
		Changes:  keptBucket{l.changes.tokens, now.Round(0)},
	}
	data, err := json.Marshal(k)
	if err == nil {
		err = l.writeSoon(data)
	}
	l.keepNews = l.keepNews || (err != nil) != (l.keepErr != nil)
	l.keepErr = err
}

// keepPatience is how long requests wait for the disk. Without it they go on: a disk
// that hangs keeps nobody from being banned.
const keepPatience = 2 * time.Second

var errDisk = fmt.Errorf("the disk has not written it within %v", keepPatience)

func (l *ledger) writeSoon(data []byte) error {
	done := make(chan error, 1)
	write, path := l.write, l.path
	go func() { done <- write(path, data) }()
	t := time.NewTimer(keepPatience)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		l.late = done
		return errDisk
	}
}

// keepFails returns why the file could not be written, and whether that is news.
func (l *ledger) keepFails() (err error, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news, l.keepNews = l.keepNews, false
	return l.keepErr, news
}

// ahead is margin, or less of a small budget.
func (l *ledger) ahead() int { return min(margin, max(1, int(l.requests.size/8))) }
