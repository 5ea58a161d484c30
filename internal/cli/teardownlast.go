package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/daemon"
	"github.com/tailban/tailban/internal/term"
)

// tearDownLast removes what the daemon that ran last had and the configuration,
// whose actions these are, has not. What another daemon has by now stays.
func tearDownLast(ctx context.Context, p *Process, stateDir string, list []config.Action, runs *actions.IptablesRuns) error {
	u, err := config.LoadPlaces(stateDir)
	if err != nil {
		fmt.Fprintln(p.Err, "warning: what an earlier configuration had is not known:", term.Escape(err.Error()))
		return nil
	}
	for _, err := range u.Bad {
		fmt.Fprintln(p.Err, "warning: what an earlier configuration had somewhere stays, as no configuration can have it:", term.Escape(err.Error()))
	}
	used, err := daemon.InUse(stateDir)
	if err != nil {
		fmt.Fprintln(p.Err, "warning: whether a daemon runs can't be told:", err)
	}
	var errs []error
	left := []config.UsedPlace{}
	for i := range u.Places {
		a := &u.Places[i].Action
		gone := false
		switch {
		case !onlyKnownHere(&u.Places[i]) && slices.ContainsFunc(list, func(x config.Action) bool { return x.SamePlace(a) }):
		case a.Type == config.TypeCommand && (used || err != nil):
			fmt.Fprintf(p.Err, "warning: bans of action %s stay: the daemon with its state in %s runs, and may use it; stop it first\n", a.Name, stateDir)
		case a.Type == config.TypeCommand:
			var failed error
			gone, failed = unbanLast(ctx, p, &u.Places[i], u)
			errs = append(errs, failed)
		case a.Type == config.TypeCloudflare && (used || err != nil || u.Foreign != nil):
			fmt.Fprintf(p.Err, "warning: %s stay, which an earlier configuration had: a daemon runs that may use them, or somebody else could have named where the token goes\n", term.Escape(a.Place()))
		case a.Type == config.TypeCloudflare:
			failed := clearEdge(ctx, p, a)
			gone = failed == nil
			errs = append(errs, failed)
		default:
			var failed error
			gone, failed = tearDownPlace(ctx, p, a, list, runs, u.Foreign != nil)
			errs = append(errs, failed)
		}
		if !gone {
			left = append(left, u.Places[i])
		}
	}
	if !used && err == nil && u.Foreign == nil && len(left) < len(u.Places) {
		if err := config.SavePlaces(stateDir, left); err != nil {
			fmt.Fprintln(p.Err, "warning:", err)
		}
	}
	return errors.Join(errs...)
}

// onlyKnownHere reports whether bans are known to be in a place that no program lists:
// whoever clears the same place by the configuration doesn't know of them.
func onlyKnownHere(place *config.UsedPlace) bool {
	return place.Action.Type == config.TypeCommand && len(place.Action.Command.List) == 0 && len(place.Targets) > 0
}

// tearDownPlace removes what one action has in the kernel, and none of others. What
// somebody else could have named, as foreign says, stays if it is not as we make it. It
// reports whether nothing is left.
func tearDownPlace(ctx context.Context, p *Process, a *config.Action, others []config.Action, runs *actions.IptablesRuns, foreign bool) (gone bool, err error) {
	place, err := daemon.KernelPlaceOf(a, others, runs, foreign)
	if err != nil {
		return false, err
	}
	lock, err := place.Lock()
	if err != nil {
		fmt.Fprintf(p.Err, "warning: %s, which an earlier configuration had, stays: %v\n", a.Place(), err)
		return false, nil
	}
	existed, err := place.Teardown(ctx)
	if errors.Is(err, actions.ErrNotOurs) {
		fmt.Fprintf(p.Err, "warning: %s stays, as somebody else than root could have named it: %s\n", a.Place(), term.Escape(err.Error()))
		return false, lock.Close()
	}
	if existed && err == nil {
		fmt.Fprintln(p.Out, a.Place(), "removed, which an earlier configuration had")
	}
	return err == nil, errors.Join(err, lock.Close())
}

// unbanLast has the programs of an earlier configuration take out what they list,
// or could not take out before. Root runs nothing that somebody else could have
// named. It reports whether nothing is left that could be done.
func unbanLast(ctx context.Context, p *Process, place *config.UsedPlace, u *config.UsedPlaces) (gone bool, err error) {
	a := &place.Action
	if u.Foreign != nil {
		sayLeft(p, place, u)
		return false, nil
	}
	if len(a.Command.List) == 0 && len(place.Targets) == 0 {
		return false, unbanAll(ctx, p, a)
	}
	err = takeOut(ctx, p, a, place.Targets)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(p.Err, "warning: bans of action %s, which an earlier configuration had, may be left%s: its programs are gone (%v)\n", a.Name, known(place), err)
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("action %s: %w", a.Name, err)
	}
	return true, nil
}

// shownTargets is how many bans are named that are left.
const shownTargets = 10

// sayLeft says what bans of programs are left that are not run. The texts may be
// anybody's.
func sayLeft(p *Process, place *config.UsedPlace, u *config.UsedPlaces) {
	a := &place.Action
	fmt.Fprintf(p.Err, "warning: bans of action %s, which an earlier configuration had, may be left%s; its programs are not run, as somebody else could have named them: %s; run teardown as the user of the daemon, or take the bans out by what you know to be in their place (%s says %q)\n",
		term.Escape(a.Name), known(place), term.Escape(u.Foreign.Error()), term.Escape(u.Path), a.Command.Unban)
}

// known names bans that are known to be in a place.
func known(place *config.UsedPlace) string {
	n := len(place.Targets)
	if n == 0 {
		return ""
	}
	var names []string
	for _, t := range place.Targets[:min(n, shownTargets)] {
		names = append(names, t.String())
	}
	if n > shownTargets {
		names = append(names, "…")
	}
	return fmt.Sprintf(" (known are %d: %s)", n, strings.Join(names, ", "))
}
