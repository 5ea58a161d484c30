package fakecloudflare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
)

// Transport answers requests in memory, in the goroutine of the caller and whatever
// host they name. It honours the request's context while an answer is late.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ s *Server }

func (t transport) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if req.Body != nil {
		defer func() { err = errors.Join(err, req.Body.Close()) }()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	in := req.Clone(req.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // net/http compares so, too
			res = nil
			if err = req.Context().Err(); err == nil {
				err = fmt.Errorf("read: %w", syscall.ECONNRESET)
			}
		} else if p != nil {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	t.s.serve(w, in)
	res = w.Result()
	res.Request = req
	res.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	return res, nil
}
