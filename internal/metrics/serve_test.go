package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/syncbuf"
	"golang.org/x/sys/unix"
)

// served is a server that listens.
type served struct {
	*Server
	address string
	log     *syncbuf.Buffer
	end     func() // waits for that
}

func serve(t *testing.T, change func(*Server)) *served {
	t.Helper()
	scraper, log := scraper(func(context.Context) (*control.Status, error) { return sample().Status, nil })
	listening := make(chan net.Addr, 1)
	s := &Server{
		Address: netip.MustParseAddrPort("127.0.0.1:0"), Scraper: scraper,
		Log: slog.New(slog.NewTextHandler(log, nil)), listening: func(a net.Addr) { listening <- a },
	}
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	end := func() { cancel(); <-done }
	t.Cleanup(end)
	select {
	case a := <-listening:
		return &served{s, a.String(), log, end}
	case <-time.After(patience):
		t.Fatalf("it doesn't listen: %s", log)
	}
	return nil
}

// send sends a request as it is, and returns all that comes back.
func (s *served) send(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, request)
	check(t, err)
	answer, err := io.ReadAll(conn)
	if !errors.Is(err, unix.ECONNRESET) { // as not all of the request was read
		check(t, err)
	}
	return string(answer)
}

func TestScrape(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r, err := http.Get("http://" + s.address + Path)
	check(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	check(t, err)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != control.MetricsType || !r.Close {
		t.Errorf("%s, %v, closed: %v", r.Status, r.Header, r.Close)
	}
	if len(parse(t, text)) != len(Families()) {
		t.Errorf("read:\n%s", text)
	}
}

// All addresses of IPv4 are none of IPv6: a firewall may know of the former only.
func TestIPv4Alone(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *Server) { s.Address, s.Exposed = netip.MustParseAddrPort("0.0.0.0:0"), true })
	_, port, err := net.SplitHostPort(s.address)
	check(t, err)
	for host, want := range map[string]bool{"127.0.0.1": true, "::1": false} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Only GET of the one path is answered, and to nobody who may be a page in a browser.
func TestWhoMayScrape(t *testing.T) {
	t.Parallel()
	local, exposed := serve(t, nil), serve(t, func(s *Server) { s.Exposed = true })
	for _, test := range []struct {
		name, request string
		local         int
		exposed       int // 0: likewise
	}{
		{"by the address", "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:10911", 200, 0},
		{"by another address", "GET /metrics HTTP/1.1\r\nHost: 192.0.2.1", 200, 0},
		{"by IPv6", "GET /metrics HTTP/1.1\r\nHost: [::1]:10911", 200, 0},
		{"by IPv6 without a port", "GET /metrics HTTP/1.1\r\nHost: [::1]", 200, 0},
		{"by name", "GET /metrics HTTP/1.1\r\nHost: localhost:10911", 200, 0},
		{"typed in", "GET /metrics HTTP/1.1\r\nHost: localhost:10911\r\nSec-Fetch-Site: none", 200, 0},
		{"with a query", "GET /metrics?x=y HTTP/1.1\r\nHost: localhost", 200, 0},
		{"rebound", "GET /metrics HTTP/1.1\r\nHost: attacker.example:10911", 403, 200},
		{"rebound, a look-alike", "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.attacker.example", 403, 200},
		{"without a name", "GET /metrics HTTP/1.0", 403, 200},
		{"a page", "GET /metrics HTTP/1.1\r\nHost: localhost:10911\r\nSec-Fetch-Site: cross-site", 403, 403},
		{"a page that is rebound", "GET /metrics HTTP/1.1\r\nHost: localhost:10911\r\nSec-Fetch-Site: same-origin", 403, 403},
		{"a script", "GET /metrics HTTP/1.1\r\nHost: localhost:10911\r\nOrigin: http://attacker.example", 403, 403},
		{"POST", "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0", 405, 0},
		{"HEAD", "HEAD /metrics HTTP/1.1\r\nHost: localhost", 405, 0},
		{"OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: localhost", 404, 0},
		{"another path", "GET / HTTP/1.1\r\nHost: localhost", 404, 0},
		{"of a control socket", "GET /v1/status HTTP/1.1\r\nHost: localhost", 404, 0},
		{"a path that leads there", "GET /x/../metrics HTTP/1.1\r\nHost: localhost", 404, 0},
		{"no HTTP", "hello", 400, 0},
		{"a long header", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10), 431, 0},
	} {
		if test.exposed == 0 {
			test.exposed = test.local
		}
		for s, want := range map[*served]int{local: test.local, exposed: test.exposed} {
			answer := s.send(t, test.request+"\r\n\r\n")
			if code := fmt.Sprintf(" %d ", want); !strings.HasPrefix(answer, "HTTP/1.") || !strings.Contains(answer[:16], code) {
				t.Errorf("%s, exposed %v: %.40q, want%s", test.name, s.Exposed, answer, code)
			}
			if strings.Contains(answer, "tailban_healthy") != (want == 200) || strings.Contains(answer, "Access-Control") {
				t.Errorf("%s, exposed %v: %q", test.name, s.Exposed, answer)
			}
		}
	}
}

