package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// gate is a listener that lets in a bounded number of connections, in all and
// per user, and knows whose they are. Those beyond it are told so and closed.
type gate struct {
	net.Listener
	limits
	perUser int // 0: no limit
	refused *atomic.Uint64
	telling chan struct{} // a token for each that is being told

	mu    sync.Mutex
	total int
	users map[uint32]int
}

func newGate(l net.Listener, refused *atomic.Uint64, t limits) *gate {
	return &gate{
		Listener: l, limits: t, refused: refused,
		telling: make(chan struct{}, maxTurnedOff), users: map[uint32]int{},
	}
}

// Accept returns the next connection that is within the limits, as a *peer.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		caller, err := callerOf(conn)
		if err != nil {
			conn.Close() // gone already, and nobody is let in without a name
			continue
		}
		if reason := g.enter(caller.UID); reason != "" {
			g.refused.Add(1)
			g.turnOff(conn, reason)
			continue
		}
		return &peer{Conn: conn, caller: caller, leave: sync.OnceFunc(func() { g.leave(caller.UID) })}, nil
	}
}

// enter counts a connection, or says why there can't be one.
func (g *gate) enter(uid uint32) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.total >= maxConns:
		return fmt.Sprintf("%d connections are open, and more are not taken", maxConns)
	case g.perUser > 0 && g.users[uid] >= g.perUser:
		return fmt.Sprintf("%d connections of the user with the number %d are open, and more are not taken", g.perUser, uid)
	}
	g.total++
	g.users[uid]++
	return ""
}

func (g *gate) leave(uid uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.users[uid]--; g.users[uid] == 0 {
		delete(g.users, uid)
	}
}

func (g *gate) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}

// turnOff says why a connection is closed. The answer comes after the request,
// as clients expect, and the rest of that is read before the end: closing
// sooner would make the kernel take the answer away. Where many come at a
// time, most are just closed.
func (g *gate) turnOff(conn net.Conn, reason string) {
	select {
	case g.telling <- struct{}{}:
	default:
		conn.Close()
		return
	}
	go func() {
		defer func() { <-g.telling }()
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(min(g.header, time.Second)))
		if _, err := conn.Read(make([]byte, 4<<10)); err != nil {
			return
		}
		body, _ := json.Marshal(errorAnswer{&Error{
			Code: CodeBusy, Message: reason, Hint: "end some, such as those that follow events, or try again",
		}})
		fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), len(body), body)
		if c, ok := conn.(*net.UnixConn); ok {
			c.CloseWrite()
		}
		io.Copy(io.Discard, io.LimitReader(conn, maxBody))
	}()
}

// peer is a connection of somebody.
type peer struct {
	net.Conn
	caller Caller
	leave  func()
}

func (p *peer) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// callerOf asks the kernel who connected (SO_PEERCRED in unix(7)).
func callerOf(conn net.Conn) (Caller, error) {
	sys, ok := conn.(*net.UnixConn)
	if !ok {
		return Caller{}, fmt.Errorf("%T is no unix socket", conn)
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return Caller{}, err
	}
	var cred *unix.Ucred
	ctrl := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if ctrl != nil {
		return Caller{}, ctrl
	}
	if err != nil {
		return Caller{}, err
	}
	return Caller{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid}, nil
}

// callerKey is that of the Caller in the context of a connection.
type callerKey struct{}

func withCaller(ctx context.Context, conn net.Conn) context.Context {
	if p, ok := conn.(*peer); ok {
		ctx = context.WithValue(ctx, callerKey{}, p.caller)
	}
	return ctx
}

func callerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
