//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
)

// ErrNotOurs is wrapped by the error of a teardown with OursOnly that has found
// something that we don't make. It has removed nothing then.
var ErrNotOurs = errors.New("it is not as tailban makes it")

// oursOnly returns an error if there is anything in a table that is not ours by its
// name or, of a set, its comment.
func (n *Nftables) oursOnly(table *nftables.Table) error {
	no := func(what, name string) error {
		return Permanent(fmt.Errorf("table inet %s: %w: %s %s", table.Name, ErrNotOurs, what, name))
	}
	sets, err := n.conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("sets: %w", err)
	}
	for _, s := range sets {
		// Those of a rule have no name of their own.
		if !strings.HasPrefix(s.Name, "__set") && !strings.Contains(s.Comment, "(tailban ") {
			return no("set", s.Name)
		}
	}
	chains, err := n.conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == table.Name && (c.Name != chainName || len(sets) == 0) {
			return no("chain", c.Name)
		}
	}
	return nil
}

// oursOnly returns an error if one of the chains with our names has rules that we
// don't make.
func (tool *iptablesOf) oursOnly(ctx context.Context, opt IptablesOptions) error {
	have, err := tool.read(ctx, opt)
	if err != nil {
		return err
	}
	first, there := have[opt.Chain]
	ban, banThere := have[banChain(opt)]
	look := "-m set --match-set " + opt.Prefix
	ours := func(i int, rule string) bool {
		if i == 0 {
			return strings.HasPrefix(rule, look) && strings.HasSuffix(rule, " src -j RETURN")
		}
		return strings.HasSuffix(rule, "-g "+banChain(opt))
	}
	for i, rule := range first {
		if !ours(i, rule) {
			return tool.notOurs(opt.Chain, rule)
		}
	}
	for _, rule := range ban {
		if !strings.HasPrefix(strings.TrimPrefix(rule, "-p tcp "), look) {
			return tool.notOurs(banChain(opt), rule)
		}
	}
	// We make the second first, and an empty one tells nothing.
	if there && (!banThere || len(ban) == 0) {
		return tool.notOurs(opt.Chain, "none in "+banChain(opt))
	}
	return nil
}

func (tool *iptablesOf) notOurs(chain, rule string) error {
	return Permanent(fmt.Errorf("chain %s of %s: %w: rule %s", chain, tool.path, ErrNotOurs, rule))
}

// setsOursOnly returns an error if one of the sets with our names is of a type that
// ours is not.
func (t *Iptables) setsOursOnly() error {
	bans, allow := banIPSets(t.opt), allowIPSets(t.opt)
	for _, name := range slices.Concat(banOrder, allowOrder) {
		want := bans[name]
		if want == nil {
			want = allow[name]
		}
		have, err := t.sets.header(want.name)
		if err != nil {
			return explainSet("look for", want.name, err)
		}
		if have == nil {
			continue
		}
		like := *want
		like.size = have.size
		if *have != like {
			return Permanent(fmt.Errorf("set %s: %w: type %s", want.name, ErrNotOurs, have.kind))
		}
	}
	return nil
}
