//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-iptables/iptables"
)

// parents are the chains that jump to ours, as far as they are there.
var parents = []string{chainInput, chainForward, chainDockerUser}

// prepareRules makes chains, rules and jumps what they should be.
func (t *Iptables) prepareRules(ctx context.Context, fix *mending) error {
	return inNetNS(t.opt.NetNS, func() error {
		began := !t.tracked && tracksConnections()
		t.tracked = t.tracked || began
		if began && t.made {
			fix.ours = append(fix.ours, "the kernel tracks connections now")
			t.shown = map[string][]string{}
		}
		misplaced := false
		for _, tool := range t.tools {
			if err := ctx.Err(); err != nil {
				return err
			}
			found, under, err := t.prepareFamily(ctx, tool)
			if err != nil {
				return err
			}
			misplaced = misplaced || under
			if began && t.made {
				continue // which may hide a change by others in this one pass
			}
			for _, f := range found {
				fix.found = append(fix.found, tool.family.name+": "+f)
			}
		}
		if t.made {
			t.order.look(misplaced)
			t.contested.Store(t.order.contested())
		}
		return nil
	})
}

// tracksConnections reports whether the kernel has tracked connections in the
// network namespace of the calling thread. Without that nothing is translated.
// Where it can't be told, it is assumed.
func tracksConnections() bool {
	if _, err := os.Stat("/proc/sys/net"); err != nil {
		return true // hidden from us
	}
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	return err != nil || convErr != nil || n > 0
}

// prepareFamily makes one family right, and tells what it found otherwise. Rules of
// others above ours are left where they are if somebody insists on them; misplaced
// says that there were any.
func (t *Iptables) prepareFamily(ctx context.Context, tool *iptablesOf) (found []string, misplaced bool, err error) {
	have, err := tool.read(ctx, t.opt)
	if err != nil {
		return nil, false, err
	}
	for _, want := range chainsFor(t.opt, tool.family, t.tracked) {
		key := tool.family.name + " " + want.name
		rules, there := have[want.name]
		switch {
		case there && slices.Equal(rules, want.rules):
			continue
		case there && t.shown[key] != nil && slices.Equal(rules, t.shown[key]):
			continue // as this iptables shows them
		case there:
			found = append(found, "rules of chain "+want.name+" differ")
		default:
			found = append(found, "no chain "+want.name)
		}
		if err := tool.write(ctx, want, there, len(rules)); err != nil {
			return nil, false, err
		}
		if t.shown[key], err = tool.rules(ctx, want.name); err != nil {
			return nil, false, err
		}
		if len(t.shown[key]) != len(want.rules) {
			return nil, false, fmt.Errorf("chain %s of %s has %d rules after it was given %d (does somebody else change it?)",
				want.name, tool.path, len(t.shown[key]), len(want.rules))
		}
	}
	opt := t.opt
	for name, rules := range have {
		if likeOurs(name, rules) {
			opt.Siblings = append(slices.Clip(opt.Siblings), name)
		}
	}
	for _, parent := range parents {
		rules, there := have[parent]
		if !there || jumpsFirst(opt, parent, rules) {
			continue
		}
		if slices.Contains(rules, jump(t.opt)) {
			misplaced = true
			if t.order.waits() {
				continue
			}
		}
		found = append(found, "chain "+parent+" does not jump to "+t.opt.Chain+" first")
		if err := tool.jumpFirst(ctx, t.opt, parent, rules); err != nil {
			return nil, misplaced, err
		}
	}
	return found, misplaced, nil
}

// read lists our chains and their parents, as far as they are there, and the first
// chains of other daemons of ours.
func (tool *iptablesOf) read(ctx context.Context, opt IptablesOptions) (map[string][]string, error) {
	chains, err := tool.list(ctx)
	if err != nil {
		return nil, tool.explain("list the chains", err)
	}
	have := map[string][]string{}
	for _, name := range slices.Concat([]string{opt.Chain, banChain(opt)}, parents) {
		// Those of the kernel's own are made by the first rule in them.
		if rules, there := chains[name]; there || name == chainInput || name == chainForward {
			have[name] = rules
		}
	}
	for name, rules := range chains {
		if _, there := chains[name+"-BAN"]; there && likeOurs(name, rules) {
			have[name] = rules
		}
	}
	return have, nil
}

