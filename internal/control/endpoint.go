package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// endpoint is a socket and what is served on it.
type endpoint struct {
	*Server
	name      string
	changes   bool // verbs that change things are served
	sock      *socket
	gate      *gate
	http      *http.Server
	followers chan struct{} // a token for each
}

// route is a verb.
type route struct {
	method, path string
	changes      bool
	serve        func(*endpoint, http.ResponseWriter, *http.Request) error
}

func routes() []route {
	return []route{
		{http.MethodGet, "/v1/status", false, (*endpoint).getStatus},
		{http.MethodGet, "/v1/bans", false, (*endpoint).getBans},
		{http.MethodGet, "/v1/explain", false, (*endpoint).getExplanation},
		{http.MethodPost, "/v1/explain-line", false, (*endpoint).explainLine},
		{http.MethodGet, "/v1/events", false, (*endpoint).follow},
		{http.MethodGet, "/metrics", false, (*endpoint).getMetrics},
		{http.MethodPost, "/v1/ban", true, (*endpoint).ban},
		{http.MethodPost, "/v1/unban", true, (*endpoint).unban},
		{http.MethodPost, "/v1/allow", true, (*endpoint).allow},
		{http.MethodPost, "/v1/hold", true, (*endpoint).hold},
		{http.MethodPost, "/v1/confirm", true, (*endpoint).confirm},
		{http.MethodPost, "/v1/accept-list", true, (*endpoint).acceptList},
		{http.MethodPost, "/v1/reload", true, (*endpoint).reloadConfig},
	}
}

func (e *endpoint) newHTTP() *http.Server {
	return &http.Server{
		Handler:                      e,
		ReadHeaderTimeout:            e.limits.header,
		ReadTimeout:                  e.limits.request,
		IdleTimeout:                  e.limits.idle,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  withCaller,
		ErrorLog:                     slog.NewLogLogger(e.Log.Handler(), slog.LevelDebug),
		// No WriteTimeout: it would count the time that the daemon takes.
		// See answer.
	}
}

// ServeHTTP answers one request, whatever happens.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := &begun{ResponseWriter: w}
	defer func() {
		if p := recover(); p != nil {
			e.panicked(r.URL.Path, p)
			if begun.yes {
				panic(http.ErrAbortHandler) // cuts the answer off
			}
			e.fail(begun, r, errPanicked())
		}
	}()
	if err := e.serve(begun, r); err != nil {
		e.fail(begun, r, err)
	}
}

// begun knows whether the answer has.
type begun struct {
	http.ResponseWriter
	yes bool
}

func (b *begun) WriteHeader(status int) {
	b.yes = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	all := routes()
	i := slices.IndexFunc(all, func(to route) bool { return to.path == r.URL.Path })
	switch {
	case i < 0:
		return withStatus{http.StatusNotFound, &Error{Code: CodeNotFound, Message: "there is nothing at " + cut(r.URL.Path), Hint: e.verbs()}}
	case r.Method != all[i].method:
		w.Header().Set("Allow", all[i].method)
		return withStatus{http.StatusMethodNotAllowed, &Error{
			Code: CodeBadRequest, Message: all[i].path + " takes " + all[i].method + ", not " + cut(r.Method), Hint: e.verbs(),
		}}
	case all[i].changes && !e.changes:
		return &Error{
			Code:    CodeDenied,
			Message: all[i].path + " changes things, and " + e.name + " is for looking only",
			Hint:    "use " + filepath.Join(e.Dir, ControlSocket),
		}
	}
	return all[i].serve(e, w, r)
}

// verbs lists what there is.
func (e *endpoint) verbs() string {
	var list []string
	for _, to := range routes() {
		if e.changes || !to.changes {
			list = append(list, to.method+" "+to.path)
		}
	}
	return "there are: " + strings.Join(list, ", ")
}

// withStatus is an error with an HTTP status other than that of its code.
type withStatus struct {
	status int
	err    *Error
}

func (e withStatus) Error() string { return e.err.Error() }
func (e withStatus) Unwrap() error { return e.err }

// statusOf is the HTTP status of a code.
func statusOf(code string) int {
	switch code {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeDenied:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeRefused:
		return http.StatusConflict
	case CodeConfig:
		return http.StatusUnprocessableEntity
	case CodeBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// asError makes an *Error of any error.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error: " + err.Error(), Hint: "the daemon's log may say more"}
}

func (e *endpoint) fail(w http.ResponseWriter, r *http.Request, err error) {
	body := asError(err)
	status := statusOf(body.Code)
	var special withStatus
	if errors.As(err, &special) {
		status = special.status
	}
	if body.Code == CodeInternal {
		e.Log.Error("control request failed", "socket", e.name, "path", logged(r.URL.Path), "err", logged(body.Message))
	}
	out := e.answer(w, status)
	out.json(errorAnswer{body})
	out.Flush()
}

func errPanicked() *Error {
	return &Error{
		Code:    CodeInternal,
		Message: "the daemon made a mistake with this request, and goes on",
		Hint:    "its log has the details; please report it",
	}
}

func (e *endpoint) panicked(verb string, p any) {
	e.Log.Error("control request panicked; the daemon goes on", "socket", e.name, "verb", logged(verb), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// answer is the body of an answer. Writing fails when the other side takes
// nothing for a while, or is at it for too long.
type answer struct {
	*bufio.Writer
	enc *json.Encoder
}

func (e *endpoint) answer(w http.ResponseWriter, status int) *answer {
	return e.answerAs(w, status, "application/json")
}

func (e *endpoint) answerAs(w http.ResponseWriter, status int, kind string) *answer {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	// Through a buffer, as a deadline for each small write costs more than
	// the write.
	b := bufio.NewWriterSize(&paced{w, http.NewResponseController(w), e.limits.write, time.Now().Add(e.limits.answer)}, 32<<10)
	return newAnswer(b)
}

func newAnswer(b *bufio.Writer) *answer {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // nobody puts it into HTML unescaped
	return &answer{b, enc}
}

// json writes a value and a line feed. What is nil and a list comes as an
// empty list.
func (a *answer) json(v any) error { return a.enc.Encode(withLists(v)) }

// paced gives each write a deadline.
type paced struct {
	to   io.Writer
	conn *http.ResponseController
	step time.Duration
	end  time.Time
}

func (p *paced) Write(b []byte) (int, error) {
	end := time.Now().Add(p.step)
	if end.After(p.end) {
		end = p.end
	}
	if err := p.conn.SetWriteDeadline(end); err != nil {
		return 0, err
	}
	return p.to.Write(b)
}
