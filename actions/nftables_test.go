//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	"github.com/tailban/tailban/internal/netlab"
)

func newNS(t *testing.T) *netlab.NS {
	t.Helper()
	n, err := netlab.New()
	if err != nil {
		t.Skip("needs network namespaces: ", err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func newNftables(t *testing.T, ns *netlab.NS, opt actions.NftablesOptions) *actions.Nftables {
	t.Helper()
	opt.NetNS = ns.FD()
	n := actions.NewNftables(opt)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func prepared(t *testing.T, ns *netlab.NS, opt actions.NftablesOptions) *actions.Nftables {
	t.Helper()
	n := newNftables(t, ns, opt)
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func ban(s string, left time.Duration) actions.Entry {
	return actions.Entry{Target: pfx(s), Left: left}
}

func apply(t *testing.T, n actions.Action, add ...actions.Entry) {
	t.Helper()
	if err := n.Apply(t.Context(), add, nil); err != nil {
		t.Fatal(err)
	}
}

// listed returns the targets an action holds, with their entries.
func listed(t *testing.T, n actions.Action) map[string]actions.Entry {
	t.Helper()
	entries, err := n.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]actions.Entry{}
	for _, e := range entries {
		m[e.Target.String()] = e
	}
	return m
}

func TestNftablesSuite(t *testing.T) {
	t.Parallel()
	actionstest.Run(t, func(t *testing.T) actions.Action {
		return newNftables(t, newNS(t), actions.NftablesOptions{})
	})
}

func TestNftablesSuiteReject(t *testing.T) {
	t.Parallel()
	actionstest.Run(t, func(t *testing.T) actions.Action {
		return newNftables(t, newNS(t), actions.NftablesOptions{Reject: true})
	})
}

func TestNftablesSuiteOldKernel(t *testing.T) {
	t.Parallel()
	actionstest.Run(t, func(t *testing.T) actions.Action {
		n := newNftables(t, newNS(t), actions.NftablesOptions{})
		actions.ActAsOldKernel(n)
		return n
	})
}

func TestNftablesRejectsOthersOnly(t *testing.T) {
	t.Parallel()
	protect := func(target netip.Prefix) (string, bool) {
		return "the gateway", target == pfx("192.0.2.1/32")
	}
	n := prepared(t, newNS(t), actions.NftablesOptions{Protected: protect})
	bad := []string{"10.0.0.0/7", "2000::/15", "192.0.2.1/24", "2001:db8::1/48", "2001:db8::1/64", "::ffff:192.0.2.7/128", "0.0.0.0/0", "192.0.2.1/32"}
	batch := []actions.Entry{ban("198.51.100.1/32", time.Hour), {Left: time.Hour}}
	for _, s := range bad {
		batch = append(batch, ban(s, time.Hour))
	}
	batch = append(batch, ban("2001:db8::/64", time.Hour))

	err := n.Apply(t.Context(), batch, nil)
	var rejected *actions.RejectedError
	if !errors.As(err, &rejected) || len(rejected.Rejected) != len(bad)+1 {
		t.Fatalf("Apply returned %v, want %d rejections", err, len(bad)+1)
	}
	for _, target := range []error{actions.ErrPermanent, actions.ErrUnsupported, actions.ErrProtected} {
		if !errors.Is(err, target) {
			t.Errorf("the error does not wrap %q: %v", target, err)
		}
	}
	for _, r := range rejected.Rejected {
		want := actions.ErrUnsupported
		if r.Target == pfx("192.0.2.1/32") {
			want = actions.ErrProtected
		}
		if !errors.Is(r.Err, want) {
			t.Errorf("%s was rejected with %v, want %v", r.Target, r.Err, want)
		}
	}
	if got := listed(t, n); len(got) != 2 {
		t.Errorf("the action holds %v, want the two good ones", got)
	}
	if s := n.Stats(); s.Protected != 1 || s.Unsupported != uint64(len(bad)) {
		t.Errorf("counted %+v, want 1 protected and %d unsupported", s, len(bad))
	}
}

// What has become protected after it was banned must not stay banned.
func TestNftablesProtectedLater(t *testing.T) {
	t.Parallel()
	protected := false
	n := prepared(t, newNS(t), actions.NftablesOptions{
		Protected: func(netip.Prefix) (string, bool) { return "yours", protected },
	})
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	protected = true
	err := n.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", 2*time.Hour)}, nil)
	if !errors.Is(err, actions.ErrProtected) || !strings.Contains(err.Error(), "yours") {
		t.Errorf("Apply returned %v, want the reason", err)
	}
	if got := listed(t, n); len(got) != 0 {
		t.Errorf("the action still holds %v", got)
	}
}

func TestNftablesFullSet(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{Size: 100})
	var batch []actions.Entry
	for i := range 250 {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		batch = append(batch, actions.Entry{Target: netip.PrefixFrom(a, 32), Left: time.Hour})
	}
	batch = append(batch, ban("2001:db8::/64", time.Hour))
	err := n.Apply(t.Context(), batch, nil)
	if !errors.Is(err, unix.ENFILE) || errors.Is(err, actions.ErrPermanent) {
		t.Fatalf("Apply returned %v, want ENFILE that can be retried", err)
	}
	for _, part := range []string{"ban4", "full", "100"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := listed(t, n)
	if len(got) != 101 {
		t.Errorf("the action holds %d bans, want the set filled and the IPv6 one", len(got))
	}
	if _, ok := got["2001:db8::/64"]; !ok {
		t.Error("a full set has kept another from being changed")
	}
	if err := n.Apply(t.Context(), nil, []netip.Prefix{pfx("10.9.9.9/32"), pfx("2001:db8::/64")}); err != nil {
		t.Errorf("removing what is absent from a full set: %v", err)
	}
}

func TestNftablesBeforePrepare(t *testing.T) {
	t.Parallel()
	n := newNftables(t, newNS(t), actions.NftablesOptions{})
	if err := n.Apply(t.Context(), nil, nil); err == nil {
		t.Error("Apply before Prepare returned nil")
	}
	if _, err := n.List(t.Context()); err == nil {
		t.Error("List before Prepare returned nil")
	}
}

func TestNftablesBadAllow(t *testing.T) {
	t.Parallel()
	n := newNftables(t, newNS(t), actions.NftablesOptions{Allow: []netip.Prefix{pfx("::ffff:192.0.2.1/128")}})
	if err := n.Prepare(t.Context()); !errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "::ffff:192.0.2.1") {
		t.Errorf("Prepare returned %v, want the bad network named", err)
	}
	if err := n.SetAllow(t.Context(), []netip.Prefix{{}}); err == nil {
		t.Error("SetAllow of the zero prefix returned nil")
	}
}

// The netlink library panics with descriptors of 1024 and more.
func TestNftablesManyOpenFiles(t *testing.T) {
	ns := newNS(t)
	n := newNftables(t, ns, actions.NftablesOptions{})
	editor, err := nftables.New(nftables.WithNetNSFd(ns.FD()), nftables.AsLasting())
	check(t, err)
	defer editor.CloseLasting()
	fillDescriptors(t)
	for round := range 3 {
		if err := n.Prepare(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		openFiles(t, 10) // whatever low descriptors are to be had are taken
		apply(t, n, ban("192.0.2.1/32", time.Hour))
		if len(listed(t, n)) != 1 {
			t.Fatalf("round %d: nothing listed", round)
		}
		editor.FlushRuleset() // the next Apply fails, and the connection is made anew
		check(t, editor.Flush())
		if err := n.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil); err == nil {
			t.Fatal("Apply without a table returned nil")
		}
		if actions.Connected(n) {
			t.Fatal("the connection was kept after an error")
		}
	}
}

func TestNftablesNoLowDescriptor(t *testing.T) {
	ns := newNS(t)
	fillDescriptors(t)
	n := newNftables(t, ns, actions.NftablesOptions{})
	err := n.Prepare(t.Context())
	if err == nil || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "descriptor below 1024") {
		t.Errorf("Prepare returned %v, want an error that can be retried", err)
	}
}

// fillDescriptors opens files until descriptors reach beyond 1024.
func fillDescriptors(t *testing.T) {
	t.Helper()
	top := openFiles(t, 1100)
	if top < 1024 {
		t.Fatalf("descriptors only reach %d, the test proves nothing", top)
	}
}

// openFiles opens files until the end of the test and returns the last one's
// descriptor.
func openFiles(t *testing.T, count int) (last int) {
	t.Helper()
	for range count {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			t.Skip("needs a limit of more than 1200 open files")
		}
		check(t, err)
		t.Cleanup(func() { f.Close() })
		last = int(f.Fd())
	}
	return last
}

// What the table is like is a promise to administrators who add their own.
func TestNftablesRuleset(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	prepared(t, ns, actions.NftablesOptions{Size: 1000})
	got := dump(t, ns, "tailban")
	at := 0
	for _, want := range []string{
		"table tailban flags 0\n",
		`set ban4 ipv4_addr timeout=true interval=false size=1000 "banned IPv4 addresses (tailban 1)"`,
		`set ban6 ipv6_addr timeout=true interval=false size=1000 "banned IPv6 /64 networks (tailban 1)"`,
		`set host6 ipv6_addr timeout=true interval=false size=1000 "banned IPv6 addresses (tailban 1)"`,
		`set net4 ipv4_addr timeout=true interval=true size=2048 "banned IPv4 networks (tailban 1)"`,
		`set net6 ipv6_addr timeout=true interval=true size=2048 "banned IPv6 networks (tailban 1)"`,
		`set allow4 ipv4_addr timeout=false interval=true`,
		`set allow6 ipv6_addr timeout=false interval=true`,
		"chain prerouting filter hook 0 priority -295 policy 1\n",
		`rule "let pass allow4 (`, `rule "let pass allow6 (`,
		`rule "drop ban4 (`, `rule "drop ban6 (`, `rule "drop host6 (`,
		`rule "drop net4 (`, `rule "drop net6 (`,
	} {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order in\n%s", want, got)
		}
		at += i + len(want)
	}
	if strings.Count(got, "rule ") != 7 || strings.Count(got, "chain ") != 1 {
		t.Errorf("there is more than that:\n%s", got)
	}
}

