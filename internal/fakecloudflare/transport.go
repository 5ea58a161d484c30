package fakecloudflare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
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
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			res = nil
			if err = req.Context().Err(); err == nil {
				err = fmt.Errorf("read: %w", syscall.ECONNRESET)
			}
		default:
			panic(p)
		}
	}()
	w := &memoryWriter{head: make(http.Header), status: http.StatusOK}
	t.s.serve(w, in)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.head, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: req,
	}, nil
}

// A memoryWriter takes a handler's answer.
type memoryWriter struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header         { return w.head }
func (w *memoryWriter) WriteHeader(status int)      { w.status = status }
func (w *memoryWriter) Write(b []byte) (int, error) { return w.body.Write(b) }
