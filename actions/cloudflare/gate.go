package cloudflare

import (
	"context"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

// gate keeps requests back while the API wants none: those that need a permission
// after the token was refused for one of these, and all after it has said for how
// long to wait.
type gate struct {
	ledger *ledger
	now    func() time.Time

	mu     sync.Mutex
	shut   map[string]shutting // by what requests need, and where; "": all
	worked map[string]bool     // what the token was good for since it was last refused, by need and kind
	sent   uint64
	skew   time.Duration // how far the clock of the API is ahead
}

type shutting struct {
	until time.Time
	why   *Error
	token string // that was refused; "": it isn't about the token
}

func newGate(l *ledger, now func() time.Time) *gate {
	return &gate{ledger: l, now: now, shut: map[string]shutting{}, worked: map[string]bool{}}
}

// request is what a gate has to know of one.
type request struct {
	token string
	needs string // the permission
	zone  string // for which; "": for the account
	write bool
}

// right is what a token needs for it: what it lacks for one zone it may have for
// others.
func (r request) right() string { return r.needs + " " + r.zone }

func (r request) kind() string {
	if r.write {
		return "write: " + r.right()
	}
	return "read: " + r.right()
}

// admit waits until the budgets have a request, and takes it. It fails while the API
// wants none; another token than the one that was refused may be tried at once.
func (g *gate) admit(ctx context.Context, r request) error {
	if err := g.open(r); err != nil {
		return err
	}
	for wait := g.ledger.request(r.write); wait > 0; wait = g.ledger.request(r.write) {
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent++
	return nil
}

func (g *gate) open(r request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, right := range []string{"", r.right()} {
		s, ok := g.shut[right]
		if !ok || !g.now().Before(s.until) || s.token != "" && s.token != r.token {
			continue
		}
		e := *s.why
		e.After = s.until.Sub(g.now()).Round(time.Second)
		return &e
	}
	return nil
}

// succeeded notes that a request was a success.
func (g *gate) succeeded(r request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.worked[r.kind()] = true
}

// failed keeps further requests back, if an answer says so. The API has been seen to
// refuse good tokens under load: one that has worked is tried once more.
func (g *gate) failed(e *Error, r request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch e.Kind {
	case BadToken, Permission:
		if g.worked[r.kind()] {
			g.worked[r.kind()], e.Kind = false, Temporary
			return
		}
		g.shut[r.right()] = shutting{g.now().Add(authPause), e, r.token}
	case Temporary, Busy:
		if e.After > shortAfter {
			g.shut[""] = shutting{g.now().Add(e.After), e, ""}
		}
	case Missing, Invalid:
	}
}

// dated notes what time it was there at some time from sent to got. What is known of
// the clock stays as it is while it can be right, so that it does not come and go.
func (g *gate) dated(there, sent, got time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	least, most := there.Sub(got)-clockSlack, there.Add(time.Second).Sub(sent)+clockSlack
	switch {
	case least <= g.skew && g.skew <= most:
	case least <= 0 && 0 <= most:
		g.skew = 0
	default:
		g.skew = least + (most-least)/2
	}
}

// clockSlack is how far two clocks may be apart and count as one.
const clockSlack = 10 * time.Second

// time is what time it is there, as far as is known.
func (g *gate) time() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now().Add(g.skew)
}
