//go:build linux

package actions_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// iptablesLab is a lab with iptables at the server.
type iptablesLab struct {
	*lab
	opt    actions.IptablesOptions
	action *actions.Iptables
}

// inIptablesLab runs a test with each variant. before is what the administrator
// has done: arguments of iptables and ip6tables, a line each.
func inIptablesLab(t *testing.T, opt actions.IptablesOptions, before string, f func(l *iptablesLab)) {
	t.Helper()
	variants(t, func(t *testing.T, with actions.IptablesOptions) {
		opt := opt // the other variant has its own
		opt.Variant = with.Variant
		l := &iptablesLab{lab: newBareLab(t), opt: opt}
		l.admin(before)
		l.action = preparedIptables(t, l.server, opt)
		f(l)
	})
}

// admin does what an administrator would, in both families.
func (l *iptablesLab) admin(lines string) {
	l.Helper()
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		for _, program := range []string{"iptables-", "ip6tables-"} {
			do(l.T, l.server, program+l.opt.Variant+" "+line)
		}
	}
}

func TestIptablesDropsOnItsPortsOnly(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		for _, port := range []string{"80", "443", "22"} {
			l.echo(l.server, port)
			l.mustPass("tcp", "10.1.0.2", port)
			l.mustPass("udp", "10.1.0.2", port)
		}
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		for _, network := range []string{"tcp", "udp"} {
			l.mustDrop(network, "10.1.0.2", "80")
			l.mustDrop(network, "10.1.0.2", "443")
			l.mustPass(network, "10.1.0.2", "22")
			l.mustPass(network, "10.1.0.3", "80")
		}
		check(l.T, l.action.Apply(l.Context(), nil, []netip.Prefix{pfx("10.1.0.2/32")}))
		l.mustPass("tcp", "10.1.0.2", "80")
		apply(l.T, l.action, ban("10.1.0.2/31", time.Hour))
		l.mustDrop("udp", "10.1.0.2", "80")
		l.mustDrop("udp", "10.1.0.3", "80")
	})
}

// More ports than one rule can name.
func TestIptablesManyPorts(t *testing.T) {
	t.Parallel()
	opt := actions.IptablesOptions{}
	for p := range 40 {
		opt.Ports = append(opt.Ports, uint16(1000+p))
	}
	inIptablesLab(t, opt, "", func(l *iptablesLab) {
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		for _, port := range []string{"1000", "1014", "1015", "1039"} {
			l.echo(l.server, port)
			l.mustDrop("udp", "10.1.0.2", port)
			l.mustPass("udp", "10.1.0.3", port)
		}
		l.echo(l.server, "1040")
		l.mustPass("udp", "10.1.0.2", "1040")
	})
}

func TestIptablesAllPorts(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{AllPorts: true}, "", func(l *iptablesLab) {
		l.echo(l.server, "22")
		l.mustPass("tcp", "10.1.0.2", "22")
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		l.mustDrop("tcp", "10.1.0.2", "22")
		l.mustPass("tcp", "10.1.0.3", "22")
	})
}

func TestIptablesIPv6(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		l.echo(l.server, "80")
		apply(l.T, l.action, ban("fd00:1:0:2::2/128", time.Hour))
		l.mustDrop("tcp", "fd00:1:0:2::2", "80")
		l.mustPass("tcp", "fd00:1:0:2:f000::3", "80")

		apply(l.T, l.action, ban("fd00:1:0:2::/64", time.Hour))
		l.mustDrop("tcp", "fd00:1:0:2:f000::3", "80")
		l.mustDrop("udp", "fd00:1:0:2:f000::3", "80")
		l.mustPass("tcp", "fd00:1:0:3::2", "80")

		apply(l.T, l.action, ban("fd00:1:0:2::/63", time.Hour))
		l.mustDrop("tcp", "fd00:1:0:3::2", "80")
	})
}

