package control

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tailban/tailban/internal/term"
)

func (e *endpoint) ban(w http.ResponseWriter, r *http.Request) error {
	return change(e, w, r, "ban", e.limits.call, e.Daemon.Ban, func(q BanRequest) []any {
		return about(q.Target, q.Jail, q.For, q.Reason, "force", q.Force)
	})
}

func (e *endpoint) unban(w http.ResponseWriter, r *http.Request) error {
	return change(e, w, r, "unban", e.limits.call, e.Daemon.Unban, func(q UnbanRequest) []any {
		return about(q.Target, q.Jail, q.Forgive, q.Reason, "all", q.All)
	})
}

func (e *endpoint) allow(w http.ResponseWriter, r *http.Request) error {
	return change(e, w, r, "allow", e.limits.call, e.Daemon.Allow, func(q AllowRequest) []any {
		return about(q.Target, "", q.For, q.Reason, "end", q.End)
	})
}

func (e *endpoint) hold(w http.ResponseWriter, r *http.Request) error {
	return change(e, w, r, "hold", e.limits.call, e.Daemon.Hold, func(q HoldRequest) []any {
		return about(netip.Prefix{}, q.Jail, q.For, q.Reason, "resume", q.Resume)
	})
}

func (e *endpoint) confirm(w http.ResponseWriter, r *http.Request) error {
	do := func(ctx context.Context, c Caller, _ struct{}) (*ConfirmResult, error) {
		return e.Daemon.Confirm(ctx, c)
	}
	return change(e, w, r, "confirm", e.limits.call, do, func(struct{}) []any { return nil })
}

func (e *endpoint) acceptList(w http.ResponseWriter, r *http.Request) error {
	return change(e, w, r, "accept-list", e.limits.call, e.Daemon.AcceptList, func(q AcceptListRequest) []any {
		words := append(about(netip.Prefix{}, "", 0, q.Reason, "", false), "list", logged(q.Name))
		if q.ID != "" {
			words = append(words, "id", logged(q.ID))
		}
		return words
	})
}

func (e *endpoint) reloadConfig(w http.ResponseWriter, r *http.Request) error {
	do := func(ctx context.Context, c Caller, _ struct{}) (*ReloadResult, error) { return e.Daemon.Reload(ctx, c) }
	return change(e, w, r, "reload", e.limits.reload, do, func(struct{}) []any { return nil })
}

// change carries out a request that changes things. What comes of it is
// logged when it is known, even if the request has been given up by then.
func change[Q, A any](
	e *endpoint, w http.ResponseWriter, r *http.Request, verb string, timeout time.Duration,
	do func(context.Context, Caller, Q) (*A, error), words func(Q) []any,
) error {
	caller := callerFrom(r.Context())
	log := e.Log.With("verb", verb, "uid", caller.UID, "gid", caller.GID, "pid", caller.PID)
	var q Q
	if err := readRequest(w, r, &q); err != nil {
		audit(log, err)
		return err
	}
	log = log.With(words(q)...)
	var told atomic.Bool
	got, err := call(e, r, timeout, func(ctx context.Context) (*A, error) {
		got := guarded(ctx, e, verb, func(ctx context.Context) (*A, error) { return do(ctx, caller, q) })
		audit(log, got.err)
		told.Store(true)
		return got.value, got.err
	})
	if err != nil && !told.Load() {
		audit(log, err) // it has not begun, or goes on, and there will be another line
	}
	return e.send(w, got, err)
}

// audit says who wanted what, and what came of it.
func audit(log *slog.Logger, err error) {
	if err == nil {
		log.Info("control", "outcome", "done")
		return
	}
	e := asError(err)
	log.Warn("control", "outcome", e.Code, "err", logged(e.Message))
}

// about are the words of a request, as attributes. Those that say nothing are
// left out.
func about(target netip.Prefix, jail string, seconds float64, reason, flag string, set bool) []any {
	var a []any
	if target.IsValid() {
		a = append(a, "target", target.String())
	}
	if jail != "" {
		a = append(a, "jail", logged(jail))
	}
	if seconds != 0 {
		a = append(a, "for", time.Duration(seconds*float64(time.Second)).String())
	}
	if set {
		a = append(a, flag, true)
	}
	if reason != "" {
		a = append(a, "reason", logged(reason))
	}
	return a
}

// logged is a text of others, fit for the log.
func logged(s string) string { return term.Escape(cut(s)) }

// cut bounds a text that is repeated in a message.
func cut(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
