package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tailban/tailban/actions"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// What cloudflare.toml names as well.
const (
	edgeDir   = "/var/lib/demo"
	tokenPath = edgeDir + "/cloudflare-token"
	apiAddr   = "127.0.0.1:8787"
	apiBase   = "http://" + apiAddr + "/client/v4"
	listName  = "tailban"
	lease     = 5 * time.Minute
	limit     = 50
)

const (
	// An answer through the edge is late when the machine has much to do. That none
	// comes is what the forger is to see.
	edgePatient, forgerPatient = 5 * time.Second, time.Second
)

// Who is where. The edge comes to the origin from an address of Cloudflare's.
var (
	originIP   = netip.MustParseAddr("10.0.0.10")
	edgeIP     = netip.MustParseAddr("173.245.48.5")
	monitorIP  = netip.MustParseAddr("192.0.2.200")
	offenderIP = flooderIP
	helperIP   = netip.MustParseAddr("203.0.113.67")
	helper6    = netip.MustParseAddr("2001:db8:66::66")
	forgerIP   = netip.MustParseAddr("203.0.113.77")
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// edgeStage is what is shown about Cloudflare.
type edgeStage struct {
	start          time.Time
	binary, config string

	origin, edge *netlab.NS
	visitor      *client
	monitor      *client
	offender     *client
	helpers      []*client
	forger       *client

	clock    *clock
	api      *fake.Server
	firewall *actions.Nftables // to look only
	daemon   *daemon
	deadline time.Time // of the rule, as it was last seen
	told     int       // requests that were told of
	stops    []func()
}

// showCloudflare shows bans at an edge. Its error says at which step what was not
// seen.
func showCloudflare(ctx context.Context, binary, config string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("all in all it takes too long"))
	defer cancel()
	s := &edgeStage{start: time.Now(), binary: binary, config: config, clock: &clock{}}
	defer s.close()
	for i, x := range s.steps() {
		fmt.Printf("%2d. %s\n", i+1, x.title)
		if err := s.play(ctx, x); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	fmt.Printf("All of this was seen, in %.0f s; nothing of it is left on this machine.\n", time.Since(s.start).Seconds())
	return nil
}

func (s *edgeStage) play(ctx context.Context, x step) error {
	err := x.do(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.api != nil {
		s.tellAPI()
	}
	if err != nil && s.daemon != nil {
		return fmt.Errorf("%w\nthe daemon said:\n%s", err, s.daemon.log.String())
	}
	return err
}

func (s *edgeStage) close() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

func (s *edgeStage) say(format string, args ...any) {
	fmt.Printf("%9.2fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// tellAPI tells of requests since it last did.
func (s *edgeStage) tellAPI() {
	log, _ := s.api.Requests()
	fmt.Printf("%9s   API: %s\n", "", tell(log[s.told:]))
	s.told = len(log)
}

// build makes the networks, the double, the edge and nginx.
func (s *edgeStage) build(ctx context.Context) error {
	if err := os.MkdirAll(edgeDir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(tokenPath, []byte(fake.Secret), 0o600); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.api = fake.New(fake.Options{Now: s.clock.now, Seed: 1})
	s.firewall = actions.NewNftables(actions.NftablesOptions{NetNS: s.origin.FD()})
	s.stops = append(s.stops, func() { s.firewall.Close() })
	if err := s.serve(s.origin, apiAddr, s.api.Handler()); err != nil {
		return err
	}
	proxy := newEdge(s.api, s.clock, fake.ZoneID, netip.AddrPortFrom(originIP, 80), s.edge.DialerFrom(edgeIP))
	if err := s.serve(s.edge, ":80", proxy); err != nil {
		return err
	}
	stop, err := startNginx(ctx, s.origin, edgeDir)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, stop)
	// What others have at Cloudflare is to stay as it is.
	_, err = s.api.AddForeignRule(fake.ZoneID, fake.Rule{
		Action: "block", Expression: `(http.request.uri.path eq "/.env")`, Description: foreignRule,
	})
	return err
}

const foreignRule = "by a person"

// connect makes the namespaces: clients reach the edge, the edge the origin, and the
// forger the origin itself.
func (s *edgeStage) connect() (err error) {
	ns := func() (n *netlab.NS) {
		if err == nil {
			n, err = netlab.New()
		}
		return n
	}
	link := func(a *netlab.NS, aAddr string, b *netlab.NS, bAddr string) {
		if err == nil {
			err = netlab.Link(a, netip.MustParsePrefix(aAddr), b, netip.MustParsePrefix(bAddr))
		}
	}
	s.origin, s.edge = ns(), ns()
	visitors, monitors, offenders, forgers := ns(), ns(), ns(), ns()
	link(s.origin, originIP.String()+"/24", s.edge, "10.0.0.1/24")
	link(s.edge, "198.51.100.1/24", visitors, visitorIP.String()+"/24")
	link(s.edge, "192.0.2.1/24", monitors, monitorIP.String()+"/24")
	link(s.edge, "203.0.113.1/24", offenders, offenderIP.String()+"/24")
	link(s.edge, "2001:db8:66::1/64", offenders, helper6.String()+"/64")
	link(s.origin, "203.0.113.1/24", forgers, forgerIP.String()+"/24")
	if err != nil {
		return err
	}
	err = errors.Join(
		s.edge.AddAddr(netlab.LinkName(0), netip.PrefixFrom(edgeIP, 32)),
		s.origin.DefaultRoute(netip.MustParseAddr("10.0.0.1")),
		offenders.AddAddr(netlab.LinkName(0), netip.PrefixFrom(helperIP, 24)),
	)
	s.visitor = newClient(visitors, netip.MustParseAddr("198.51.100.1"), visitorIP, edgePatient)
	s.monitor = newClient(monitors, netip.MustParseAddr("192.0.2.1"), monitorIP, edgePatient)
	s.monitor.header.Set("User-Agent", "shop-check/1.4")
	s.offender = newClient(offenders, netip.MustParseAddr("203.0.113.1"), offenderIP, edgePatient)
	s.helpers = []*client{
		newClient(offenders, netip.MustParseAddr("203.0.113.1"), helperIP, edgePatient),
		newClient(offenders, netip.MustParseAddr("2001:db8:66::1"), helper6, edgePatient),
	}
	s.forger = newClient(forgers, netip.MustParseAddr("203.0.113.1"), forgerIP, forgerPatient)
	s.forger.header.Set("CF-Connecting-IP", visitorIP.String())
	return err
}

// serve serves in a namespace until the end.
func (s *edgeStage) serve(ns *netlab.NS, addr string, h http.Handler) error {
	l, err := ns.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h}
	s.stops = append(s.stops, func() { srv.Close() })
	go func() { _ = srv.Serve(l) }()
	return nil
}

// run starts the daemon.
func (s *edgeStage) run(ctx context.Context) (err error) {
	if s.daemon, err = startDaemon(ctx, s.origin, s.binary, s.config); err == nil {
		s.stops = append(s.stops, func() { s.daemon.stop(syscall.SIGTERM) })
	}
	return err
}

var deadlineIn = regexp.MustCompile(`timestamp\.sec lt (\d+)\)$`)

// rule finds the rule of the list, and its deadline. ok means that it stands behind
// the one that was there before, which is as it was.
func (s *edgeStage) rule() (r fake.Rule, deadline time.Time, ok bool) {
	rules := s.api.Rules(fake.ZoneID)
	if len(rules) != 2 || rules[0].Description != foreignRule || rules[0].Disabled {
		return fake.Rule{}, time.Time{}, false
	}
	m := deadlineIn.FindStringSubmatch(rules[1].Expression)
	if m == nil {
		return fake.Rule{}, time.Time{}, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return rules[1], time.Unix(n, 0), err == nil
}

// listed finds what the list has for an address, and until when.
func (s *edgeStage) listed(a netip.Addr) (it fake.Item, until time.Time, ok bool) {
	for _, it := range s.api.Items(listName) {
		p, err := netip.ParsePrefix(it.IP)
		if err != nil {
			var one netip.Addr
			if one, err = netip.ParseAddr(it.IP); err == nil {
				p = netip.PrefixFrom(one, one.BitLen())
			}
		}
		if err == nil && p.Contains(a) {
			_, end, _ := strings.Cut(it.Comment, " until=")
			until, _ = time.Parse(time.RFC3339, end)
			return it, until, true
		}
	}
	return fake.Item{}, time.Time{}, false
}

// lines counts what nginx has logged of somebody, and returns the last of it. who is
// a part of the line.
func (s *edgeStage) lines(who string) (n int, last string) {
	text, err := os.ReadFile(filepath.Clean(logPath))
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, who) {
			n, last = n+1, strings.TrimSpace(line)
		}
	}
	return n, last
}

// sweep runs the command, as on another machine: without a configuration. want is how
// its answer begins.
func (s *edgeStage) sweep(ctx context.Context, want string) error {
	var out, notes syncbuf.Buffer
	cmd := exec.CommandContext(ctx, s.binary, "cloudflare", "sweep",
		"--account", fake.AccountID, "--token-file", tokenPath, "--api-base", apiBase)
	cmd.Stdout, cmd.Stderr = &out, &notes
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.origin.Start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	if err != nil || !strings.HasPrefix(out.String(), want) {
		return errors.Join(fmt.Errorf("it says %q, and should begin with %q\n%s", out.String(), want, notes.String()), err)
	}
	s.say("%s", strings.TrimSpace(out.String()))
	return nil
}
