//go:build linux

package actions_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	"github.com/tailban/tailban/internal/netlab"
)

const (
	protected = nftables.TableFlagOwner | nftables.TableFlagPersist
	orphaned  = nftables.TableFlagPersist
)

func flagsOf(t *testing.T, ns *netlab.NS) nftables.TableFlags {
	t.Helper()
	var flags nftables.TableFlags
	edit(t, ns, func(c *nftables.Conn) {
		table, err := c.ListTableOfFamily(ourTable.Name, ourTable.Family)
		check(t, err)
		flags = table.Flags
	})
	return flags
}

func (l *lab) wantFlags(want nftables.TableFlags) {
	l.Helper()
	if got := flagsOf(l.T, l.server); got != want {
		l.Errorf("the table has the flags %d, want %d", got, want)
	}
}

// needsProtection skips where the kernel has no such flags.
func needsProtection(t *testing.T) {
	t.Helper()
	ns := newNS(t)
	c, err := nftables.New(nftables.WithNetNSFd(ns.FD()), nftables.AsLasting())
	check(t, err)
	defer c.CloseLasting()
	c.AddTable(&nftables.Table{Name: "x", Family: nftables.TableFamilyINet, Flags: protected})
	if err := c.Flush(); err != nil {
		t.Skip("needs a kernel that protects tables: ", err)
	}
}

func newProtected(t *testing.T) *lab {
	t.Helper()
	needsProtection(t)
	l := &lab{T: t, server: newNS(t)}
	l.action = prepared(t, l.server, actions.NftablesOptions{Protect: true, Size: 100})
	apply(t, l.action, ban("192.0.2.1/32", time.Hour), ban("203.0.113.0/24", time.Hour))
	l.wantFlags(protected)
	return l
}

// wantBans fails unless the two bans are held, with their time, by an action
// whose table nobody has repaired.
func (l *lab) wantBans(n *actions.Nftables) {
	l.Helper()
	got := listed(l.T, n)
	if len(got) != 2 || got["192.0.2.1/32"].Left < 50*time.Minute || got["203.0.113.0/24"].Left < 50*time.Minute {
		l.Errorf("the action holds %v", got)
	}
	if r := n.Stats().Repairs; r != 0 {
		l.Errorf("%d repairs are counted", r)
	}
}

func TestNftablesSuiteProtected(t *testing.T) {
	t.Parallel()
	actionstest.Run(t, func(t *testing.T) actions.Action {
		return newNftables(t, newNS(t), actions.NftablesOptions{Protect: true})
	})
}

func TestNftablesSuiteWithoutProtection(t *testing.T) {
	t.Parallel()
	actionstest.Run(t, func(t *testing.T) actions.Action {
		n := newNftables(t, newNS(t), actions.NftablesOptions{Protect: true, Reject: true})
		actions.ActAsUnprotecting(n)
		return n
	})
}

