package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/daemon"
	"github.com/tailban/tailban/internal/term"
)

// tearDownLast removes what the daemon that ran last had and the configuration,
// whose actions these are, has not. What another daemon has by now stays.
func tearDownLast(ctx context.Context, p *Process, stateDir string, list []config.Action) error {
	u, err := config.LoadPlaces(stateDir)
	if err != nil {
		fmt.Fprintln(p.Err, "warning: what an earlier configuration had is not known:", term.Escape(err.Error()))
		return nil
	}
	for _, err := range u.Bad {
		fmt.Fprintln(p.Err, "warning: what an earlier configuration had somewhere stays, as no configuration can have it:", term.Escape(err.Error()))
	}
	var errs []error
	for i := range u.Places {
		a := &u.Places[i].Action
		if slices.ContainsFunc(list, func(x config.Action) bool { return x.SamePlace(a) }) {
			continue
		}
		if a.Type == config.TypeCommand {
			errs = append(errs, unbanLast(ctx, p, &u.Places[i], u))
			continue
		}
		if err := tearDownPlace(ctx, p, a, list); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// tearDownPlace removes what one action has in the kernel, and none of others.
func tearDownPlace(ctx context.Context, p *Process, a *config.Action, others []config.Action) error {
	var lock *actions.TableLock
	var existed bool
	var err error
	switch a.Type {
	case config.TypeNftables:
		lock, err = actions.LockTable(a.Table)
	case config.TypeIptables:
		lock, err = actions.LockIptablesPart(daemon.IptablesOptions(a), daemon.IptablesUnshared(a, others))
	default:
		return fmt.Errorf("no action is of type %q", a.Type)
	}
	if err != nil {
		fmt.Fprintf(p.Err, "warning: %s, which an earlier configuration had, stays: %v\n", a.Place(), err)
		return nil
	}
	if a.Type == config.TypeNftables {
		existed, err = actions.Teardown(ctx, actions.NftablesOptions{Table: a.Table})
	} else {
		existed, err = actions.TeardownIptablesPart(ctx, daemon.IptablesOptions(a), daemon.IptablesUnshared(a, others))
	}
	if existed && err == nil {
		fmt.Fprintln(p.Out, a.Place(), "removed, which an earlier configuration had")
	}
	return errors.Join(err, lock.Close())
}

// unbanLast has the programs of an earlier configuration take out what they list,
// or could not take out before. Root runs nothing that somebody else could have
// named.
func unbanLast(ctx context.Context, p *Process, place *config.UsedPlace, u *config.UsedPlaces) error {
	a := &place.Action
	if u.Foreign != nil {
		sayLeft(p, place, u)
		return nil
	}
	if len(a.Command.List) > 0 || len(place.Targets) == 0 {
		return unbanAll(ctx, p, a)
	}
	c, err := actions.NewCommand(daemon.CommandOptions(a))
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	c.Remember(place.Targets)
	n, err := actions.UnbanAll(ctx, c)
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	fmt.Fprintf(p.Out, "%s of action %s taken out\n", plural(n, "ban"), a.Name)
	return nil
}

// shownTargets is how many bans are named that are left.
const shownTargets = 10

// sayLeft says what bans of programs are left that are not run. The texts may be
// anybody's.
func sayLeft(p *Process, place *config.UsedPlace, u *config.UsedPlaces) {
	a := &place.Action
	which := ""
	if n := len(place.Targets); n > 0 {
		which = fmt.Sprintf(" (known are %d: ", n)
		for i, t := range place.Targets[:min(n, shownTargets)] {
			if i > 0 {
				which += ", "
			}
			which += t.String()
		}
		if n > shownTargets {
			which += ", …"
		}
		which += ")"
	}
	fmt.Fprintf(p.Err, "warning: bans of action %s, which an earlier configuration had, may be left%s; its programs are not run, as somebody else could have named them: %s; run teardown as the user of the daemon, or take the bans out by what you know to be in their place (%s says %q)\n",
		term.Escape(a.Name), which, term.Escape(u.Foreign.Error()), term.Escape(u.Path), a.Command.Unban)
}