// An established connection is cut, although a rule of the administrator's lets
// those pass.
func TestIptablesCutsEstablished(t *testing.T) {
	t.Parallel()
	before := "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
	inIptablesLab(t, actions.IptablesOptions{}, before, func(l *iptablesLab) {
		l.echo(l.server, "80")
		for _, to := range []string{"10.1.0.1:80", "[fd00:1::1]:80"} {
			c, err := l.client.Dialer()(l.Context(), "tcp", to)
			check(l.T, err)
			defer c.Close()
			if !l.roundTrip(c, patience) {
				l.Fatal("the connection does not work to begin with")
			}
			apply(l.T, l.action, ban(c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr().String()+hostBits(to), time.Hour))
			if l.roundTrip(c, quiet) {
				l.Errorf("an established connection to %s survives the ban", to)
			}
		}
	})
}

func hostBits(to string) string {
	if strings.HasPrefix(to, "[") {
		return "/128"
	}
	return "/32"
}

func TestIptablesRepliesToUsPass(t *testing.T) {
	t.Parallel()
	before := "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
	inIptablesLab(t, actions.IptablesOptions{}, before, func(l *iptablesLab) {
		l.echo(l.server, "80")
		l.echo(l.client, "80")
		l.mustPass("tcp", "10.1.0.2", "80")
		check(l.T, l.action.Prepare(l.Context())) // it sees that connections are tracked
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		l.mustDrop("tcp", "10.1.0.2", "80")
		l.mustReply(l.server, "10.1.0.2:80")
	})
}

// Who is allowed passes although banned, but not what the administrator drops
// behind our rules.
func TestIptablesAllowed(t *testing.T) {
	t.Parallel()
	before := "-A INPUT -p tcp --dport 443 -j DROP"
	opt := actions.IptablesOptions{Allow: []netip.Prefix{pfx("10.1.0.2/31"), pfx("10.1.0.2/32"), pfx("fd00:1:0:2::/64")}}
	inIptablesLab(t, opt, before, func(l *iptablesLab) {
		l.echo(l.server, "80")
		l.echo(l.server, "443")
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour), ban("fd00:1:0:2::/64", time.Hour), ban("fd00:1:0:3::/64", time.Hour))
		l.mustPass("tcp", "10.1.0.2", "80")
		l.mustPass("tcp", "fd00:1:0:2::2", "80")
		l.mustDrop("tcp", "fd00:1:0:3::2", "80")
		l.mustDrop("tcp", "10.1.0.2", "443")
		l.mustDrop("tcp", "fd00:1:0:2::2", "443")

		check(l.T, l.action.SetAllow(l.Context(), []netip.Prefix{pfx("fd00:1:0:3::2/128")}))
		l.mustDrop("tcp", "10.1.0.2", "80")
		l.mustDrop("tcp", "fd00:1:0:2::2", "80")
		l.mustPass("tcp", "fd00:1:0:3::2", "80")
		check(l.T, l.action.SetAllow(l.Context(), []netip.Prefix{pfx("0.0.0.0/0"), pfx("::/0"), pfx("10.0.0.0/8")}))
		l.mustPass("tcp", "10.1.0.2", "80")
		l.mustPass("tcp", "fd00:1:0:2::2", "80")
		check(l.T, l.action.Prepare(l.Context()))
		if l.action.Repairs() != 0 {
			l.Error("Prepare takes our own change for damage")
		}
	})
}

// Counters count what was dropped, not what passed on other ports, and a ban
// that is renewed keeps them.
func TestIptablesCountsPackets(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		l.echo(l.server, "22")
		l.echo(l.server, "80")
		bans := []actions.Entry{
			ban("10.1.0.2/32", time.Hour), ban("10.1.0.3/32", time.Hour), ban("fd00:1:0:2::/64", time.Hour),
			ban("fd00:1:0:3::2/128", time.Hour),
		}
		apply(l.T, l.action, bans...)
		l.mustDrop("udp", "10.1.0.2", "80")
		l.mustDrop("udp", "fd00:1:0:2::2", "80")
		l.mustDrop("udp", "fd00:1:0:3::2", "80")
		l.mustPass("udp", "10.1.0.3", "22")
		apply(l.T, l.action, bans...)
		got := listed(l.T, l.action)
		for target, want := range map[string]uint64{"10.1.0.2/32": 1, "10.1.0.3/32": 0, "fd00:1:0:2::/64": 1, "fd00:1:0:3::2/128": 1} {
			if p := got[target].Packets; p != want {
				l.Errorf("%s: %d packets counted, want %d", target, p, want)
			}
			e, yes, err := l.action.Held(l.Context(), pfx(target))
			if err != nil || !yes || e.Packets != want {
				l.Errorf("%s: held as %+v, %t, %v", target, e, yes, err)
			}
		}
	})
}

