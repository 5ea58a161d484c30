package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/tailban/tailban/internal/control"
	"golang.org/x/net/netutil"
)

// Path is where the metrics are.
const Path = "/metrics"

// Bounds on what those who scrape can make the daemon keep.
const (
	maxConns       = 16
	maxHeader      = 8 << 10
	requestTimeout = 5 * time.Second  // for a request to arrive
	writeTimeout   = 5 * time.Second  // for its answer to be taken
	wholeTimeout   = 30 * time.Second // for all of that, whatever happens
	grace          = time.Second      // for answers to be taken at the end
)

// retry is after what time an address that could not be had is tried again.
const retry = 10 * time.Second

// Server answers scrapes at an address.
type Server struct {
	Address netip.AddrPort

	// Exposed says that others than this machine may scrape, by whatever name
	// they know it.
	Exposed bool

	Scraper *Scraper
	Log     *slog.Logger

	failing atomic.Pointer[failure] // nil: it listens, or has not tried yet

	// For tests.
	listening func(net.Addr) // is told of it; may be nil
	failed    func()         // likewise of an address that can't be had
	retry     time.Duration  // in place of retry, unless it is 0
	taken     time.Duration  // in place of writeTimeout, unless it is 0
}

type failure struct {
	err   error
	since time.Time
}

// Failing returns since when the address can't be had, and why; nil if it can.
func (s *Server) Failing() (since time.Time, err error) {
	if f := s.failing.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}

// Run answers until ctx is done. While the address can't be had, as another
// program uses it, it says so once and tries again.
func (s *Server) Run(ctx context.Context) {
	for {
		err := s.serve(ctx, func() {
			s.failing.Store(nil)
			s.Log.Info("metrics can be scraped", "address", s.Address.String(), "path", Path)
		})
		if ctx.Err() != nil {
			return
		}
		since, before := s.Failing()
		if before == nil {
			since = time.Now()
		}
		s.failing.Store(&failure{err, since})
		if before == nil || err.Error() != before.Error() {
			s.Log.Warn("metrics can't be scraped, trying again until they can", "address", s.Address.String(), "err", err)
		}
		if s.failed != nil {
			s.failed()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(cmp.Or(s.retry, retry)):
		}
	}
}

// serve answers until ctx is done or that fails. It calls begun when it listens.
func (s *Server) serve(ctx context.Context, begun func()) error {
	network := "tcp"
	if s.Address.Addr().Is4() {
		network = "tcp4" // or else 0.0.0.0 is every IPv6 address, too
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, network, s.Address.String())
	if err != nil {
		return err
	}
	begun()
	if s.listening != nil {
		s.listening(l.Addr())
	}
	server := &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            requestTimeout,
		ReadTimeout:                  requestTimeout,
		WriteTimeout:                 wholeTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	// A connection is for one scrape, so that nobody can keep them all.
	server.SetKeepAlivesEnabled(false)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if server.Shutdown(within) != nil {
			server.Close()
		}
	})
	err = server.Serve(netutil.LimitListener(l, maxConns))
	if !stop() {
		<-ended
	}
	return err
}

// ServeHTTP answers a scrape.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	switch {
	case r.URL.Path != Path:
		http.Error(w, "there is nothing here but "+Path, http.StatusNotFound)
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		http.Error(w, Path+" takes GET", http.StatusMethodNotAllowed)
	case fromPage(r) || !s.Exposed && !isLocalName(r.Host):
		http.Error(w, "not for pages of others: ask by the address", http.StatusForbidden)
	default:
		s.answer(w, r)
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	text, err := s.Scraper.Text(r.Context())
	if err != nil {
		http.Error(w, "too many scrapes at a time", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", control.MetricsType)
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(cmp.Or(s.taken, writeTimeout))); err != nil {
		return
	}
	_, _ = w.Write(text) // who has gone away needs no answer
}

// fromPage reports whether a browser asks for something that a page does, and not
// for a person who has typed the address in.
func fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") != "" || site != "" && site != "none"
}

// isLocalName reports whether a Host header is an address or localhost. A page can
// have a name of its own lead to this machine, and then read what it answers; a
// browser sends that name.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}
