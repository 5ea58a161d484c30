//go:build linux

package actions

import (
	"context"
	"errors"
)

// TeardownIptables removes our jumps, chains and sets with all bans in them, and
// nothing else. existed says whether there were any. It needs no daemon; one
// that runs would make them again.
func TeardownIptables(ctx context.Context, opt IptablesOptions) (existed bool, err error) {
	t := NewIptables(opt)
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := errors.Join(ctx.Err(), t.opt.check()); err != nil {
		return false, err
	}
	if err := t.findTools(); err != nil {
		return false, err
	}
	if err := t.connect(); err != nil {
		return false, err
	}
	err = inNetNS(t.opt.NetNS, func() error {
		for _, tool := range t.tools {
			yes, err := tool.remove(t.opt)
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
	for _, name := range allIPSets(t.opt) {
		yes, err := t.sets.destroy(name)
		existed = existed || yes
		if err != nil {
			return existed, explainSet("destroy", name, err)
		}
	}
	return existed, nil
}
