//go:build linux

package actions_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/tailban/tailban/actions"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	ourTable = &nftables.Table{Name: "tailban", Family: nftables.TableFamilyINet}
	ourChain = &nftables.Chain{Table: ourTable, Name: "prerouting"}
	ourNet4  = &nftables.Set{Table: ourTable, Name: "net4", KeyType: nftables.TypeIPAddr, HasTimeout: true, Interval: true}
	ourBan4  = &nftables.Set{Table: ourTable, Name: "ban4", KeyType: nftables.TypeIPAddr, HasTimeout: true}
)

func ourRules(t *testing.T, c *nftables.Conn) []*nftables.Rule {
	t.Helper()
	rules, err := c.GetRules(ourTable, ourChain)
	check(t, err)
	if len(rules) != 7 {
		t.Fatalf("found %d rules of ours, want 7", len(rules))
	}
	return rules
}

// Prepare repairs whatever somebody else does to the table, and keeps the
// bans if it can.
func TestNftablesRepair(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		damage    func(t *testing.T, c *nftables.Conn)
		losesBans bool
	}{
		{name: "ruleset flushed", losesBans: true, damage: func(t *testing.T, c *nftables.Conn) { c.FlushRuleset() }},
		{name: "table deleted", losesBans: true, damage: func(t *testing.T, c *nftables.Conn) { c.DelTable(ourTable) }},
		{name: "first rule deleted", damage: func(t *testing.T, c *nftables.Conn) { check(t, c.DelRule(ourRules(t, c)[0])) }},
		{name: "last rule deleted", damage: func(t *testing.T, c *nftables.Conn) { check(t, c.DelRule(ourRules(t, c)[6])) }},
		{name: "rules flushed", damage: func(t *testing.T, c *nftables.Conn) { c.FlushChain(ourChain) }},
		{name: "chain deleted", damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelChain(ourChain)
		}},
		{name: "rule replaced under its comment", damage: func(t *testing.T, c *nftables.Conn) {
			r := ourRules(t, c)[2]
			r.Exprs = []expr.Any{&expr.Counter{}}
			c.ReplaceRule(r)
		}},
		{name: "foreign rule in front", damage: func(t *testing.T, c *nftables.Conn) {
			c.InsertRule(&nftables.Rule{Table: ourTable, Chain: ourChain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
		}},
		{name: "foreign rule behind", damage: func(t *testing.T, c *nftables.Conn) {
			c.AddRule(&nftables.Rule{Table: ourTable, Chain: ourChain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}})
		}},
		{name: "rules in another order", damage: func(t *testing.T, c *nftables.Conn) {
			r := ourRules(t, c)[0]
			check(t, c.DelRule(r))
			c.AddRule(&nftables.Rule{Table: ourTable, Chain: ourChain, Exprs: r.Exprs, UserData: r.UserData})
		}},
		{name: "rule replaced", damage: func(t *testing.T, c *nftables.Conn) {
			r := ourRules(t, c)[2]
			c.ReplaceRule(&nftables.Rule{Table: ourTable, Chain: ourChain, Handle: r.Handle, Exprs: []expr.Any{&expr.Counter{}}})
		}},
		{name: "chain of another priority", damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelChain(ourChain)
			c.AddChain(&nftables.Chain{
				Table: ourTable, Name: ourChain.Name, Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityFilter,
			})
		}},
		{name: "chain without a hook", damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelChain(ourChain)
			c.AddChain(&nftables.Chain{Table: ourTable, Name: ourChain.Name})
		}},
		{name: "policy drop", damage: func(t *testing.T, c *nftables.Conn) {
			drop := nftables.ChainPolicyDrop
			c.AddChain(&nftables.Chain{
				Table: ourTable, Name: ourChain.Name, Type: nftables.ChainTypeFilter, Policy: &drop,
			})
		}},
		{name: "table switched off", damage: func(t *testing.T, c *nftables.Conn) {
			c.AddTable(&nftables.Table{Name: ourTable.Name, Family: ourTable.Family, Flags: nftables.TableFlagDormant})
		}},
		{name: "allowed address deleted", damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushSet(&nftables.Set{Table: ourTable, Name: "allow4"})
		}},
		{name: "address allowed by somebody else", damage: func(t *testing.T, c *nftables.Conn) {
			check(t, c.SetAddElements(&nftables.Set{Table: ourTable, Name: "allow6", KeyType: nftables.TypeIP6Addr, Interval: true},
				[]nftables.SetElement{{Key: netip.MustParseAddr("2001:db8:5::").AsSlice()}, {Key: netip.MustParseAddr("2001:db8:6::").AsSlice(), IntervalEnd: true}}))
		}},
		{name: "set without timeouts", losesBans: true, damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelSet(ourBan4)
			check(t, c.AddSet(&nftables.Set{Table: ourTable, Name: "ban4", KeyType: nftables.TypeIPAddr, Size: actions.DefaultSize}, nil))
		}},
		{name: "set of networks that takes none", losesBans: true, damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelSet(ourNet4)
			check(t, c.AddSet(&nftables.Set{Table: ourTable, Name: "net4", KeyType: nftables.TypeIPAddr, HasTimeout: true, Size: 2048}, nil))
		}},
		{name: "set of another size", losesBans: true, damage: func(t *testing.T, c *nftables.Conn) {
			c.FlushChain(ourChain)
			c.DelSet(ourBan4)
			check(t, c.AddSet(&nftables.Set{Table: ourTable, Name: "ban4", KeyType: nftables.TypeIPAddr, HasTimeout: true, Size: 5}, nil))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ns := newNS(t)
			foreign := ""
			if tt.name != "ruleset flushed" {
				foreign = addForeign(t, ns)
			}
			n := prepared(t, ns, actions.NftablesOptions{Allow: []netip.Prefix{pfx("203.0.113.0/24"), pfx("2001:db8:a::/48")}})
			bans := []actions.Entry{
				ban("192.0.2.1/32", time.Hour), ban("2001:db8:0:1::/64", time.Hour), ban("2001:db8::1/128", time.Hour),
				ban("198.51.100.0/24", time.Hour), ban("2001:db8:4::/48", time.Hour),
			}
			apply(t, n, bans...)
			want := dump(t, ns, "tailban")

			edit(t, ns, func(c *nftables.Conn) { tt.damage(t, c) })
			if dump(t, ns, "tailban") == want {
				t.Fatal("the damage did nothing, the test proves nothing")
			}
			check(t, n.Prepare(t.Context()))
			if tt.losesBans {
				apply(t, n, bans...)
			}
			if got := dump(t, ns, "tailban"); got != want {
				t.Errorf("after the repair:\n%s\nwant\n%s", got, want)
			}
			if s := n.Stats(); s.Repairs != 1 {
				t.Errorf("counted %d repairs, want 1", s.Repairs)
			}
			if got := dump(t, ns, foreignTable); got != foreign {
				t.Errorf("another table was touched:\n%s\nwant\n%s", got, foreign)
			}
			check(t, n.Prepare(t.Context()))
			if s := n.Stats(); s.Repairs != 1 {
				t.Error("a second Prepare found something to repair")
			}
		})
	}
}

