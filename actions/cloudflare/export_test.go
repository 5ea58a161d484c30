package cloudflare

import "time"

// Quicken shortens the pauses, for tests in real time.
func (a *Action) Quicken(d time.Duration) {
	for _, z := range append(a.parts, a) {
		z.look, z.tidyEvery = d, d
	}
}

var (
	ParseTag = parseTag
	NewTag   = func(instance string, until time.Time) string { return tag{instance, until}.String() }
)

// After reads a header as the transport does.
var RetryAfter = retryAfter

// Ledger is for tests of budgets.
type Ledger = ledger

var NewLedger = newLedger

func (l *ledger) Load(path string) error             { return l.load(path) }
func (l *ledger) Change(n int) int                   { return l.change(n) }
func (l *ledger) Request(write bool) time.Duration   { return l.request(write) }
func (l *ledger) Crossed(f func(u Usage, share int)) { l.crossed(f) }

var IsFull = isFull

// Remembered is how many targets an action keeps in mind.
func (a *Action) Remembered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.wanted)
}

// WriteBy has the file of a ledger written by f.
func (l *ledger) WriteBy(f func(path string, data []byte) error) { l.write = f }

func (l *ledger) KeepFails() (error, bool) { return l.keepFails() }
func (l *ledger) Usage() []Usage           { return l.usage() }

func (l *ledger) GiveBack(n int) { l.giveBack(n) }