// Those who take nothing, send nothing or come in crowds keep neither the daemon nor
// others from it, and their end doesn't have to be waited for.
func TestSlowScrapers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var silent []net.Conn
	for range maxConns - 1 {
		conn, err := net.Dial("tcp", s.address)
		check(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}
	_, err := io.WriteString(silent[0], "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") // and takes nothing
	check(t, err)
	if answer := s.send(t, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.Contains(answer, "tailban_healthy") {
		t.Errorf("%q", answer)
	}
	crowd, err := net.Dial("tcp", s.address) // with it there are as many as may be
	check(t, err)
	defer crowd.Close()
	begun := time.Now()
	if answer := s.send(t, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.Contains(answer, "tailban_healthy") {
		t.Errorf("%q", answer)
	}
	if took := time.Since(begun); took > 2*requestTimeout {
		t.Errorf("one beyond the crowd waited %v", took)
	}
	begun = time.Now()
	s.end()
	if took := time.Since(begun); took > grace+time.Second {
		t.Errorf("the end took %v", took)
	}
}

// While another program has the port, that is said once, and the daemon goes on; once
// it is free, scrapes are answered.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	scraper, log := scraper(func(context.Context) (*control.Status, error) { return sample().Status, nil })
	listening := make(chan net.Addr, 1)
	s := &Server{
		Address: netip.MustParseAddrPort(other.Addr().String()), Scraper: scraper, Log: slog.New(slog.NewTextHandler(log, nil)),
		listening: func(a net.Addr) { listening <- a }, retry: time.Millisecond,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	tries := 0
	var first time.Time
	s.failed = func() {
		since, err := s.Failing()
		if tries++; tries == 1 {
			first = since
		}
		if err == nil || since.IsZero() || !since.Equal(first) {
			t.Errorf("try %d: since %v, %v", tries, since, err)
		}
		if tries == 3 {
			other.Close()
		}
	}
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	select {
	case <-listening:
	case <-time.After(patience):
		t.Fatalf("it doesn't listen: %s", log)
	}
	if since, err := s.Failing(); err != nil {
		t.Errorf("it listens, and is failing since %v: %v", since, err)
	}
	r, err := http.Get("http://" + s.Address.String() + Path)
	check(t, err)
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
	cancel()
	<-done
	if n := strings.Count(log.String(), "address already in use"); n != 1 {
		t.Errorf("it was said %d times: %s", n, log)
	}
	if !strings.Contains(log.String(), "metrics can be scraped") {
		t.Errorf("said: %s", log)
	}
}

// An answer that nobody takes is given up.
func TestAnswerNotTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *Server) { s.taken = 50 * time.Millisecond })
	s.Scraper.text, s.Scraper.until = make([]byte, 64<<20), time.Now().Add(time.Hour) // more than buffers hold
	givenUp := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // which itself waits for ever
		defer close(givenUp)
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	check(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	check(t, err)
	select {
	case <-givenUp:
	case <-time.After(patience):
		t.Error("it waits for it to be taken")
	}
}