// rules lists the rules of a chain without its name.
func (tool *iptablesOf) rules(ctx context.Context, name string) ([]string, error) {
	chains, err := tool.list(ctx)
	if err != nil {
		return nil, tool.explain("list the chains", err)
	}
	return chains[name], nil
}

// write gives a chain its rules, above the old ones, which go after that: at no
// time is a packet let pass that both would stop.
func (tool *iptablesOf) write(ctx context.Context, want chain, there bool, old int) error {
	if !there {
		if err := tool.within(ctx, func(ipt *iptables.IPTables) error { return ipt.NewChain(tableFilter, want.name) }); err != nil {
			return tool.explain("make chain "+want.name, err)
		}
	}
	for i, rule := range want.rules {
		if err := tool.insert(ctx, want.name, i+1, rule); err != nil {
			return tool.explain("add a rule to chain "+want.name, err)
		}
	}
	for i := old; i > 0; i-- {
		if err := tool.within(ctx, func(ipt *iptables.IPTables) error { return ipt.DeleteById(tableFilter, want.name, len(want.rules)+i) }); err != nil {
			return tool.explain("remove a rule from chain "+want.name, err)
		}
	}
	return nil
}

// jumpFirst makes our jump the first rule of a chain that is not ours, with these
// rules. Others may change it meanwhile: rules are named by what they are, not by
// number. So a second jump above the first could not be told from it and either be
// removed; both are done in one step instead, and no packet comes past our jump.
func (tool *iptablesOf) jumpFirst(ctx context.Context, opt IptablesOptions, parent string, rules []string) error {
	var changes []string
	for _, rule := range rules {
		if rule == jump(opt) {
			changes = append(changes, "-D "+parent+" "+rule)
		}
	}
	if len(changes) > 0 && tool.restore != "" {
		err := tool.atOnce(ctx, append(changes, "-I "+parent+" 1 "+jump(opt)))
		if err == nil || ctx.Err() != nil || errors.Is(err, errTooLong) {
			return tool.explain("put our rule first in chain "+parent, err)
		}
		// Nothing was done: somebody was faster and has removed one, say.
	}
	if err := tool.removeJumps(ctx, opt, parent); err != nil {
		return err
	}
	return tool.explain("add a rule to chain "+parent, tool.insert(ctx, parent, 1, jump(opt)))
}

// insert puts a rule at a place in a chain, 1 the first.
func (tool *iptablesOf) insert(ctx context.Context, chain string, at int, rule string) error {
	return tool.within(ctx, func(ipt *iptables.IPTables) error {
		return ipt.Insert(tableFilter, chain, at, strings.Fields(rule)...)
	})
}

// removeJumps removes our jumps from a chain that is not ours.
func (tool *iptablesOf) removeJumps(ctx context.Context, opt IptablesOptions, parent string) error {
	rules, err := tool.rules(ctx, parent)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if rule != jump(opt) {
			continue
		}
		err := tool.within(ctx, func(ipt *iptables.IPTables) error {
			return ipt.Delete(tableFilter, parent, strings.Fields(rule)...)
		})
		if err != nil && isNotThere(err) {
			return nil // somebody was faster
		}
		if err != nil {
			return tool.explain("remove a rule from chain "+parent, err)
		}
	}
	return nil
}

// removeRules removes our jumps and chains of both families.
func (t *Iptables) removeRules(ctx context.Context) error {
	return inNetNS(t.opt.NetNS, func() error {
		for _, tool := range t.tools {
			if _, err := tool.remove(ctx, t.opt); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove removes our jumps and chains.
func (tool *iptablesOf) remove(ctx context.Context, opt IptablesOptions) (existed bool, err error) {
	have, err := tool.read(ctx, opt)
	if err != nil {
		return false, err
	}
	for _, parent := range parents {
		if !slices.Contains(have[parent], jump(opt)) {
			continue
		}
		existed = true
		if err := tool.removeJumps(ctx, opt, parent); err != nil {
			return existed, err
		}
	}
	for _, name := range []string{opt.Chain, banChain(opt)} {
		if _, there := have[name]; !there {
			continue
		}
		existed = true
		err := tool.within(ctx, func(ipt *iptables.IPTables) error { return ipt.ClearAndDeleteChain(tableFilter, name) })
		if err != nil && !isNotThere(err) {
			return existed, fmt.Errorf("%w (a rule that is not ours may jump to it)", tool.explain("delete chain "+name, err))
		}
	}
	return existed, nil
}