func TestNftablesRepairMissingSet(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour), ban("2001:db8:0:1::/64", time.Hour))
	edit(t, ns, func(c *nftables.Conn) {
		c.FlushChain(ourChain)
		c.DelSet(ourBan4)
	})
	check(t, n.Prepare(t.Context()))
	if got := listed(t, n); len(got) != 1 || got["2001:db8:0:1::/64"].Left == 0 {
		t.Errorf("after the repair the action holds %v, want the bans of the other sets", got)
	}
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	edit(t, ns, func(c *nftables.Conn) { ourRules(t, c) })
}

func TestNftablesTableGone(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	for name, f := range map[string]func() error{
		"add":    func() error { return n.Apply(t.Context(), []actions.Entry{ban("192.0.2.2/32", time.Hour)}, nil) },
		"remove": func() error { return n.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.1/32")}) },
		"list":   func() error { _, err := n.List(t.Context()); return err },
	} {
		flushRuleset(t, ns)
		err := f()
		if err == nil || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "table inet tailban is gone") {
			t.Errorf("%s without a table returned %v", name, err)
		}
		check(t, n.Prepare(t.Context()))
		apply(t, n, ban("192.0.2.1/32", time.Hour))
	}
}

// Elements that somebody else has put in or deleted are seen and can be
// handled.
func TestNftablesForeignElements(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour), ban("192.0.2.2/32", time.Hour))
	odd := netip.MustParseAddr("2001:db8::5")
	edit(t, ns, func(c *nftables.Conn) {
		check(t, c.SetDeleteElements(ourBan4, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}}}))
		check(t, c.SetAddElements(ourBan4, []nftables.SetElement{{Key: []byte{192, 0, 2, 3}}}))
		ban6 := &nftables.Set{Table: ourTable, Name: "ban6", KeyType: nftables.TypeIP6Addr, HasTimeout: true}
		check(t, c.SetAddElements(ban6, []nftables.SetElement{{Key: odd.AsSlice()}}))
	})
	got := listed(t, n)
	if e, ok := got["192.0.2.3/32"]; !ok || e.Left != 0 {
		t.Errorf("an element without timeout is listed as %v, %t; want 0 left", e, ok)
	}
	if _, ok := got["192.0.2.1/32"]; ok || len(got) != 3 {
		t.Errorf("the listing is %v", got)
	}
	var all []netip.Prefix
	for _, e := range got {
		all = append(all, e.Target)
	}
	check(t, n.Apply(t.Context(), nil, all))
	if got := listed(t, n); len(got) != 0 {
		t.Errorf("after removing all that was listed there is %v", got)
	}
}

func TestNftablesOptionsChange(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	n := prepared(t, ns, actions.NftablesOptions{})
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	before := dump(t, ns, "tailban")
	for _, opt := range []actions.NftablesOptions{{Ports: []uint16{8080}}, {AllPorts: true}, {Reject: true}, {Reject: true, AllPorts: true}} {
		n = prepared(t, ns, opt)
		if dump(t, ns, "tailban") == before {
			t.Errorf("the rules are the same with %+v", opt)
		}
		if len(listed(t, n)) != 1 {
			t.Error("the change has lost bans")
		}
	}
	prepared(t, ns, actions.NftablesOptions{Ports: []uint16{443, 80, 443}})
	if got := dump(t, ns, "tailban"); got != before {
		t.Errorf("back to the first options:\n%s\nwant\n%s", got, before)
	}
}