func TestIptablesReject(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{Reject: true}, "", func(l *iptablesLab) {
		l.echo(l.server, "80")
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour), ban("fd00:1:0:2::/64", time.Hour))
		for _, from := range []string{"10.1.0.2", "fd00:1:0:2::2"} {
			l.mustBeRefused("tcp", from)
			l.mustBeRefused("udp", from)
		}
		l.mustPass("tcp", "10.1.0.3", "80")
	})
}

// mustBeRefused fails unless who connects is told so.
func (l *iptablesLab) mustBeRefused(network, from string) {
	l.Helper()
	to, local := "10.1.0.1:80", netip.MustParseAddr(from)
	if local.Is6() {
		to = "[fd00:1::1]:80"
	}
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	c, err := l.client.DialerFrom(local)(ctx, network, to)
	if err == nil {
		defer c.Close()
		check(l.T, c.SetDeadline(time.Now().Add(patience)))
		_, err = c.Write([]byte("x"))
		check(l.T, err)
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		l.Errorf("%s from %s: %v, want it refused", network, from, err)
	}
}

func TestIptablesEndsWithoutUs(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		l.echo(l.server, "80")
		apply(l.T, l.action, ban("10.1.0.2/32", 3*time.Second), ban("10.1.0.3/32", time.Hour))
		check(l.T, l.action.Close())
		l.mustDrop("tcp", "10.1.0.2", "80")
		l.mustPass("tcp", "10.1.0.2", "80") // SYNs are repeated until the ban is over
		l.mustDrop("tcp", "10.1.0.3", "80")
	})
}

// No packet comes through while a ban is renewed, nor while the rules become
// those of another configuration, nor while a set becomes larger.
func TestIptablesLeavesNoGap(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		l.noGap(2000, func(int) { apply(l.T, l.action, ban("10.1.0.2/32", time.Hour)) })
	})
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		l.noGap(6, func(i int) {
			opt := l.opt
			opt.Ports = []uint16{80, uint16(1000 + i)}
			opt.Size = 2000 + i
			a := preparedIptables(l.T, l.server, opt)
			if _, ok := listed(l.T, a)["10.1.0.2/32"]; !ok {
				l.Error("the ban has got lost")
			}
		})
	})
}

// No packet comes past our jump while it is put first again.
func TestIptablesLeavesNoGapBeforeItsJump(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		const above = " INPUT -p tcp --dport 25 -j ACCEPT"
		l.noGap(15, func(i int) {
			do(l.T, l.server, "iptables-"+l.opt.Variant+" -I"+above)
			a := preparedIptables(l.T, l.server, l.opt) // anew: one would take it for a fight
			if got := do(l.T, l.server, "iptables-"+l.opt.Variant+" -S INPUT"); !strings.Contains(got, "ACCEPT\n-A INPUT -j TAILBAN\n") || strings.Count(got, "TAILBAN") != 1 {
				l.Errorf("it is not first:\n%s", got)
			}
			check(l.T, a.Close())
		})
	})
}

