package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Options are what a Server needs.
type Options struct {
	Dir    string   // of the sockets; made if it is missing
	Daemon Operator // answers
	Log    *slog.Logger

	// Metrics returns the text of GET /metrics; nil: there is none.
	Metrics func(context.Context) ([]byte, error)

	// StatusGroup may use the status socket. "": the group tailban if there
	// is one, else the daemon's own.
	StatusGroup string

	// ControlGroup may use the control socket. "": nobody but the daemon's
	// user and root.
	ControlGroup string
}

// Server answers on the sockets of a daemon.
type Server struct {
	Options
	limits

	lock   *lockFile
	status *endpoint
	act    *endpoint

	calls    chan struct{} // a token for each call at work
	stopping chan struct{} // closed when followers have to go

	refused atomic.Uint64
	lost    atomic.Uint64
}

// Counters are what a Server has at hand now, and what it turned away.
type Counters struct {
	Connections int    // open
	Refused     uint64 // connections beyond the limits, since the start
	Followers   int    // of events
	Lost        uint64 // followers that were too slow, since the start
}

// NewServer makes a server that doesn't listen yet.
func NewServer(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		Options:  o,
		limits:   defaultLimits(),
		calls:    make(chan struct{}, maxCalls),
		stopping: make(chan struct{}),
	}
}

// Listen makes the sockets. From then on clients can connect; they get
// answers when Run runs. It fails if another daemon answers in the directory,
// if others could put their own sockets there, or if something that is no
// socket is in the way. Close undoes it if Run is never called.
func (s *Server) Listen() error {
	dir, err := openDir(s.Dir)
	if err != nil {
		return fmt.Errorf("make the control sockets: %w", err)
	}
	defer dir.Close()
	if s.lock, err = lockDir(dir); err != nil {
		return fmt.Errorf("make the control sockets: %w", err)
	}
	if s.status, err = s.listen(dir, StatusSocket, s.statusAccess()); err == nil {
		s.act, err = s.listen(dir, ControlSocket, s.controlAccess())
	}
	if err != nil {
		s.Close()
		return fmt.Errorf("make the control sockets: %w", err)
	}
	return nil
}

func (s *Server) listen(dir *socketDir, name string, a access) (*endpoint, error) {
	l, err := dir.listen(name, a, s.Log)
	if err != nil {
		return nil, err
	}
	e := &endpoint{Server: s, name: name, sock: l, followers: make(chan struct{}, maxFollowers)}
	e.gate = newGate(l, &s.refused, s.limits)
	if name == StatusSocket {
		e.gate.perUser = maxConnsUser
	} else {
		e.changes = true
	}
	e.http = e.newHTTP()
	return e, nil
}

// Run answers until ctx is done, or a socket fails. It removes the sockets,
// gives requests a moment to finish, and returns nil if that was asked for.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	for _, e := range s.endpoints() {
		e.http.BaseContext = func(net.Listener) context.Context { return withServer(work) }
		serving.Go(func() {
			if err := e.http.Serve(e.gate); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", e.name, err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	close(s.stopping)
	grace, done := context.WithTimeout(work, s.grace)
	defer done()
	for _, e := range s.endpoints() {
		e.sock.remove(s.Log)
		serving.Go(func() {
			if e.http.Shutdown(grace) != nil {
				e.http.Close()
			}
		})
	}
	serving.Wait()
	cancel()
	return err
}

// Close removes the sockets. After Run it does nothing.
func (s *Server) Close() {
	for _, e := range s.endpoints() {
		e.sock.remove(s.Log)
		e.gate.Close()
	}
	s.lock.unlock()
}

// Counters may be called from any goroutine, after Listen.
func (s *Server) Counters() Counters {
	c := Counters{Refused: s.refused.Load(), Lost: s.lost.Load()}
	for _, e := range s.endpoints() {
		c.Connections += e.gate.open()
		c.Followers += len(e.followers)
	}
	return c
}

// endpoints are those that there are: Listen may have failed halfway.
func (s *Server) endpoints() []*endpoint {
	var all []*endpoint
	for _, e := range []*endpoint{s.status, s.act} {
		if e != nil {
			all = append(all, e)
		}
	}
	return all
}
