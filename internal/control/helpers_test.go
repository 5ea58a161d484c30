package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/syncbuf"
)

const patience = 20 * time.Second

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wait looks every few milliseconds whether ok holds.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

// fake is a daemon of functions. What has none is not to be asked.
type fake struct {
	status      func(context.Context) (*Status, error)
	bans        func(context.Context, BansQuery) (*Bans, error)
	explain     func(context.Context, netip.Addr) (*Explanation, error)
	explainLine func(context.Context, LineQuery) (*LineExplanation, error)
	follow      func(context.Context) (<-chan Event, error)
	ban         func(context.Context, Caller, BanRequest) (*BanResult, error)
	unban       func(context.Context, Caller, UnbanRequest) (*UnbanResult, error)
	allow       func(context.Context, Caller, AllowRequest) (*AllowResult, error)
	hold        func(context.Context, Caller, HoldRequest) (*HoldResult, error)
	confirm     func(context.Context, Caller) (*ConfirmResult, error)
	acceptList  func(context.Context, Caller, AcceptListRequest) (*AcceptListResult, error)
	reload      func(context.Context, Caller) (*ReloadResult, error)
}

var errNotAsked = errors.New("not to be asked")

func (f *fake) Status(ctx context.Context) (*Status, error) {
	if f.status == nil {
		return &Status{Version: "fake"}, nil
	}
	return f.status(ctx)
}

func (f *fake) Bans(ctx context.Context, q BansQuery) (*Bans, error) {
	if f.bans == nil {
		return nil, errNotAsked
	}
	return f.bans(ctx, q)
}

func (f *fake) Explain(ctx context.Context, a netip.Addr) (*Explanation, error) {
	if f.explain == nil {
		return nil, errNotAsked
	}
	return f.explain(ctx, a)
}

func (f *fake) ExplainLine(ctx context.Context, q LineQuery) (*LineExplanation, error) {
	if f.explainLine == nil {
		return nil, errNotAsked
	}
	return f.explainLine(ctx, q)
}

func (f *fake) Follow(ctx context.Context) (<-chan Event, error) {
	if f.follow == nil {
		return nil, errNotAsked
	}
	return f.follow(ctx)
}

func (f *fake) Ban(ctx context.Context, c Caller, q BanRequest) (*BanResult, error) {
	if f.ban == nil {
		return nil, errNotAsked
	}
	return f.ban(ctx, c, q)
}

func (f *fake) Unban(ctx context.Context, c Caller, q UnbanRequest) (*UnbanResult, error) {
	if f.unban == nil {
		return nil, errNotAsked
	}
	return f.unban(ctx, c, q)
}

func (f *fake) Allow(ctx context.Context, c Caller, q AllowRequest) (*AllowResult, error) {
	if f.allow == nil {
		return nil, errNotAsked
	}
	return f.allow(ctx, c, q)
}

func (f *fake) Hold(ctx context.Context, c Caller, q HoldRequest) (*HoldResult, error) {
	if f.hold == nil {
		return nil, errNotAsked
	}
	return f.hold(ctx, c, q)
}

func (f *fake) Confirm(ctx context.Context, c Caller) (*ConfirmResult, error) {
	if f.confirm == nil {
		return nil, errNotAsked
	}
	return f.confirm(ctx, c)
}

func (f *fake) AcceptList(ctx context.Context, c Caller, q AcceptListRequest) (*AcceptListResult, error) {
	if f.acceptList == nil {
		return nil, errNotAsked
	}
	return f.acceptList(ctx, c, q)
}

func (f *fake) Reload(ctx context.Context, c Caller) (*ReloadResult, error) {
	if f.reload == nil {
		return nil, errNotAsked
	}
	return f.reload(ctx, c)
}

// rig is a running server.
type rig struct {
	testing.TB
	*Server
	dir    string
	client *Client
	log    *logBook
	stop   func() // and wait
}

// serve runs a server until the test ends.
func serve(t testing.TB, daemon Operator, change ...func(*Server)) *rig {
	t.Helper()
	log := &logBook{}
	r := &rig{TB: t, dir: openTempDir(t), log: log}
	r.client = NewClient(r.dir)
	r.Server = NewServer(Options{Dir: r.dir, Daemon: daemon, Log: slog.New(slog.NewJSONHandler(log, nil))})
	for _, c := range change {
		c(r.Server)
	}
	check(t, r.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not end")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// openTempDir is a directory that other users can look into.
func openTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	return dir
}

func (r *rig) dial(name string) *net.UnixConn {
	r.Helper()
	conn, err := net.Dial("unix", filepath.Join(r.dir, name))
	check(r, err)
	r.Cleanup(func() { conn.Close() })
	check(r, conn.SetDeadline(time.Now().Add(patience)))
	return conn.(*net.UnixConn)
}

// raw sends text as it is and returns all that comes back.
func (r *rig) raw(name, text string) string {
	r.Helper()
	conn := r.dial(name)
	io.WriteString(conn, text) // may be cut off
	back, err := io.ReadAll(conn)
	if os.IsTimeout(err) {
		r.Errorf("the connection stays open after %.60q", text)
	}
	return string(back)
}

// alive checks that the server still answers others.
func (r *rig) alive() {
	r.Helper()
	if s, err := r.client.Status(r.Context()); err != nil || s.Version != "fake" {
		r.Errorf("the server does not answer: %v, %v", s, err)
	}
}

// logBook keeps what is logged, as JSON lines.
type logBook struct{ syncbuf.Buffer }

// said are the messages with that text.
func (b *logBook) said(msg string) (all []map[string]any) {
	for line := range strings.Lines(b.String()) {
		m := map[string]any{}
		if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == msg {
			all = append(all, m)
		}
	}
	return all
}

// codeOf is the code of an *Error.
func codeOf(t testing.TB, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e.Code
}
