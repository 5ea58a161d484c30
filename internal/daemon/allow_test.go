package daemon

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// Even if somebody puts an allowed client into our set, it gets through: the
// chain lets it pass before it looks at bans.
func TestAllowedPassesBeforeBans(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	server := netip.MustParsePrefix("203.0.113.1/24")
	clients := newNS(t)
	check(t, netlab.Link(l.ns, server, clients, netip.MustParsePrefix("203.0.113.7/24")))
	check(t, clients.AddAddr(netlab.LinkName(0), netip.MustParsePrefix("203.0.113.8/24")))
	lis, err := l.ns.Listen("tcp", ":80")
	check(t, err)
	t.Cleanup(func() { lis.Close() })
	connects := func(from string) bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn, err := clients.DialerFrom(netip.MustParseAddr(from))(ctx, "tcp", net.JoinHostPort(server.Addr().String(), "80"))
		if err == nil {
			conn.Close()
		}
		return err == nil
	}

	config := `allow = ["203.0.113.7"]` + "\n" + l.config(firewalled)
	d := l.daemon(config)
	for _, from := range []string{"203.0.113.7", "203.0.113.8"} {
		if !connects(from) {
			t.Fatalf("%s gets no connection before any ban", from)
		}
	}
	d.stop()                                       // it would take out what isn't its own
	_, err = l.firewall.List(context.Background()) // connects
	check(t, err)
	check(t, l.firewall.Apply(context.Background(), []actions.Entry{
		{Target: pfx("203.0.113.7/32"), Left: time.Hour},
		{Target: pfx("203.0.113.8/32"), Left: time.Hour},
	}, nil))
	if !connects("203.0.113.7") {
		t.Error("the allowed client is dropped")
	}
	if connects("203.0.113.8") {
		t.Error("the other client is not")
	}
}
