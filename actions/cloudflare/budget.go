package cloudflare

import (
	"sync"
	"time"

	"github.com/tailban/tailban/internal/wholefile"
)

// Usage is what is used of a budget.
type Usage struct {
	Name  string
	Unit  string
	Used  int64
	Limit int64
}

// Left is what can be had at once.
func (u Usage) Left() int64 { return max(0, u.Limit-u.Used) }

// Budget is how much may be asked of an account. Of each, half may be used at
// once and the other half comes back evenly, so that no span of that length ever
// sees more than all of it.
type Budget struct {
	Requests int // of all kinds, in 5 minutes
	Changes  int // of items, in 12 hours
}

// Cloudflare's own limits are 1,200 requests in 5 minutes by token, and for lists
// 1,000,000 items and 30,000 writes in 12 hours by account.
const (
	DefaultRequests = 400
	DefaultChanges  = 200_000

	maxWrites = 10_000 // in 12 hours

	requestSpan = 5 * time.Minute
	changeSpan  = 12 * time.Hour
)

// bucket is a token bucket.
type bucket struct {
	name, unit string
	size       float64
	rate       float64 // tokens a second

	tokens float64
	at     time.Time // when it had so many
	warned int       // percent used that was warned of
}

func newBucket(name, unit string, budget int, span time.Duration, now time.Time) *bucket {
	half := max(1, float64(budget)/2)
	return &bucket{name: name, unit: unit, size: half, rate: half / span.Seconds(), tokens: half, at: now}
}

func (b *bucket) fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.size, b.tokens+d.Seconds()*b.rate)
	}
	b.at = now
}

// wait is how long it takes until there are n tokens, or as many as fit.
func (b *bucket) wait(n float64, now time.Time) time.Duration {
	b.fill(now)
	lack := min(n, b.size) - b.tokens
	if lack <= 0 {
		return 0
	}
	return time.Duration(lack/b.rate*float64(time.Second)) + time.Millisecond
}

func (b *bucket) usage(now time.Time) Usage {
	b.fill(now)
	return Usage{Name: b.name, Unit: b.unit, Used: int64(b.size) - int64(max(0, b.tokens)), Limit: int64(b.size)}
}

// Shares of a budget, in percent, from which its use is warned of.
const warnHalf, warnMost = 50, 80

// crossed returns the share of a budget whose use is to be warned of now; 0: none.
// It is warned of again once less than half of that was used.
func (b *bucket) crossed(now time.Time) int {
	b.fill(now)
	used := int(100 * (b.size - b.tokens) / b.size)
	share := 0
	switch {
	case used >= warnMost:
		share = warnMost
	case used >= warnHalf:
		share = warnHalf
	}
	switch {
	case share > b.warned:
		b.warned = share
		return share
	case used < b.warned/2:
		b.warned = share
	}
	return 0
}

// ledger has all budgets of an account.
type ledger struct {
	now func() time.Time

	// perRule: each change is a request, and none of a list.
	perRule bool

	mu       sync.Mutex
	requests *bucket
	changes  *bucket
	writes   *bucket

	path    string // of the file; "": there is none
	unsaved int    // requests since it was written
	keepErr error  // why it could not be written
	write   func(path string, data []byte) error
	late    <-chan error // of a write that hangs; nil: none does

	keepNews bool // that has changed, and nobody was told
}

func newLedger(b Budget, now func() time.Time) *ledger {
	t := now()
	return &ledger{
		now: now, write: wholefile.Write,
		requests: newBucket("requests", "requests", b.Requests, requestSpan, t),
		changes:  newBucket("changed items", "items", b.Changes, changeSpan, t),
		writes:   newBucket("writes", "requests", maxWrites, changeSpan, t),
	}
}

// request takes one request or, with a time, says when there will be one.
func (l *ledger) request(write bool) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	wait = l.requests.wait(1, now)
	if inWrites := l.writes.wait(1, now); write && !l.perRule {
		wait = max(wait, inWrites)
	}
	if wait > 0 {
		return wait
	}
	l.keep(now, false)
	l.unsaved++
	l.requests.tokens--
	if write && !l.perRule {
		l.writes.tokens--
	}
	return 0
}

// change takes up to n changes of items and says how many it got.
func (l *ledger) change(n int) (got int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.requests.fill(now)
	l.writes.fill(now)
	l.changes.fill(now)
	got = min(n, max(0, int(l.changes.tokens)))
	l.changes.tokens -= float64(got)
	l.keep(now, got > 0)
	return got
}

// giveBack returns changes that were taken and not made.
func (l *ledger) giveBack(n int) {
	if n <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.changes.fill(now)
	l.changes.tokens = min(l.changes.size, l.changes.tokens+float64(n))
	l.keep(now, true)
}

// enough is what a write with its polls and a listing before it takes.
const enough = 12

// ready is how long it takes until a write can be afforded.
func (l *ledger) ready() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.perRule {
		return l.requests.wait(enough, now)
	}
	return max(l.requests.wait(enough, now), l.writes.wait(2, now), l.changes.wait(1, now))
}

// usage is what is used of all budgets.
func (l *ledger) usage() []Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var list []Usage
	for _, b := range l.limits() {
		list = append(list, b.usage(now))
	}
	return list
}

// crossed calls f for each budget whose use is to be warned of.
func (l *ledger) crossed(f func(u Usage, percent int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, b := range l.limits() {
		if share := b.crossed(now); share > 0 {
			f(b.usage(now), share)
		}
	}
}

// limits are the buckets that something is taken from.
func (l *ledger) limits() []*bucket {
	if l.perRule {
		return []*bucket{l.requests}
	}
	return []*bucket{l.requests, l.writes, l.changes}
}

// requestsLeft is how many requests can be made at once.
func (l *ledger) requestsLeft() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.fill(l.now())
	return int(max(0, l.requests.tokens))
}
