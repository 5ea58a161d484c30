package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

const (
	logPath = "/var/log/nginx/access.log"
	banFor  = 8 * time.Second // instead of the example's hour
	patient = 300 * time.Millisecond
)

// The people of the play. Addresses are from ranges for documentation.
var (
	visitorIP = netip.MustParseAddr("198.51.100.10")
	flooderIP = netip.MustParseAddr("203.0.113.66")
)

// stage is what the demonstration runs on.
type stage struct {
	start            time.Time
	server           *netlab.NS
	visitor, flooder *client
	firewall         *actions.Nftables // to look only
	daemon           *daemon
}

// show runs the demonstration. Its error says which promise was not kept.
func show(ctx context.Context, binary, config string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := build()
	if err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	s.daemon, err = startDaemon(ctx, s.server, binary, config, "TAILBAN_BAN_WEB="+banFor.String())
	if err != nil {
		return err
	}
	defer s.daemon.stop(syscall.SIGTERM)
	s.say("tailban runs on %s; TAILBAN_BAN_WEB=%s shortens its hour, so that you see it end", config, banFor)
	if err := s.play(ctx); err != nil {
		return fmt.Errorf("%w\nthe daemon said:\n%s", err, s.daemon.log.String())
	}
	return nil
}

func (s *stage) say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// build makes a server with two neighbours.
func build() (*stage, error) {
	s := &stage{start: time.Now()}
	var err error
	if s.server, err = netlab.New(); err != nil {
		return nil, err
	}
	join := func(server, addr netip.Addr) (*client, error) {
		ns, err := netlab.New()
		if err != nil {
			return nil, err
		}
		if err := netlab.Link(s.server, netip.PrefixFrom(server, 24), ns, netip.PrefixFrom(addr, 24)); err != nil {
			return nil, err
		}
		return newClient(ns, server, addr, patient), nil
	}
	if s.visitor, err = join(netip.MustParseAddr("198.51.100.1"), visitorIP); err != nil {
		return nil, err
	}
	if s.flooder, err = join(netip.MustParseAddr("203.0.113.1"), flooderIP); err != nil {
		return nil, err
	}
	s.firewall = actions.NewNftables(actions.NftablesOptions{NetNS: s.server.FD()})
	s.say("made a web server and two clients, in network namespaces: visitor %s, flooder %s", visitorIP, flooderIP)
	return s, nil
}

// serve runs the web server, which logs as nginx does.
func (s *stage) serve(ctx context.Context) error {
	f, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	l, err := s.server.Listen("tcp", ":80")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const page = "hello\n"
		fmt.Fprint(w, page)
		peer, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(f, "%s - - [%s] \"%s %s %s\" 200 %d \"-\" %q\n", peer, time.Now().Format("02/Jan/2006:15:04:05 -0700"),
			r.Method, r.RequestURI, r.Proto, len(page), r.UserAgent())
	})}
	context.AfterFunc(ctx, func() { srv.Close() })
	go func() { _ = srv.Serve(l) }()
	return nil
}

// packets returns how many packets of the flooder were dropped, and whether
// it is banned.
func (s *stage) packets(ctx context.Context) (n uint64, banned bool) {
	entries, err := s.firewall.List(ctx)
	if err != nil {
		return 0, false
	}
	for _, e := range entries {
		if e.Target.Contains(flooderIP) {
			return e.Packets, true
		}
	}
	return 0, false
}

// play is the demonstration itself.
func (s *stage) play(ctx context.Context) error {
	for range 3 {
		if !s.visitor.get(ctx) || !s.flooder.get(ctx) {
			return errors.New("a request did not pass although nobody is banned")
		}
	}
	s.say("both get their pages")
	if err := s.flood(ctx); err != nil {
		return err
	}
	banned := time.Now()
	if err := s.watch(ctx, banned); err != nil {
		return err
	}
	s.say("the visitor noticed nothing; nobody had to lift the ban")
	return nil
}

// flood has the flooder ask as fast as it can until no answer comes.
func (s *stage) flood(ctx context.Context) error {
	s.say("the flooder starts")
	answered := 3
	for s.flooder.get(ctx) {
		if answered++; answered > 5000 {
			return errors.New("the flooder was never banned")
		}
	}
	s.say("the flooder gets no answer any more, after %d requests (the limit is 50 in 60 s)", answered)
	if _, yes := s.packets(ctx); !yes {
		return errors.New("the flooder gets no answer, but is not banned")
	}
	b, ok := s.daemon.banned()
	if !ok {
		return errors.New("tailban did not say that it banned the flooder")
	}
	s.say("tailban banned %s at its request %d within %s, until %s", b.Target, b.Count, b.Window, b.Until)
	return nil
}

// watch has both go on until the ban is over.
func (s *stage) watch(ctx context.Context, banned time.Time) error {
	var last uint64
	var said time.Time
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !s.visitor.get(ctx) {
			return errors.New("the visitor got no answer")
		}
		if s.flooder.get(ctx) {
			break
		}
		n, yes := s.packets(ctx)
		if yes {
			last = n
		}
		if time.Since(said) > 1500*time.Millisecond {
			said = time.Now()
			s.say("visitor: page    flooder: nothing, %d packets dropped so far", last)
		}
		if time.Since(banned) > 2*banFor {
			return errors.New("the ban did not end")
		}
	}
	if last == 0 {
		return errors.New("no packet was dropped")
	}
	if d := time.Since(banned); d < banFor/2 {
		return fmt.Errorf("the ban ended after %v already", d)
	}
	s.say("the ban is over: the flooder gets its page again")
	return nil
}
