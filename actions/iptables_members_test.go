//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

// withIptables runs a test with iptables-nft alone, for what does not depend on
// rules.
func withIptables(t *testing.T, opt actions.IptablesOptions) (*actions.Iptables, *netlab.NS) {
	t.Helper()
	ns := newNS(t)
	opt.Variant = actions.VariantNft
	a := newIptables(t, ns, opt)
	err := a.Prepare(t.Context())
	if err != nil && strings.Contains(err.Error(), "find iptables") {
		t.Skip("needs iptables: ", err)
	}
	check(t, err)
	return a, ns
}

func TestIptablesRejectsOthersOnly(t *testing.T) {
	t.Parallel()
	a, _ := withIptables(t, actions.IptablesOptions{Protected: func(target netip.Prefix) (string, bool) {
		return "the gateway", target == pfx("192.0.2.1/32")
	}})
	bad := []string{"10.0.0.0/7", "2000::/15", "192.0.2.1/24", "2001:db8::1/64", "::ffff:192.0.2.7/128", "0.0.0.0/0", "::/0", "192.0.2.1/32"}
	batch := []actions.Entry{ban("198.51.100.1/32", time.Hour), {Left: time.Hour}}
	for _, s := range bad {
		batch = append(batch, ban(s, time.Hour))
	}
	batch = append(batch, ban("2001:db8::/64", time.Hour))
	err := a.Apply(t.Context(), batch, nil)
	var rejected *actions.RejectedError
	if !errors.As(err, &rejected) || len(rejected.Rejected) != len(bad)+1 {
		t.Fatalf("Apply returned %v, want %d rejections", err, len(bad)+1)
	}
	if got := listed(t, a); len(got) != 2 {
		t.Errorf("the action holds %v, want the two good ones", got)
	}
}

func TestIptablesProtectedLater(t *testing.T) {
	t.Parallel()
	protected := false
	a, _ := withIptables(t, actions.IptablesOptions{
		Protected: func(netip.Prefix) (string, bool) { return "yours", protected },
	})
	apply(t, a, ban("192.0.2.1/32", time.Hour))
	protected = true
	err := a.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", 2*time.Hour)}, nil)
	if !errors.Is(err, actions.ErrProtected) || !strings.Contains(err.Error(), "yours") {
		t.Errorf("Apply returned %v, want the reason", err)
	}
	if got := listed(t, a); len(got) != 0 {
		t.Errorf("the action still holds %v", got)
	}
}

// Networks may overlap, and what a hash:ip can't store is stored elsewhere.
func TestIptablesTargets(t *testing.T) {
	t.Parallel()
	a, ns := withIptables(t, actions.IptablesOptions{})
	in := map[string]string{
		"192.0.2.1/32":       "tailban4 192.0.2.1 ",
		"255.255.255.255/32": "tailban4 255.255.255.255 ",
		"0.0.0.0/32":         "tailban4-net 0.0.0.0 ",
		"192.0.2.0/31":       "tailban4-net 192.0.2.0/31 ",
		"192.0.0.0/8":        "tailban4-net 192.0.0.0/8 ",
		"2001:db8:1:2::/64":  "tailban6 2001:db8:1:2:: ",
		"::/64":              "tailban6-net ::/64 ",
		"::/128":             "tailban6-net :: ",
		"2001:db8::1/128":    "tailban6-host 2001:db8::1 ",
		"2001:db8::/32":      "tailban6-net 2001:db8::/32 ",
		"2001:db8:1::/48":    "tailban6-net 2001:db8:1::/48 ",
		"2001:db8:1:2::/65":  "tailban6-net 2001:db8:1:2::/65 ",
	}
	var all []actions.Entry
	for target := range in {
		all = append(all, ban(target, time.Hour))
	}
	apply(t, a, all...)
	saved := do(t, ns, "ipset save")
	for target, member := range in {
		if !strings.Contains(saved, "add "+member) {
			t.Errorf("%s is not kept as %q in\n%s", target, member, saved)
		}
		if e, yes, err := a.Held(t.Context(), pfx(target)); err != nil || !yes || e.Target != pfx(target) || e.Left > time.Hour || e.Left < time.Hour-time.Minute {
			t.Errorf("%s is held as %+v, %t, %v", target, e, yes, err)
		}
	}
	if got := listed(t, a); len(got) != len(in) {
		t.Errorf("%d bans are listed, want %d", len(got), len(in))
	}
	for _, other := range []string{"192.0.2.2/32", "192.0.2.0/30", "192.0.2.0/24", "192.0.2.0/32", "2001:db8:1:2::/66", "2001:db8:1:3::/64", "2001:db8:1:2::1/128", "192.0.2.1/24", "0.0.0.0/0"} {
		if e, yes, err := a.Held(t.Context(), pfx(other)); err != nil || yes {
			t.Errorf("%s is held as %+v, %t, %v", other, e, yes, err)
		}
	}
	if _, yes, err := a.Held(t.Context(), netip.Prefix{}); err != nil || yes {
		t.Errorf("the zero prefix: %t, %v", yes, err)
	}
	var targets []netip.Prefix
	for _, e := range all {
		targets = append(targets, e.Target)
	}
	check(t, a.Apply(t.Context(), nil, targets))
	if got := listed(t, a); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
}

