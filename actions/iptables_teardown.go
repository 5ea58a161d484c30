//go:build linux

package actions

import (
	"context"
	"errors"
	"slices"
)

// TeardownIptables removes our jumps, chains and sets with all bans in them, and
// nothing else. existed says whether there were any. It needs no daemon; one
// that runs would make them again. If the other variant of iptables has
// chains of these names, from before the variant was changed, they go as well:
// their rules look into the sets.
func TeardownIptables(ctx context.Context, opt IptablesOptions) (existed bool, err error) {
	return TeardownIptablesPart(ctx, opt, IptablesChain|IptablesSets)
}

// IptablesPart is what an action has, as a sum.
type IptablesPart uint8

// The parts.
const (
	IptablesChain IptablesPart = 1 << iota // with the one beside it, and the jumps to it
	IptablesSets
)

// TeardownIptablesPart is TeardownIptables for a part, where another action uses
// the rest.
func TeardownIptablesPart(ctx context.Context, opt IptablesOptions, part IptablesPart) (existed bool, err error) {
	t := NewIptables(opt)
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := errors.Join(ctx.Err(), t.opt.check()); err != nil {
		return false, err
	}
	if err := t.findTools(ctx); err != nil {
		return false, err
	}
	if err := t.connect(); err != nil {
		return false, err
	}
	if t.opt.OursOnly && part&IptablesSets != 0 {
		if err := t.setsOursOnly(); err != nil {
			return false, err
		}
	}
	err = inNetNS(t.opt.NetNS, func() error {
		if part&IptablesChain == 0 {
			return nil
		}
		tools := t.tools
		if _, ours := otherRules(ctx, t.opt, tools[0].otherVariant()); ours {
			o := t.opt
			o.Variant, o.Path = tools[0].otherVariant(), ""
			other := NewIptables(o)
			if err := other.findTools(ctx); err != nil {
				return err
			}
			tools = slices.Concat(tools, other.tools)
		}
		for _, tool := range tools {
			if !t.opt.OursOnly {
				break
			}
			if err := tool.oursOnly(ctx, t.opt); err != nil {
				return err
			}
		}
		for _, tool := range tools {
			yes, err := tool.remove(ctx, t.opt)
			existed = existed || yes
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return existed, err
	}
	if part&IptablesSets == 0 {
		return existed, nil
	}
	for _, name := range allIPSets(t.opt) {
		yes, err := t.sets.destroy(name)
		existed = existed || yes
		if err != nil {
			return existed, explainSet("destroy", name, err)
		}
	}
	return existed, nil
}