// routed is a client, a router with the action and a container behind it, as
// Docker has them: what is sent to port 80 of the router goes to port 8080 of
// the container.
func routed(l *iptablesLab) (container *netlab.NS) {
	container = newNS(l.T)
	check(l.T, netlab.Link(l.server, pfx("10.2.0.1/24"), container, pfx("10.2.0.2/24")))
	check(l.T, container.DefaultRoute(netip.MustParseAddr("10.2.0.1")))
	check(l.T, l.server.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	do(l.T, l.server, "iptables-"+l.opt.Variant+" -t nat -A PREROUTING -p tcp -d 10.1.0.1 --dport 80 -j DNAT --to-destination 10.2.0.2:8080")
	return container
}

// docker are the rules that Docker makes at its start, the newest above the
// others.
const docker = `
-N DOCKER-FORWARD
-A DOCKER-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-FORWARD -j ACCEPT
-P FORWARD DROP
-I FORWARD -j DOCKER-FORWARD
-N DOCKER-USER
-A DOCKER-USER -j RETURN
-I FORWARD -j DOCKER-USER
`

func TestIptablesForwarded(t *testing.T) {
	t.Parallel()
	plain := "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	for name, before := range map[string]string{"plain": plain, "docker": docker} {
		t.Run(name, func(t *testing.T) {
			inIptablesLab(t, actions.IptablesOptions{}, before, func(l *iptablesLab) {
				container := routed(l)
				l.echo(container, "8080")
				c, err := l.client.DialerFrom(netip.MustParseAddr("10.1.0.2"))(l.Context(), "tcp", "10.1.0.1:80")
				check(l.T, err)
				defer c.Close()
				if !l.roundTrip(c, patience) {
					l.Fatal("the connection does not work to begin with")
				}
				check(l.T, l.action.Prepare(l.Context())) // it sees that connections are tracked
				apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
				if l.roundTrip(c, quiet) {
					l.Error("an established connection to a container survives the ban")
				}
				l.mustDrop("tcp", "10.1.0.2", "80")
				l.mustPass("tcp", "10.1.0.3", "80")
				if l.action.Repairs() != 0 {
					l.Error("what begins to be tracked was taken for damage")
				}
				l.repliesToAContainer(container)
			})
		})
	}
}

// repliesToAContainer fails unless a container can use what a banned host serves.
func (l *iptablesLab) repliesToAContainer(container *netlab.NS) {
	l.Helper()
	check(l.T, l.client.DefaultRoute(netip.MustParseAddr("10.1.0.1")))
	l.echo(l.client, "80")
	do(l.T, l.server, "iptables-"+l.opt.Variant+" -I FORWARD -s 10.2.0.2 -j ACCEPT")
	l.mustReply(container, "10.1.0.2:80")
}

// mustReply fails unless a namespace can use what is served elsewhere.
func (l *iptablesLab) mustReply(from *netlab.NS, to string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	c, err := from.Dialer()(ctx, "tcp", to)
	if err == nil {
		defer c.Close()
	}
	if err != nil || !l.roundTrip(c, patience) {
		l.Errorf("replies of a banned host at %s are dropped: %v", to, err)
	}
}

// Docker that starts after us puts its rules above our jump in FORWARD. The next
// Prepare repairs that, and then leaves it alone however often Docker starts.
func TestIptablesDockerStartsLater(t *testing.T) {
	t.Parallel()
	inIptablesLab(t, actions.IptablesOptions{}, "", func(l *iptablesLab) {
		container := routed(l)
		l.admin(docker)
		l.echo(container, "8080")
		l.mustPass("tcp", "10.1.0.2", "80")
		apply(l.T, l.action, ban("10.1.0.2/32", time.Hour))
		check(l.T, l.action.Prepare(l.Context()))
		l.mustDrop("tcp", "10.1.0.2", "80")

		check(l.T, l.action.Prepare(l.Context()))
		repairs := l.action.Repairs()
		l.admin("-D FORWARD -j DOCKER-USER\n-I FORWARD -j DOCKER-USER")
		l.mustDrop("tcp", "10.1.0.2", "80")
		check(l.T, l.action.Prepare(l.Context()))
		if got := l.action.Repairs(); got != repairs {
			l.Error("Docker's own jump above ours was taken for damage")
		}
		// Between Docker's rules ours would come too late, without DOCKER-USER.
		l.admin("-D FORWARD -j DOCKER-FORWARD\n-I FORWARD -j DOCKER-FORWARD")
		check(l.T, l.action.Prepare(l.Context()))
		if got := l.action.Repairs(); got != repairs+1 {
			l.Error("a rule above ours was not noticed")
		}
	})
}
