package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// What a Client puts up with. It waits a little longer than the daemon gives
// its own parts, so that the daemon's words on it arrive.
const (
	clientTimeout = backendTimeout + 10*time.Second
	reloadTimeout = backendReloadTimeout + 10*time.Second
	maxAnswer     = 16 << 20
	maxBansAnswer = 256 << 20
	maxError      = 1 << 20
	maxEventLine  = 1 << 20
)

// Client asks a running daemon, over its sockets. Its methods may be called
// from any goroutine. Every error that is for people is an *Error; with
// CodeUnreachable no daemon answered, and with CodeDenied the user may not.
//
// Those that look use the control socket where the user may, since others
// can't fill it up, and the status socket otherwise. Texts come as the daemon
// knows them: whoever shows them on a terminal has to escape them.
type Client struct {
	dir  string
	view *http.Client
	act  *http.Client
}

var _ Viewer = (*Client)(nil)

// NewClient makes a client of the daemon whose sockets are in dir.
func NewClient(dir string) *Client {
	c := &Client{dir: dir}
	c.view = c.over(ControlSocket, StatusSocket)
	c.act = c.over(ControlSocket)
	return c
}

// Status returns everything about the daemon's state at a glance.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return ask[Status](ctx, c.view, clientTimeout, http.MethodGet, "/v1/status", nil)
}

// Bans lists bans that a query picks.
func (c *Client) Bans(ctx context.Context, q BansQuery) (*Bans, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	path := "/v1/bans"
	if v := q.values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	body, err := send(ctx, c.view, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := readBans(&capped{r: body, left: maxBansAnswer})
	return b, answerError(ctx, err)
}

// Explain says all that is known of an address.
func (c *Client) Explain(ctx context.Context, a netip.Addr) (*Explanation, error) {
	path := "/v1/explain?" + url.Values{"address": {a.String()}}.Encode()
	return ask[Explanation](ctx, c.view, clientTimeout, http.MethodGet, path, nil)
}

// ExplainLine takes a line through the order of exceptions without counting it.
func (c *Client) ExplainLine(ctx context.Context, q LineQuery) (*LineExplanation, error) {
	return ask[LineExplanation](ctx, c.view, clientTimeout, http.MethodPost, "/v1/explain-line", q)
}

// Ban bans a target by hand.
func (c *Client) Ban(ctx context.Context, q BanRequest) (*BanResult, error) {
	return ask[BanResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/ban", q)
}

// Unban lifts bans and forgets what led to them.
func (c *Client) Unban(ctx context.Context, q UnbanRequest) (*UnbanResult, error) {
	return ask[UnbanResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/unban", q)
}

// Allow lets somebody pass for a while, or ends that.
func (c *Client) Allow(ctx context.Context, q AllowRequest) (*AllowResult, error) {
	return ask[AllowResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/allow", q)
}

// Hold makes a jail only observe, or ends that.
func (c *Client) Hold(ctx context.Context, q HoldRequest) (*HoldResult, error) {
	return ask[HoldResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/hold", q)
}

// Confirm ends a deadline at which all bans end.
func (c *Client) Confirm(ctx context.Context) (*ConfirmResult, error) {
	return ask[ConfirmResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/confirm", struct{}{})
}

// AcceptList uses ranges that were fetched and wait for that.
func (c *Client) AcceptList(ctx context.Context, q AcceptListRequest) (*AcceptListResult, error) {
	return ask[AcceptListResult](ctx, c.act, clientTimeout, http.MethodPost, "/v1/accept-list", q)
}

// Reload makes the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context) (*ReloadResult, error) {
	return ask[ReloadResult](ctx, c.act, reloadTimeout, http.MethodPost, "/v1/reload", struct{}{})
}

// over is HTTP over the first of some sockets that lets us in. Each request
// has a connection of its own: nothing stays open in between.
func (c *Client) over(names ...string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 16 << 10,
			ResponseHeaderTimeout:  reloadTimeout,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.dial(ctx, names)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dial connects to the first socket that lets us in. If none does, the error
// is the one that tells the person most: what is needed to be let in, rather
// than what is not there.
func (c *Client) dial(ctx context.Context, names []string) (net.Conn, error) {
	var worst *Error
	for _, name := range names {
		path := filepath.Join(c.dir, name)
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Of two that deny, the last asks for less.
		if e := dialError(path, err); worst == nil || e.Code == CodeDenied || worst.Code != CodeDenied {
			worst = e
		}
	}
	return nil, worst
}

// ask sends a request and decodes the answer.
func ask[T any](ctx context.Context, h *http.Client, timeout time.Duration, method, path string, q any) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := send(ctx, h, method, path, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	answer := new(T)
	if err := json.NewDecoder(&capped{r: body, left: maxAnswer}).Decode(answer); err != nil {
		return nil, answerError(ctx, err)
	}
	return answer, nil
}

// send sends a request and returns the body of its answer, or the error that
// the answer is. A q of nil is no body.
func send(ctx context.Context, h *http.Client, method, path string, q any) (io.ReadCloser, error) {
	var body io.Reader
	if q != nil {
		b, err := json.Marshal(q)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://tailban"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if q != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := h.Do(req)
	if err != nil {
		return nil, answerError(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	var refusal errorAnswer
	err = json.NewDecoder(io.LimitReader(res.Body, maxError)).Decode(&refusal)
	if err != nil || refusal.Error == nil || refusal.Error.Message == "" {
		return nil, &Error{
			Code:    CodeInternal,
			Message: "the daemon answered with HTTP status " + strconv.Itoa(res.StatusCode) + " and no reason",
			Hint:    "is something else listening there?",
		}
	}
	return nil, refusal.Error
}

// answerError is an error of a connection that was made, in words. The *Error
// of one that was not made is inside it.
func answerError(ctx context.Context, err error) error {
	var e *Error
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{
			Code:    CodeBusy,
			Message: "the daemon took the request and did not answer in time",
			Hint:    "a change may still happen; look at the daemon's log",
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Error{
			Code:    CodeUnreachable,
			Message: "the daemon ended the connection before its answer was complete",
			Hint:    "it may just have stopped, or have too many connections; a change may have been made",
		}
	}
	return fmt.Errorf("read the daemon's answer: %w", err)
}

// errorAnswer is the body of an answer that is an error.
type errorAnswer struct {
	Error *Error `json:"error"`
}

// values are a query as URL parameters.
func (q BansQuery) values() url.Values {
	v := url.Values{}
	set := func(key, value string) {
		if value != "" {
			v.Set(key, value)
		}
	}
	if q.Overlap.IsValid() {
		set("overlap", q.Overlap.String())
	}
	set("jail", q.Jail)
	set("action", q.Action)
	set("sort", q.Sort)
	if q.Limit != 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// errTooLong ends the reading of an answer.
var errTooLong = &Error{Code: CodeInternal, Message: "the daemon's answer is too long"}

// capped reads from r, and fails when there is more than left.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}
