//go:build linux

package actions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/netlab"
)

const foreignTable = "other"

// edit changes a namespace's ruleset as somebody else would.
func edit(t *testing.T, ns *netlab.NS, f func(c *nftables.Conn)) {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	f(c)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

func flushRuleset(t *testing.T, ns *netlab.NS) {
	t.Helper()
	edit(t, ns, func(c *nftables.Conn) { c.FlushRuleset() })
}

// addForeign makes a table of somebody else and returns its dump.
func addForeign(t *testing.T, ns *netlab.NS) string {
	t.Helper()
	edit(t, ns, func(c *nftables.Conn) {
		table := c.AddTable(&nftables.Table{Name: foreignTable, Family: nftables.TableFamilyINet})
		chain := c.AddChain(&nftables.Chain{
			Table: table, Name: "prerouting", Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
		set := &nftables.Set{Table: table, Name: "ban4", KeyType: nftables.TypeIPAddr, HasTimeout: true}
		if err := c.AddSet(set, []nftables.SetElement{{Key: []byte{192, 0, 2, 9}}}); err != nil {
			t.Error(err)
		}
	})
	d := dump(t, ns, foreignTable)
	if d == "" {
		t.Fatal("the foreign table is not there")
	}
	return d
}

// dump renders a table of family inet without what moves by itself; "" if
// there is none.
func dump(t *testing.T, ns *netlab.NS, name string) string {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	table, err := c.ListTableOfFamily(name, nftables.TableFamilyINet)
	if errors.Is(err, unix.ENOENT) {
		return ""
	}
	check(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "table %s flags %d\n", table.Name, table.Flags)
	sets, err := c.GetSets(table)
	check(t, err)
	for _, s := range sets {
		if s.Anonymous {
			s.Name = "(anonymous)"
		} else {
			fmt.Fprintf(&b, "set %s %s timeout=%t interval=%t size=%d %q\n", s.Name, s.KeyType.Name, s.HasTimeout, s.Interval, s.Size, s.Comment)
		}
	}
	slices.SortFunc(sets, func(a, b *nftables.Set) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range sets {
		if s.Anonymous {
			continue
		}
		elements, err := c.GetSetElements(s)
		check(t, err)
		var keys []string
		for _, e := range elements {
			keys = append(keys, fmt.Sprintf("element %s %x end=%t\n", s.Name, e.Key, e.IntervalEnd))
		}
		slices.Sort(keys)
		b.WriteString(strings.Join(keys, ""))
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	check(t, err)
	for _, ch := range chains {
		if ch.Table.Name == name {
			dumpChain(t, &b, c, ch)
		}
	}
	return b.String()
}

func dumpChain(t *testing.T, b *strings.Builder, c *nftables.Conn, ch *nftables.Chain) {
	t.Helper()
	fmt.Fprintf(b, "chain %s %s", ch.Name, ch.Type)
	if ch.Hooknum != nil && ch.Policy != nil {
		fmt.Fprintf(b, " hook %d priority %d policy %d", *ch.Hooknum, *ch.Priority, *ch.Policy)
	}
	b.WriteString("\n")
	rules, err := c.GetRules(ch.Table, ch)
	check(t, err)
	for _, r := range rules {
		comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
		fmt.Fprintf(b, "rule %q", comment)
		for _, e := range r.Exprs {
			if l, ok := e.(*expr.Lookup); ok && strings.HasPrefix(l.SetName, "__set") {
				l.SetName = "__set" // numbered by the kernel
			}
			fmt.Fprintf(b, " %T%+v", e, e)
		}
		b.WriteString("\n")
	}
}
