package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hasty shortens what a server puts up with.
func hasty(s *Server) {
	s.limits.header = 50 * time.Millisecond
	s.limits.request = 100 * time.Millisecond
	s.limits.idle = 50 * time.Millisecond
	s.limits.write = 100 * time.Millisecond
	s.limits.follow = 100 * time.Millisecond
}

// Whatever comes, it is answered with words or closed, soon, and others are
// served.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{
		hold: func(_ context.Context, _ Caller, q HoldRequest) (*HoldResult, error) {
			return &HoldResult{Jail: q.Jail}, nil
		},
	}, hasty)
	const host = " HTTP/1.1\r\nHost: tailban\r\nConnection: close\r\n"
	for _, test := range []struct {
		name, sent, want string
		theirs           bool // the answer is that of net/http
	}{
		{"nothing", "", "", true},
		{"garbage", "\x00\xff\x16\x03\x01\r\n\r\n", "400", true},
		{"endless garbage", strings.Repeat("x", 1<<20), "", true},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", true},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404", false},
		{"half a header", "GET /v1/status HTTP/1.1\r\nHo", "", true},
		{"huge header", "GET /v1/status" + host + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431", true},
		{"many headers", "GET /v1/status" + host + strings.Repeat("X: y\r\n", 10000) + "\r\n", "431", true},
		{"huge URL", "GET /v1/bans?jail=" + strings.Repeat("x", 64<<10) + host + "\r\n", "431", true},
		{"no host", "GET /v1/status HTTP/1.1\r\n\r\n", "400", true},
		{"unknown path", get("/v2/\x1b[31m"), "400", true},
		{"unknown verb", get("/v1/panic"), "404", false},
		{"path above", get("/v1/../v1/status"), "404", false},
		{"whole server", "OPTIONS *" + host + "\r\n", "404", false},
		{"method", "DELETE /v1/hold" + host + "\r\n", "405", false},
		{"get for post", get("/v1/hold"), "405", false},
		{"post for get", post("/v1/status", ""), "405", false},
		{"own method", "BREW /v1/status" + host + "\r\n", "405", false},
		{"connect", "CONNECT 192.0.2.1:80" + host + "\r\n", "404", false},
		{"parameter", get("/v1/status?all=1"), "400", false},
		{"metrics where there are none", get("/metrics"), "404", false},
		{"metrics with a parameter", get("/metrics?all=1"), "400", false},
		{"metrics by another method", post("/metrics", ""), "405", false},
		{"broken parameter", get("/v1/bans?jail=%zz"), "400", false},
		{"twice", get("/v1/bans?jail=a&jail=b"), "400", false},
		{"sort", get("/v1/bans?sort=by%20age"), "400", false},
		{"limit", get("/v1/bans?limit=-1"), "400", false},
		{"overlap", get("/v1/bans?overlap=192.0.2.1/24"), "400", false},
		{"no address", get("/v1/explain"), "400", false},
		{"bad address", get("/v1/explain?address=example.com"), "400", false},
		{"huge body", post("/v1/hold", `{"jail":"`+strings.Repeat("x", maxBody)+`"}`), "413", false},
		{"huge length", "POST /v1/hold" + host + "Content-Length: 99999999999\r\n\r\n{}", "4", false},
		{"bad length", "POST /v1/hold" + host + "Content-Length: -1\r\n\r\n", "400", true},
		{"two lengths", "POST /v1/hold" + host + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", true},
		{"endless chunks", "POST /v1/hold" + host + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 100), "413", false},
		{"half a body", "POST /v1/hold" + host + "Content-Length: 100\r\n\r\n{\"jail\":", "408", false},
		{"no body", post("/v1/hold", ""), "400", false},
		{"not JSON", post("/v1/hold", "jail=web"), "400", false},
		{"deep JSON", post("/v1/hold", `{"jail":`+strings.Repeat("[", 60000)+"}"), "400", false},
		{"good", post("/v1/hold", `{"jail":"web"}`), "200", false},
		{"chunked", "POST /v1/hold" + host + "Transfer-Encoding: chunked\r\n\r\ne\r\n{\"jail\":\"web\"}\r\n0\r\n\r\n", "200", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := r.raw(ControlSocket, test.sent)
			if test.want == "" {
				return // closed, or told: net/http decides
			}
			if !strings.HasPrefix(got, "HTTP/1.1 "+test.want) {
				t.Fatalf("the answer is %.60q, want status %s", got, test.want)
			}
			res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
			check(t, err)
			defer res.Body.Close()
			if test.want == "200" || test.theirs {
				return
			}
			var body errorAnswer
			if json.NewDecoder(res.Body).Decode(&body) != nil || body.Error == nil || body.Error.Code == "" || body.Error.Message == "" {
				t.Errorf("the answer gives no reason: %s", got)
			}
		})
	}
	r.alive()
	wait(t, "all connections to end", func() bool { return r.Counters().Connections == 0 })
}