// Others can look and change nothing, and flushing the ruleset leaves it.
func TestNftablesProtected(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	before := dump(t, l.server, "tailban")
	for name, change := range map[string]func(c *nftables.Conn){
		"add an element": func(c *nftables.Conn) {
			check(t, c.SetAddElements(ourBan4, []nftables.SetElement{{Key: []byte{192, 0, 2, 3}}}))
		},
		"flush the rules":  func(c *nftables.Conn) { c.FlushChain(ourChain) },
		"delete the table": func(c *nftables.Conn) { c.DelTable(ourTable) },
		"switch it off": func(c *nftables.Conn) {
			c.AddTable(&nftables.Table{Name: ourTable.Name, Family: ourTable.Family, Flags: nftables.TableFlagDormant})
		},
	} {
		c, err := nftables.New(nftables.WithNetNSFd(l.server.FD()))
		check(t, err)
		change(c)
		if err := c.Flush(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	addForeign(t, l.server)
	flushRuleset(t, l.server)
	if got := dump(t, l.server, foreignTable); got != "" {
		t.Error("nothing was flushed, the test proves nothing")
	}
	if got := dump(t, l.server, "tailban"); got != before {
		t.Errorf("the table was changed:\n%s\nwant\n%s", got, before)
	}
	check(t, l.action.Prepare(t.Context()))
	l.wantBans(l.action)
	if got := dump(t, l.server, "tailban"); got != before {
		t.Errorf("a second Prepare has changed the table:\n%s\nwant\n%s", got, before)
	}
}

// Listing and looking up are done over other sockets as well.
func TestNftablesProtectedIsReadByOthers(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	for _, opt := range []actions.NftablesOptions{{Size: 100}, {Size: 100, Protect: true}} {
		other := newNftables(t, l.server, opt)
		l.wantBans(other)
		for _, n := range []*actions.Nftables{l.action, other} {
			for target, want := range map[string]bool{"192.0.2.1/32": true, "203.0.113.0/24": true, "192.0.2.2/32": false} {
				if _, yes, err := n.Held(t.Context(), pfx(target)); err != nil || yes != want {
					t.Errorf("%s is held: %t, %v; want %t", target, yes, err, want)
				}
			}
		}
	}
}

// Closing leaves the table with its bans, and the next start has it.
func TestNftablesProtectedIsAdopted(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	check(t, l.action.Close())
	l.wantFlags(orphaned)
	l.wantBans(newNftables(t, l.server, actions.NftablesOptions{Size: 100}))

	next := prepared(t, l.server, actions.NftablesOptions{Protect: true, Size: 100})
	l.wantFlags(protected)
	l.wantBans(next)
	check(t, next.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.1/32"), pfx("203.0.113.0/24")}))
	if got := listed(t, next); len(got) != 0 {
		t.Errorf("the action holds %v", got)
	}
}

// After an error the connection is another one. Nobody has repaired anything
// then.
func TestNftablesProtectedReconnects(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	before := dump(t, l.server, "tailban")
	for range 3 {
		var many []actions.Entry
		for i := range 150 {
			many = append(many, actions.Entry{Target: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32), Left: time.Hour})
		}
		if err := l.action.Apply(t.Context(), many, nil); !errors.Is(err, unix.ENFILE) || actions.Connected(l.action) {
			t.Fatalf("Apply returned %v, want a full set and the connection dropped", err)
		}
		l.wantFlags(orphaned)
		listed(t, l.action) // connects, and does not change anything
		l.wantFlags(orphaned)
		check(t, l.action.Prepare(t.Context()))
		l.wantFlags(protected)
		var gone []netip.Prefix
		for _, e := range many {
			gone = append(gone, e.Target)
		}
		check(t, l.action.Apply(t.Context(), nil, gone))
		l.wantBans(l.action)
		if got := dump(t, l.server, "tailban"); got != before {
			t.Fatalf("the table has changed:\n%s\nwant\n%s", got, before)
		}
	}
	// What happens to it meanwhile is repaired as ever, and protected again.
	check(t, l.action.Close())
	edit(t, l.server, func(c *nftables.Conn) { c.FlushChain(ourChain) })
	check(t, l.action.Prepare(t.Context()))
	check(t, l.action.Close())
	flushRuleset(t, l.server)
	check(t, l.action.Prepare(t.Context()))
	l.wantFlags(protected)
	if r := l.action.Stats().Repairs; r != 2 {
		t.Errorf("%d repairs are counted, want 2", r)
	}
}

// A table without flags, as earlier versions made it, is made again. The way
// back needs nothing: without an owner the flag left means nothing.
func TestNftablesProtectionIsSwitched(t *testing.T) {
	t.Parallel()
	needsProtection(t)
	l := &lab{T: t, server: newNS(t)}
	off, on := actions.NftablesOptions{Size: 100}, actions.NftablesOptions{Size: 100, Protect: true}
	bans := []actions.Entry{ban("192.0.2.1/32", time.Hour), ban("203.0.113.0/24", time.Hour)}
	n := prepared(t, l.server, off)
	l.wantFlags(0)
	apply(t, n, bans...)
	check(t, n.Close())

	n = prepared(t, l.server, on)
	l.wantFlags(protected)
	apply(t, n, bans...)
	l.wantBans(n)
	check(t, n.Close())

	n = prepared(t, l.server, off)
	l.wantFlags(orphaned)
	l.wantBans(n)
	edit(t, l.server, func(c *nftables.Conn) { // anybody may change it
		check(t, c.SetDeleteElements(ourBan4, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}}}))
		c.AddTable(&nftables.Table{Name: ourTable.Name, Family: ourTable.Family, Flags: orphaned | nftables.TableFlagDormant})
	})
	check(t, n.Prepare(t.Context()))
	l.wantFlags(orphaned)
	check(t, n.Close())

	edit(t, l.server, func(c *nftables.Conn) {
		c.AddTable(&nftables.Table{Name: ourTable.Name, Family: ourTable.Family, Flags: orphaned | nftables.TableFlagDormant})
	})
	n = prepared(t, l.server, on)
	l.wantFlags(protected)
	apply(t, n, bans...)
	l.wantBans(n)
}