func TestNftablesRulesetThatRejects(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{Reject: true})
	got := dump(t, ns, "tailban")
	at := 0
	for _, want := range []string{"let pass allow4", "let pass allow6", "reset ban4", "reject ban4", "reset ban6", "reject ban6",
		"reset host6", "reject host6", "reset net4", "reject net4", "reset net6", "reject net6"} {
		i := strings.Index(got[at:], fmt.Sprintf("rule %q", want)[:len(want)+6])
		if i < 0 {
			t.Fatalf("%q is missing or out of order in\n%s", want, got)
		}
		at += i
	}
	if strings.Count(got, "rule ") != 12 {
		t.Errorf("there is more than that:\n%s", got)
	}
	check(t, n.Prepare(t.Context()))
	if n.Stats().Repairs != 0 {
		t.Error("a second Prepare found something to repair")
	}
}

func TestTeardown(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	opt := actions.NftablesOptions{NetNS: ns.FD()}
	if existed, err := actions.Teardown(t.Context(), opt); err != nil || existed {
		t.Errorf("without a table: %v, %v", existed, err)
	}
	foreign := addForeign(t, ns)
	n := prepared(t, ns, opt)
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	if existed, err := actions.Teardown(t.Context(), opt); err != nil || !existed {
		t.Errorf("with a table: %v, %v", existed, err)
	}
	if got := dump(t, ns, "tailban"); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if got := dump(t, ns, foreignTable); got != foreign {
		t.Errorf("another table was touched:\n%s\nwant\n%s", got, foreign)
	}
}

func countFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(names)
}

// The kernel goes on making room in a set after many additions, and names
// some elements twice and others not at all meanwhile.
func TestNftablesListRightAfterManyAdditions(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	var batch []actions.Entry
	for i := range 60000 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		batch = append(batch, actions.Entry{Target: netip.PrefixFrom(a, 32), Left: time.Hour})
	}
	apply(t, n, batch...)
	if got := len(listed(t, n)); got != len(batch) {
		t.Errorf("%d bans are listed, want %d", got, len(batch))
	}
}

// A daemon that ends in the middle of a batch still applies its last changes.
func TestNftablesAppliesAfterCancellation(t *testing.T) {
	t.Parallel()
	n := prepared(t, newNS(t), actions.NftablesOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Apply(ctx, []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil); err == nil {
		t.Fatal("Apply with a context that is done returned nil")
	}
	apply(t, n, ban("192.0.2.2/32", time.Hour))
	if held := listed(t, n); len(held) != 1 {
		t.Errorf("held are %v", held)
	}
}