// The kernel tells of 24.8 days at most, and none is cut to for good.
func TestIptablesLongBans(t *testing.T) {
	t.Parallel()
	a, ns := withIptables(t, actions.IptablesOptions{})
	longest := a.Longest()
	if longest != 2147483*time.Second {
		t.Fatalf("the longest time is %v", longest)
	}
	for i, left := range []time.Duration{longest - time.Second, longest, longest + time.Second, 150 * 365 * 24 * time.Hour} {
		target := fmt.Sprintf("192.0.2.%d/32", i)
		apply(t, a, ban(target, left))
		if got := listed(t, a)[target].Left; got > longest || got < longest-time.Minute {
			t.Errorf("a ban for %v is held for %v", left, got)
		}
	}
	// Renewed when it has less than half of that left, it is held for longer.
	do(t, ns, "ipset -exist add tailban4 192.0.2.3 timeout 900000")
	r := actions.NewReconciler(actions.Options{Name: "iptables", Action: a, Interval: 20 * time.Millisecond})
	r.Set(pfx("192.0.2.3/32"), time.Now().Add(400*24*time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	until(t, "four passes", func() bool { return r.Stats().Passes > 4 })
	cancel()
	check(t, <-done)
	got := listed(t, a)
	if left := got["192.0.2.3/32"].Left; len(got) != 1 || left < longest-time.Minute {
		t.Errorf("it holds %v", got)
	}
	if s := r.Stats(); s.Applies != 1 || s.DriftCorrected != 0 || s.Misheld != 0 || s.Failing {
		t.Errorf("counted %+v, want one renewal", s)
	}
}

func TestIptablesFullSet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, most of them in other programs")
	}
	t.Parallel()
	for _, size := range []int{100, 65536} {
		a, _ := withIptables(t, actions.IptablesOptions{Size: size})
		var batch []actions.Entry
		for i := range size {
			batch = append(batch, actions.Entry{Target: burstTarget(i), Left: time.Hour})
		}
		apply(t, a, batch...)
		if got := len(listed(t, a)); got != size {
			t.Errorf("%d bans are held, want all %d", got, size)
		}
		// The kernel shares the room out among parts of a large set, and lets in
		// a few more than it says.
		more := []actions.Entry{ban("2001:db8::/64", time.Hour)}
		for i := range size/8 + 10 {
			more = append(more, actions.Entry{Target: burstTarget(size + i), Left: time.Hour})
		}
		more = append(more, ban("10.0.0.0/32", 2*time.Hour), ban("203.0.113.0/24", time.Hour))
		err := a.Apply(t.Context(), more, nil)
		if !errors.Is(err, actions.ErrFull) || errors.Is(err, actions.ErrPermanent) {
			t.Fatalf("Apply returned %v, want ErrFull that can be retried", err)
		}
		for _, part := range []string{"tailban4", "full", fmt.Sprint(size)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		check(t, a.Prepare(t.Context()))
		got := listed(t, a)
		if len(got) < size+2 || len(got) > size+size/8 {
			t.Errorf("%d bans are held, want the set filled and the other two", len(got))
		}
		if got["10.0.0.0/32"].Left < time.Hour || len(got) < 2 {
			t.Error("a full set has kept a ban that is in it from being renewed")
		}
		for _, target := range []string{"2001:db8::/64", "203.0.113.0/24"} {
			if _, ok := got[target]; !ok {
				t.Error("a full set has kept another from being changed")
			}
		}
		if place, room := a.Room(pfx("10.0.0.0/32")); place != "tailban4" || room > size || room < size*8/9 {
			t.Errorf("there is said to be room for %d in %s", room, place)
		}
	}
}

// A reconciler over a set with too little room keeps the bans that end last, and
// does not fail.
func TestIptablesMoreBansThanRoom(t *testing.T) {
	t.Parallel()
	a, _ := withIptables(t, actions.IptablesOptions{Size: 90})
	r := actions.NewReconciler(actions.Options{Name: "iptables", Action: a, Interval: 20 * time.Millisecond})
	for i := range 200 {
		r.Set(burstTarget(i), time.Now().Add(time.Hour+time.Duration(i)*time.Minute))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	until(t, "three passes", func() bool { return r.Stats().Passes > 3 })
	cancel()
	check(t, <-done)
	got := listed(t, a)
	if len(got) != 80 {
		t.Errorf("%d bans are held, want 80", len(got))
	}
	for i := 120; i < 200; i++ {
		if _, ok := got[burstTarget(i).String()]; !ok {
			t.Errorf("%s is not held, and ends late", burstTarget(i))
		}
	}
	if s := r.Stats(); s.Failing || s.LeftOut != 120 {
		t.Errorf("counted %+v", s)
	}
}

// What others have put into our sets is listed so that it is removed, unless it
// can't be a ban there.
func TestIptablesMembersOfOthers(t *testing.T) {
	t.Parallel()
	a, ns := withIptables(t, actions.IptablesOptions{})
	apply(t, a, ban("198.51.100.0/24", time.Hour))
	for _, line := range []string{
		"add tailban4 192.0.2.3",                             // for good
		"add tailban4-net 198.51.100.0/25 nomatch timeout 9", // an exception
		"-exist add tailban4-net 198.51.100.0/24 nomatch timeout 3600",
		"add tailban4-net 203.0.113.0/24 timeout 3600",
		"add tailban4-net 192.0.2.9", // a single address among networks
		"add tailban6 2001:db8:0:1::5 timeout 3600",
	} {
		do(t, ns, "ipset "+line)
	}
	got := listed(t, a)
	for target, left := range map[string]bool{
		"192.0.2.3/32": false, "198.51.100.0/25": false, "198.51.100.0/24": false, "203.0.113.0/24": true, "2001:db8:0:1::/64": true,
	} {
		e, ok := got[target]
		if !ok || (e.Left > 0) != left {
			t.Errorf("%s is listed as %+v, %t", target, e, ok)
		}
	}
	if len(got) != 5 {
		t.Errorf("listed are %v", got)
	}
	apply(t, a, ban("198.51.100.0/24", time.Hour), ban("192.0.2.3/32", time.Hour))
	got = listed(t, a)
	if got["198.51.100.0/24"].Left == 0 || got["192.0.2.3/32"].Left == 0 {
		t.Errorf("after they were added again: %v", got)
	}
}

// A network that the administrator has made an exception of counts as not held.
func TestIptablesHeld(t *testing.T) { // not beside others, as it counts open files
	a, ns := withIptables(t, actions.IptablesOptions{})
	do(t, ns, "ipset add tailban4-net 198.51.100.0/24 nomatch timeout 3600")
	if e, yes, err := a.Held(t.Context(), pfx("198.51.100.0/24")); err != nil || yes {
		t.Errorf("an exception is held as %+v, %t, %v", e, yes, err)
	}
	apply(t, a, ban("192.0.2.9/32", time.Millisecond))
	until(t, "the short ban ends", func() bool {
		_, yes, err := a.Held(t.Context(), pfx("192.0.2.9/32"))
		return err == nil && !yes
	})
	check(t, a.Close())
	before := countFiles(t)
	apply2 := newIptables(t, ns, actions.IptablesOptions{})
	if _, yes, err := apply2.Held(t.Context(), pfx("192.0.2.10/32")); err != nil || yes {
		t.Errorf("held %t, %v", yes, err)
	}
	if after := countFiles(t); after != before {
		t.Errorf("%d files are open, were %d", after, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Held(ctx, pfx("192.0.2.1/32")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestIptablesWithoutSets(t *testing.T) {
	t.Parallel()
	a := newIptables(t, newNS(t), actions.IptablesOptions{})
	if err := a.Apply(t.Context(), nil, nil); err == nil {
		t.Error("Apply before Prepare returned nil")
	}
	for what, f := range map[string]func() error{
		"list":       func() error { _, err := a.List(t.Context()); return err },
		"look up in": func() error { _, _, err := a.Held(t.Context(), pfx("192.0.2.1/32")); return err },
	} {
		err := f()
		if err == nil || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), what+" set tailban4") {
			t.Errorf("%s: %v", what, err)
		}
	}
	b, ns := withIptables(t, actions.IptablesOptions{})
	for _, line := range []string{"iptables-nft -F", "iptables-nft -X", "ipset destroy tailban4"} {
		do(t, ns, line)
	}
	err := b.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil)
	if err == nil || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "add to set tailban4") {
		t.Errorf("Apply without its set returned %v", err)
	}
	check(t, b.Prepare(t.Context()))
	apply(t, b, ban("192.0.2.1/32", time.Hour))
}

// Giving up in the middle leaves the action usable.
func TestIptablesGivenUp(t *testing.T) {
	t.Parallel()
	a, _ := withIptables(t, actions.IptablesOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Apply(ctx, []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply returned %v", err)
	}
	apply(t, a, ban("192.0.2.1/32", time.Hour))
}

func TestIptablesBadAllow(t *testing.T) {
	t.Parallel()
	a, _ := withIptables(t, actions.IptablesOptions{})
	if err := a.SetAllow(t.Context(), []netip.Prefix{pfx("::ffff:192.0.2.1/128")}); !errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "::ffff:192.0.2.1") {
		t.Errorf("SetAllow returned %v, want the bad network named", err)
	}
}
