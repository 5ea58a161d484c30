package refresh

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/internal/syncbuf"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server serves lists, in memory, so that time can be the test's own.
type server struct {
	*http.Transport
	conns chan net.Conn
	http  *http.Server

	mu     sync.Mutex
	pages  map[string]http.HandlerFunc // by URL without its scheme
	asked  map[string][]time.Time
	begun  time.Time
	now    int // requests whose answers are not done with
	atOnce int // most at a time
	plain  int // connections that were not encrypted
}

func newServer(t *testing.T) *server {
	s := &server{conns: make(chan net.Conn), pages: map[string]http.HandlerFunc{}, asked: map[string][]time.Time{}, begun: time.Now()}
	dial := func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case s.conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.Transport = &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: false,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			s.mu.Lock()
			s.plain++
			s.mu.Unlock()
			return dial(ctx)
		},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	s.http = &http.Server{Handler: s}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.http.Serve(&listener{conns: s.conns, closed: make(chan struct{})}) // it ends with the test
	}()
	t.Cleanup(func() {
		s.http.Close()
		<-ended
	})
	return s
}

// RoundTrip counts requests where they are made: a server learns some time later that
// one has been given up.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.now++
	s.atOnce = max(s.atOnce, s.now)
	s.mu.Unlock()
	done := sync.OnceFunc(func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	})
	resp, err := s.Transport.RoundTrip(req)
	if err != nil {
		done()
		return nil, err
	}
	resp.Body = &counted{resp.Body, done}
	return resp, nil
}

type counted struct {
	io.ReadCloser
	done func()
}

func (c *counted) Close() error {
	defer c.done()
	return c.ReadCloser.Close()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	url := r.Host + r.URL.Path
	s.asked[url] = append(s.asked[url], time.Now())
	page := s.pages[url]
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

// serve has a URL answered so from now on.
func (s *server) serve(url string, page http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[url] = page
}

// times returns when a URL was asked for, and forgets it.
func (s *server) times(url string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.asked, url)
	return s.asked[url]
}

// listener is one whose connections come from a channel.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, errors.New("closed")
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// page answers with a text, once and for all as long as it stays the same.
func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") != "tailban" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		w.Write([]byte(text))
	}
}

// tagged answers so as well, and knows who has it.
func tagged(tag, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Write([]byte(text))
	}
}

// text writes ranges one a line.
func text(ranges []netip.Prefix) string {
	var b strings.Builder
	for _, p := range ranges {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func builtIn(name string) []netip.Prefix {
	p, _ := lists.Lookup(name)
	return p.Prefixes
}

func more(ranges []netip.Prefix, texts ...string) []netip.Prefix {
	out := append([]netip.Prefix{}, ranges...)
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// rig is a Refresher that runs in a bubble.
type rig struct {
	*testing.T
	*Refresher
	*server
	dir     string
	log     *syncbuf.Buffer
	options Options

	mu      sync.Mutex
	changed int
	waits   []string
	cancel  context.CancelFunc
	done    chan struct{}
}

const every = 24 * time.Hour

// newRig makes one that keeps some lists current, and doesn't start it.
func newRig(t *testing.T, all ...List) *rig {
	newest := ""
	for _, name := range lists.Names() {
		p, _ := lists.Lookup(name)
		newest = max(newest, p.Date)
	}
	day, err := time.Parse(time.DateOnly, newest)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(day.Add(every))) // what is fetched before that is older than what is built in
	return &rig{T: t, server: newServer(t), dir: t.TempDir(), log: &syncbuf.Buffer{}, options: Options{Every: every, Lists: all}}
}

func list(name string, strict bool, sources ...string) List {
	for i := range sources {
		sources[i] = "https://" + sources[i]
	}
	return List{Name: name, Sources: sources, Strict: strict}
}

func (r *rig) start() {
	o := r.options
	o.StateDir, o.Transport, o.Log = r.dir, r.server, slog.New(slog.NewTextHandler(r.log, nil))
	o.Changed = func(context.Context) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed++
	}
	o.Waits = func(name, why string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waits = append(r.waits, name+": "+why)
	}
	r.Refresher = New(o)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(r.Context())
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		r.Refresher.Run(ctx)
	}()
	synctest.Wait()
}

func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// inUse returns a list as it is used by what is stored.
func (r *rig) inUse(name string) *lists.Provider {
	r.Helper()
	s, err := lists.Load(r.dir, name)
	if err != nil {
		r.Fatal(err)
	}
	built, _ := lists.Lookup(name)
	return s.InUse(built, r.list[0].Strict)
}

// stored returns what is.
func (r *rig) stored(name string) *lists.Stored {
	r.Helper()
	s, err := lists.Load(r.dir, name)
	if err != nil || s == nil {
		r.Fatalf("%+v, %v", s, err)
	}
	return s
}

// said counts what the log says.
func (r *rig) said(n int, what string) {
	r.Helper()
	if got := strings.Count(r.log.String(), what); got != n {
		r.Errorf("%q was said %d times, want %d:\n%s", what, got, n, r.log)
	}
}

// changes returns how often something has changed since the last call.
func (r *rig) changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.changed = 0 }()
	return r.changed
}
