//go:build linux

package actions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

var scratch = &nftables.Set{Table: ourTable, Name: "renewal_probe", KeyType: nftables.TypeIPAddr, HasTimeout: true, Counter: true, Size: 1}

// kernelRenews tries it on its own, in a table of somebody else.
func kernelRenews(t *testing.T, ns *netlab.NS) bool {
	t.Helper()
	set := &nftables.Set{
		Table: &nftables.Table{Name: foreignTable, Family: nftables.TableFamilyINet},
		Name:  "try", KeyType: nftables.TypeIPAddr, HasTimeout: true,
	}
	key := []byte{192, 0, 2, 7}
	edit(t, ns, func(c *nftables.Conn) {
		c.AddTable(set.Table)
		check(t, c.AddSet(set, []nftables.SetElement{{Key: key, Timeout: time.Hour}}))
	})
	edit(t, ns, func(c *nftables.Conn) {
		check(t, c.SetAddElements(set, []nftables.SetElement{{Key: key, Timeout: 5 * time.Hour}}))
	})
	renews := false
	edit(t, ns, func(c *nftables.Conn) {
		got, err := c.GetSetElements(set)
		check(t, err)
		renews = got[0].Expires > 2*time.Hour
		c.DelTable(set.Table)
	})
	return renews
}

func TestNftablesProbe(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, ns *netlab.NS){
		"no table": func(*testing.T, *netlab.NS) {},
		"a table": func(t *testing.T, ns *netlab.NS) {
			check(t, prepared(t, ns, actions.NftablesOptions{}).Close())
		},
		"an earlier process has died in between": func(t *testing.T, ns *netlab.NS) {
			check(t, prepared(t, ns, actions.NftablesOptions{}).Close())
			edit(t, ns, func(c *nftables.Conn) {
				check(t, c.AddSet(scratch, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}, Timeout: 2 * time.Hour}}))
			})
		},
		"a set of another kind under its name": func(t *testing.T, ns *netlab.NS) {
			check(t, prepared(t, ns, actions.NftablesOptions{}).Close())
			edit(t, ns, func(c *nftables.Conn) {
				check(t, c.AddSet(&nftables.Set{Table: ourTable, Name: scratch.Name, KeyType: nftables.TypeIP6Addr}, nil))
			})
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			ns := newNS(t)
			arrange(t, ns)
			n := prepared(t, ns, actions.NftablesOptions{})
			if got, want := actions.Renews(n), kernelRenews(t, ns); got != want {
				t.Errorf("the probe says %t, want %t", got, want)
			}
			before := dump(t, ns, "tailban")
			if strings.Contains(before, scratch.Name) {
				t.Errorf("the scratch set is left:\n%s", before)
			}
			check(t, n.Prepare(t.Context()))
			if got := dump(t, ns, "tailban"); got != before || n.Stats().Repairs != 0 {
				t.Errorf("a second Prepare found something to repair:\n%s", got)
			}
		})
	}
}

// A scratch set that cannot be removed is no damage, and what the probe would
// have said is taken for no.
func TestNftablesProbeFails(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	check(t, prepared(t, ns, actions.NftablesOptions{}).Close())
	edit(t, ns, func(c *nftables.Conn) {
		check(t, c.AddSet(scratch, nil))
		chain := c.AddChain(&nftables.Chain{Table: ourTable, Name: "busy"})
		c.AddRule(&nftables.Rule{Table: ourTable, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
			&expr.Lookup{SourceRegister: 1, SetName: scratch.Name},
		}})
	})
	n := prepared(t, ns, actions.NftablesOptions{})
	if actions.Renews(n) {
		t.Error("a probe that failed says yes")
	}
	apply(t, n, ban("192.0.2.1/32", time.Hour))
	apply(t, n, ban("192.0.2.1/32", 3*time.Hour))
	if left := listed(t, n)["192.0.2.1/32"].Left; left < 2*time.Hour {
		t.Errorf("after the renewal %v are left, want 3 hours", left)
	}
	check(t, n.Prepare(t.Context()))
	if n.Stats().Repairs != 0 {
		t.Error("what is left of the probe counts as damage")
	}
}
