package cloudflare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxAnswer is how large an answer is read, in bytes: a page of items is a
	// tenth of it.
	maxAnswer = 4 << 20

	// maxAfter bounds what the API may have us wait.
	maxAfter = 10 * time.Minute

	// authPause is how long nothing is asked after the token was refused: every
	// call would be one in vain.
	authPause = 5 * time.Minute

	// shortAfter is up to what time a write that is told to wait does so.
	shortAfter = time.Minute
)

// transport makes an [Error] of every answer that is no success, HTML pages of
// something in between among them.
type transport struct {
	base http.RoundTripper
	gate *gate
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip implements [http.RoundTripper]. A request that is not a success is an
// error of type *Error.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
	defer cancel() // all of the answer is read here
	sent := t.gate.now()
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	got := t.gate.now()
	if err != nil {
		return nil, &Error{Kind: Temporary, Err: plainError(err, token)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	resp.Body.Close()
	switch {
	case err != nil:
		return nil, &Error{Kind: Temporary, Status: resp.StatusCode, Err: plainError(err, token)}
	case len(body) > maxAnswer:
		return nil, &Error{Kind: Temporary, Status: resp.StatusCode, Message: fmt.Sprintf("the answer is larger than %d MiB", maxAnswer>>20)}
	}
	if e := judge(resp, body, token); e != nil {
		return nil, e
	}
	if there, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.gate.dated(there, sent, got)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Header.Set("Content-Type", "application/json")
	return resp, nil
}

// plainError takes the address and the token off an error of the network.
func plainError(err error, token string) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(said(err.Error(), token))
}

// envelope is what every answer of the API is in.
type envelope struct {
	Success *bool `json:"success"`
	Errors  []struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"errors"`
}

// judge returns nil for a success.
func judge(resp *http.Response, body []byte, token string) *Error {
	e := &Error{Status: resp.StatusCode, After: retryAfter(resp.Header, resp.Header.Get("Date"))}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil || env.Success == nil {
		e.Kind, e.Message = Temporary, "the answer is not the API's, but "+orUnknown(said(kind, token))
		if kind == "application/json" {
			e.Message = "the answer is cut short, or not the API's"
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			e.Kind = Busy
		}
		return e
	}
	if len(env.Errors) > 0 {
		e.Code, e.Message = env.Errors[0].Code, said(env.Errors[0].Message, token)
	}
	ok := resp.StatusCode/100 == 2
	if ok && *env.Success {
		return nil
	}
	e.Kind = kindOf(resp.StatusCode, e.Code)
	return e
}

func kindOf(status, code int) Kind {
	switch {
	case status == http.StatusTooManyRequests, code == codeLimited:
		return Busy
	case status >= 500, status/100 == 2, status == http.StatusRequestTimeout, status == http.StatusConflict:
		return Temporary
	case status == http.StatusForbidden && code != codeNoAccess:
		return Permission
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		code == codeAuth, code == codeBadAuth, code == codeBadHeader, code == codeBadForm, code == codeNoAccess:
		return BadToken
	case status == http.StatusNotFound:
		return Missing
	}
	return Invalid
}

func orUnknown(s string) string {
	if s == "" {
		return "of no known type"
	}
	return s
}

// retryAfter reads how long to wait: in seconds, or until a time by the clock of
// who answers. It is never more than maxAfter.
func retryAfter(h http.Header, date string) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if !(s > 0) { // NaN among them
			return 0
		}
		return time.Duration(min(s, maxAfter.Seconds()) * float64(time.Second))
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(date)
	if err != nil {
		return 0
	}
	return min(max(0, until.Sub(from)), maxAfter)
}
