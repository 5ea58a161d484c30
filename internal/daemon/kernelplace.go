package daemon

import (
	"context"
	"fmt"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
)

// KernelPlace is what an action has in the kernel, and none of others.
type KernelPlace struct {
	// Lock takes hold of it. ErrTableBusy: another process has it.
	Lock func() (*actions.TableLock, error)

	// Teardown removes it, with all bans in it.
	Teardown func(context.Context) (existed bool, err error)
}

// KernelPlaceOf is the place of an action that the kernel enforces. Any other action
// is an error. If somebody else could have named it, as foreign says, only what is as
// we make it is removed: it could be the host's own firewall that is named.
func KernelPlaceOf(a *config.Action, others []config.Action, runs *actions.IptablesRuns, foreign bool) (KernelPlace, error) {
	switch a.Type {
	case config.TypeNftables:
		o := nftablesOptions(a)
		o.OursOnly = foreign
		return KernelPlace{
			Lock:     func() (*actions.TableLock, error) { return actions.LockTable(o.Table) },
			Teardown: func(ctx context.Context) (bool, error) { return actions.Teardown(ctx, o) },
		}, nil
	case config.TypeIptables:
		o, part := IptablesOptions(a), unshared(a, others)
		o.Runs, o.OursOnly = runs, foreign
		return KernelPlace{
			Lock:     func() (*actions.TableLock, error) { return actions.LockIptablesPart(o, part) },
			Teardown: func(ctx context.Context) (bool, error) { return actions.TeardownIptablesPart(ctx, o, part) },
		}, nil
	}
	return KernelPlace{}, fmt.Errorf("no action is of type %q", a.Type)
}

// unshared are the parts of an iptables action that none of others uses.
func unshared(a *config.Action, others []config.Action) (part actions.IptablesPart) {
	part = actions.IptablesChain | actions.IptablesSets
	for i := range others {
		o := &others[i]
		if o.Type == config.TypeIptables && o.Chain == a.Chain {
			part &^= actions.IptablesChain
		}
		if o.Type == config.TypeIptables && o.Sets == a.Sets {
			part &^= actions.IptablesSets
		}
	}
	return part
}
