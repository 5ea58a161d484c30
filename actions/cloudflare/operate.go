package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/sleep"
)

const (
	// maxBatch is how many items one operation changes.
	maxBatch = 1000
	// maxRefused is how many items of a batch are left out as they are refused.
	maxRefused = 20

	// How long to wait between looks at an operation, and before a write is tried
	// again while another one is under way; and for how long, all in all.
	firstLook  = time.Second
	longLook   = 20 * time.Second
	operateFor = 5 * time.Minute
)

// errFull is of an operation that failed for want of room.
var errFull = fmt.Errorf("cloudflare: the account's lists are full: %w", actions.ErrFull)

// operate begins a bulk operation and waits until it is completed. The account has
// one at a time, so that of another host, or one of ours from before a crash, is
// waited for. What we know of the list is wrong after an error. begin says how many
// items it is about.
func (a *Action) operate(ctx context.Context, begin func() (id string, items int, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, operateFor, errSlow)
	defer cancel()
	id, items, err := a.start(ctx, begin)
	if err == nil || mayBeDone(err) {
		a.spent += items
	}
	if err == nil {
		err = a.await(ctx, id)
	}
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.stats.Writes++
		a.stats.Changes += uint64(items)
		return nil
	}
	if errors.Is(context.Cause(ctx), errSlow) {
		err = errSlow
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Kind == Invalid && e.Code != codeItem && isFull(e.Message) {
		err = a.full(e.Message)
	}
	return a.failed(err)
}

// errNothing is of an operation that turned out to be needless, and errLater of one
// that is to be thought over before it is begun.
var (
	errNothing = errors.New("nothing is to do")
	errLater   = errors.New("cloudflare: another change came first")
)

var errSlow = fmt.Errorf("cloudflare: a change of the list is not done within %v", operateFor)

// start tries to begin an operation until no other is under way.
func (a *Action) start(ctx context.Context, begin func() (string, int, error)) (id string, items int, err error) {
	for wait := a.look; ; wait = min(2*wait, longLook) {
		id, items, err = begin()
		var e *Error
		if !errors.As(err, &e) || e.Kind != Busy || e.After > shortAfter {
			return id, items, err
		}
		if !sleep.For(ctx, max(wait, e.After)) {
			return "", 0, ctx.Err()
		}
	}
}

// mayBeDone reports whether a change may have been begun although it failed: not if
// it was refused.
func mayBeDone(err error) bool {
	var e *Error
	return !errors.As(err, &e) || e.Kind == Temporary
}

// maxUnanswered is how many times in a row it may fail to ask for an operation.
const maxUnanswered = 5

// await waits until an operation is done.
func (a *Action) await(ctx context.Context, id string) error {
	if id == "" {
		return &Error{Step: "begin a change", Kind: Temporary, Message: "the answer names no operation"}
	}
	unanswered := 0
	for wait := a.look; ; wait = min(wait*3/2, longLook) {
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		done, failed, err := a.client.operation(ctx, id)
		switch {
		case err != nil && (is(err, Temporary) || is(err, Busy)) && unanswered < maxUnanswered:
			unanswered++
		case err != nil:
			return err
		case failed != "":
			return a.judgeFailed(failed)
		case done:
			return nil
		default:
			unanswered = 0
		}
	}
}

// judgeFailed makes an error of what an operation failed for. That the lists are
// full is told by its text only.
func (a *Action) judgeFailed(text string) error {
	if !isFull(text) {
		return &Error{Step: "change the list", Kind: Temporary, Message: "the operation failed: " + text}
	}
	return a.full(text)
}

// isFull reports whether a text is about how much fits. Times and rates have limits
// that are exceeded as well, and to wait helps with these.
func isFull(text string) bool {
	low := strings.ToLower(text)
	for _, word := range []string{"timeout", "timed out", "time limit", "deadline", "rate limit", "ratelimit", "requests"} {
		if strings.Contains(low, word) {
			return false
		}
	}
	for _, word := range []string{"maximum", "limit", "exceed", "entitle", "quota", "too many items", "capacity"} {
		if strings.Contains(low, word) {
			return true
		}
	}
	return false
}

// full learns that there is no more room than what this instance has now.
func (a *Action) full(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.learned = learned{items: max(1, a.cache.mine), at: a.opt.now()}
	return fmt.Errorf("%w (%s)", errFull, text)
}

// position reads which item of a batch is wrong: "invalid value for ip at position 3: …".
func position(message string) (i int, ok bool) {
	_, rest, ok := strings.Cut(message, " at position ")
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, ":")
	digits, _, _ = strings.Cut(digits, " ")
	i, err := strconv.Atoi(digits)
	return i, err == nil && i >= 0
}

// warnUsage warns of budgets of which much is used.
func (a *Action) warnUsage() {
	a.ledger.crossed(func(u Usage, percent int) {
		a.log.Warn("much of a budget for Cloudflare is used: when it is all used, bans wait",
			slog.String("budget", u.Name), slog.Int("percent", percent), slog.Int64("used", u.Used), slog.Int64("of", u.Limit))
	})
	if err, news := a.ledger.keepFails(); news && err != nil {
		a.log.Warn("what is left of the budgets for Cloudflare can't be written down: a restart would not know of it", slog.Any("err", err))
	}
}