func wantOwned(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, actions.ErrTableOwned) || !errors.Is(err, unix.EPERM) || errors.Is(err, actions.ErrPermanent) {
		t.Fatalf("got %v, want that the table is another's, and to be tried again", err)
	}
	for _, part := range []string{"table inet tailban", "another program owns", "protect_table", "stop it", "netlink port "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("the error hints at a capability: %v", err)
	}
}

// A second action of the table, whose lock was not to be had, waits until the
// first is closed, and changes nothing before.
func TestNftablesProtectedFromAnother(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	before := dump(t, l.server, "tailban")
	second := newNftables(t, l.server, actions.NftablesOptions{Size: 100, Protect: true})
	third := newNftables(t, l.server, actions.NftablesOptions{Size: 100})
	for _, n := range []*actions.Nftables{second, third} {
		wantOwned(t, n.Prepare(t.Context()))
		l.wantBans(n)
		wantOwned(t, n.Apply(t.Context(), []actions.Entry{ban("192.0.2.9/32", time.Hour)}, nil))
	}
	if got := dump(t, l.server, "tailban"); got != before {
		t.Errorf("the table was changed:\n%s\nwant\n%s", got, before)
	}
	check(t, l.action.Close())
	check(t, second.Prepare(t.Context()))
	l.wantFlags(protected)
	l.wantBans(second)
	wantOwned(t, l.action.Prepare(t.Context())) // now it is the other way round
}

func TestTeardownOfProtected(t *testing.T) {
	t.Parallel()
	l := newProtected(t)
	_, err := actions.Teardown(t.Context(), actions.NftablesOptions{NetNS: l.server.FD()})
	wantOwned(t, err)
	l.wantBans(l.action)
	check(t, l.action.Close())
	if existed, err := actions.Teardown(t.Context(), actions.NftablesOptions{NetNS: l.server.FD()}); err != nil || !existed {
		t.Errorf("when nobody owns it: %v, %v", existed, err)
	}
	if got := dump(t, l.server, "tailban"); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

// Where the kernel has no such flags, that is said once, and nothing else is
// other than without the option: a table that is there stays.
func TestNftablesKernelCannotProtect(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		ns := newNS(t)
		if there {
			n := prepared(t, ns, actions.NftablesOptions{})
			apply(t, n, ban("192.0.2.1/32", time.Hour))
			check(t, n.Close())
		}
		var log bytes.Buffer
		n := newNftables(t, ns, actions.NftablesOptions{Protect: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		actions.ActAsUnprotecting(n)
		check(t, n.Prepare(t.Context()))
		if got := len(listed(t, n)); got != map[bool]int{true: 1}[there] {
			t.Errorf("table there %t: %d bans are held", there, got)
		}
		if got := flagsOf(t, ns); got != 0 {
			t.Errorf("the table has the flags %d", got)
		}
		for range 2 {
			check(t, n.Close())
			flushRuleset(t, ns)
			check(t, n.Prepare(t.Context()))
		}
		if got := strings.Count(log.String(), "cannot protect the table"); got != 1 {
			t.Errorf("said %d times, want once:\n%s", got, log.String())
		}
	}
}