// What there is is listed, where it can be used.
func TestWhatThereIs(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	for _, test := range []struct{ socket, sent, want, not string }{
		{StatusSocket, get("/"), "GET /v1/status", "/v1/ban,"},
		{ControlSocket, get("/"), "POST /v1/reload", "\x00"},
		{StatusSocket, get("/v1/explain-line"), "takes POST, not GET", "\x00"},
		{StatusSocket, post("/v1/reload", "{}"), ControlSocket, "\x00"},
	} {
		got := r.raw(test.socket, test.sent)
		if !strings.Contains(got, test.want) || strings.Contains(got, test.not) {
			t.Errorf("%.20q on %s is answered %s", test.sent, test.socket, got)
		}
	}
}

// Over the status socket nothing can be changed, and the daemon isn't asked.
func TestStatusSocketOnlyLooks(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{
		ban: func(context.Context, Caller, BanRequest) (*BanResult, error) {
			t.Error("the daemon is asked to ban")
			return &BanResult{}, nil
		},
	})
	n := 0
	for _, to := range routes() {
		if !to.changes {
			continue
		}
		n++
		got := r.raw(StatusSocket, post(to.path, `{"target":"192.0.2.1"}`))
		if !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, r.dir+"/"+ControlSocket) || !strings.Contains(got, `"denied"`) {
			t.Errorf("%s is answered %s", to.path, got)
		}
	}
	if n != 7 {
		t.Errorf("%d verbs change things, want 7", n)
	}
}

// A client that sends a byte now and then is cut off when its time is over.
func TestSlowLoris(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, hasty)
	conn := r.dial(StatusSocket)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, conn)
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	io.WriteString(conn, "GET /v1/status HTTP/1.1\r\n")
	for {
		select {
		case <-tick.C:
			io.WriteString(conn, "X: y\r\n")
			continue
		case <-time.After(patience):
			t.Fatal("it is not cut off")
		case <-ended:
		}
		break
	}
	r.alive()
}

// Who closes the own side after the request still gets the answer.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	asked, closed := make(chan struct{}), make(chan struct{})
	r := serve(t, &fake{status: func(ctx context.Context) (*Status, error) {
		close(asked)
		<-closed
		select {
		case <-ctx.Done(): // as the context of the request is soon
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		return &Status{Version: "late"}, nil
	}})
	conn := r.dial(StatusSocket)
	io.WriteString(conn, get("/v1/status"))
	<-asked
	check(t, conn.CloseWrite())
	close(closed)
	back, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(back), `"late"`) {
		t.Errorf("the answer is %s, %v", back, err)
	}
}

// Requests that come at once are answered one after the other.
func TestPipelined(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	keep := strings.Replace(get("/v1/status"), "Connection: close\r\n", "", 1)
	got := r.raw(StatusSocket, strings.Repeat(keep, 49)+get("/v1/status"))
	if n := strings.Count(got, `"version":"fake"`); n != 50 {
		t.Errorf("%d answers, want 50", n)
	}
}

// A user can't take all of the status socket, and on neither socket is there
// more than the bound; who is turned away is told why.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	for _, test := range []struct {
		socket string
		open   int
		reason string
	}{
		{StatusSocket, maxConnsUser, "8 connections of the user"},
		{ControlSocket, maxConns, "32 connections are open"},
	} {
		var conns []net.Conn
		before := r.Counters()
		for range 1000 {
			conn, err := net.Dial("unix", r.dir+"/"+test.socket)
			if err != nil {
				continue // the backlog is full for a moment
			}
			defer conn.Close()
			conns = append(conns, conn)
		}
		wait(t, "the others to be turned away", func() bool {
			c := r.Counters()
			return c.Connections-before.Connections == test.open && int(c.Refused-before.Refused) == len(conns)-test.open
		})
		if test.socket == StatusSocket {
			r.alive() // by the other
		}
		wait(t, "the turned away to be told", func() bool {
			conn, err := net.Dial("unix", r.dir+"/"+test.socket)
			if err != nil {
				return false
			}
			defer conn.Close()
			io.WriteString(conn, get("/v1/status"))
			back, _ := io.ReadAll(conn)
			return strings.HasPrefix(string(back), "HTTP/1.1 503") && strings.Contains(string(back), test.reason)
		})
		if test.socket == ControlSocket {
			wait(t, "the client to be told", func() bool {
				_, err := r.client.Status(t.Context())
				code := codeOf(t, err)
				if code != CodeBusy && code != CodeUnreachable {
					t.Fatalf("a full socket is %v", err)
				}
				return code == CodeBusy
			})
		}
	}
}

// An answer that nobody takes ends, and does not keep its connection.
func TestAnswerNotTaken(t *testing.T) {
	t.Parallel()
	many := make([]Ban, 20_000)
	r := serve(t, &fake{bans: func(context.Context, BansQuery) (*Bans, error) { return &Bans{Bans: many}, nil }}, hasty)
	conn := r.dial(StatusSocket)
	io.WriteString(conn, get("/v1/bans"))
	one := make([]byte, 1)
	if _, err := conn.Read(one); err != nil {
		t.Fatal(err)
	}
	wait(t, "the connection to be given up", func() bool { return r.Counters().Connections == 0 })
	r.alive()
}

// A mistake of the daemon is an answer, and the daemon goes on.
func TestPanics(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{
		ban:    func(context.Context, Caller, BanRequest) (*BanResult, error) { panic("oops") },
		follow: func(context.Context) (<-chan Event, error) { panic("oops") },
		unban:  func(context.Context, Caller, UnbanRequest) (*UnbanResult, error) { return nil, nil },
	})
	_, err := r.client.Ban(t.Context(), BanRequest{Target: oneNet})
	wantError(t, err, CodeInternal, "made a mistake", "report")
	_, err = r.client.Follow(t.Context())
	wantError(t, err, CodeInternal, "made a mistake")
	_, err = r.client.Unban(t.Context(), UnbanRequest{All: true})
	wantError(t, err, CodeInternal, "no answer")
	if said := r.log.said("control request panicked; the daemon goes on"); len(said) != 2 || !strings.Contains(fmt.Sprint(said[0]["stack"]), "TestPanics") {
		t.Errorf("the log does not say where: %s", r.log)
	}
	if said := r.log.said("control"); len(said) != 2 || said[0]["outcome"] != CodeInternal {
		t.Errorf("the request is audited as %v", said)
	}
	r.alive()
}

// A daemon that hangs is given up, and can't be asked without end.
func TestHungDaemon(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	r := serve(t, &fake{hold: func(context.Context, Caller, HoldRequest) (*HoldResult, error) {
		<-hang
		return &HoldResult{}, nil
	}}, func(s *Server) { s.limits.call = time.Millisecond })
	defer close(hang)
	for range maxCalls {
		_, err := r.client.Hold(t.Context(), HoldRequest{Jail: "j"})
		wantError(t, err, CodeBusy, "did not answer in time")
	}
	_, err := r.client.Hold(t.Context(), HoldRequest{Jail: "j"})
	wantError(t, err, CodeBusy, "too many requests are at work")
	if said := r.log.said("control"); len(said) != maxCalls+1 || said[0]["outcome"] != CodeBusy {
		t.Errorf("audited are %d requests: %v", len(said), said[0])
	}
	hang <- struct{}{}
	wait(t, "the late outcome", func() bool { return len(r.log.said("control")) == maxCalls+2 })
	if said := r.log.said("control"); said[maxCalls+1]["outcome"] != "done" {
		t.Errorf("the late outcome is %v", said[maxCalls+1])
	}
}

// A call that waits for its context does not outlive the server.
func TestCallsEndWithTheServer(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	r := serve(t, &fake{status: func(ctx context.Context) (*Status, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}, func(s *Server) { s.limits.grace = 10 * time.Millisecond })
	io.WriteString(r.dial(StatusSocket), get("/v1/status"))
	<-asked
	r.stop()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the call goes on")
	}
}
