package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/daemon"
)

func newTeardown(a *connection) *cobra.Command {
	p, path := a.p, a.config
	var table string
	c := &cobra.Command{
		Use:   "teardown",
		Short: "Remove all bans from the kernel, with our tables, chains and sets",
		Long: `Delete what the actions of the configuration have in the kernel, with all bans
in it: nftables tables, iptables chains and IP sets; nothing else is touched. The
programs of an action take out what they list, and this host's items are removed
from lists at Cloudflare. So goes what the daemon that ran last had by another
configuration, unless another daemon has it by now. If there is no configuration
in the usual place, or one with problems, that is the table "tailban", and where
iptables is installed the chain "TAILBAN" and its sets. No daemon is needed; one
that runs would make them again or, with protect_table, not let go: stop it
first.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list := []config.Action{{Type: config.TypeNftables, Table: table}}
			ifThere := false
			if !c.Flags().Changed("table") {
				var err error
				if list, ifThere, err = configuredPlaces(p, *path, c.Flags().Changed("config")); err != nil {
					return err
				}
			}
			var errs []error
			var runs actions.IptablesRuns
			if !c.Flags().Changed("table") {
				if err := tearDownLast(c.Context(), p, config.StateDir(*path, p.Env), list, &runs); err != nil {
					errs = append(errs, err)
				}
			}
			for i := range list {
				if err := tearDown(c.Context(), a, &list[i], ifThere, &runs); err != nil {
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().StringVar(&table, "table", actions.DefaultTable, "remove this nftables `table` instead of what is configured")
	return c
}

// configuredPlaces lists the actions that have something in the kernel. A
// configuration that nobody asked for need not be there, or be right: a teardown
// must always be possible. ifThere is then true: it is not known what is used.
func configuredPlaces(p *Process, path string, asked bool) (list []config.Action, ifThere bool, err error) {
	usual := []config.Action{
		{Type: config.TypeNftables, Table: config.DefaultTable},
		{Type: config.TypeIptables, Chain: config.DefaultChain, Sets: config.DefaultSets},
	}
	cfg, err := config.Load(path, p.Env)
	if err != nil {
		if asked {
			return nil, false, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(p.Err, "warning: %s can't be used, so only what has its usual name is removed: see tailban check\n", path)
		}
		return usual, true, nil
	}
	for _, a := range cfg.Actions {
		if a.Place() != "" {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return usual[:1], false, nil
	}
	return list, false, nil
}

// tearDown removes what one action has. ifThere says that its programs need not
// be.
func tearDown(ctx context.Context, to *connection, a *config.Action, ifThere bool, runs *actions.IptablesRuns) error {
	p := to.p
	var existed bool
	var err error
	switch a.Type {
	case config.TypeNftables:
		warnRunning(p, func() (*actions.TableLock, error) { return actions.LockTable(a.Table) })
		existed, err = actions.Teardown(ctx, actions.NftablesOptions{Table: a.Table})
	case config.TypeIptables:
		o := daemon.IptablesOptions(a)
		o.Runs = runs
		if !ifThere {
			warnRunning(p, func() (*actions.TableLock, error) { return actions.LockIptables(o) })
		}
		existed, err = actions.TeardownIptables(ctx, o)
		if ifThere && (errors.Is(err, exec.ErrNotFound) || err == nil && !existed) {
			return nil // nobody has said that there is anything
		}
	case config.TypeCommand:
		warnUsed(ctx, to, a)
		return unbanAll(ctx, p, a)
	case config.TypeCloudflare:
		warnUsed(ctx, to, a)
		return clearEdge(ctx, p, a)
	}
	switch {
	case err != nil:
		return err
	case existed:
		fmt.Fprintln(p.Out, a.Place(), "removed")
	default:
		fmt.Fprintln(p.Out, "there is no", a.Place())
	}
	return nil
}

// unbanAll has the programs of an action take out what they list.
func unbanAll(ctx context.Context, p *Process, a *config.Action) error {
	if len(a.Command.List) == 0 {
		fmt.Fprintf(p.Err, "warning: what action %s holds is not known, as it has no list: take its bans out by hand, if they don't end by themselves\n", a.Name)
		return nil
	}
	if err := takeOut(ctx, p, a, nil); err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	return nil
}

// takeOut has the programs of an action take out what they list or, without list,
// what is known to be there.
func takeOut(ctx context.Context, p *Process, a *config.Action, known []netip.Prefix) error {
	c, err := actions.NewCommand(daemon.CommandOptions(a))
	if err != nil {
		return err
	}
	if len(a.Command.List) == 0 {
		c.Remember(known)
	}
	n, err := actions.UnbanAll(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Out, "%s of action %s taken out\n", plural(n, "ban"), a.Name)
	return nil
}

// warnRunning says so if a daemon that runs will make again what is removed.
func warnRunning(p *Process, lock func() (*actions.TableLock, error)) {
	l, err := lock()
	if err != nil {
		fmt.Fprintf(p.Err, "warning: the daemon runs and will make this again; stop it first (%v)\n", err)
		return
	}
	if w := l.Warning(); w != "" {
		fmt.Fprintln(p.Err, "warning:", w)
	}
	if err := l.Close(); err != nil {
		fmt.Fprintln(p.Err, "warning:", err)
	}
}

// usedPatience is how long a daemon may take to tell whether it uses an action.
const usedPatience = 5 * time.Second

// warnUsed is warnRunning for programs, which nothing locks: the daemon is asked
// whether it uses the action.
func warnUsed(ctx context.Context, to *connection, a *config.Action) {
	ctx, cancel := context.WithTimeout(ctx, usedPatience)
	defer cancel()
	st, err := to.client().Status(ctx)
	var said *control.Error
	switch {
	case errors.As(err, &said) && said.Code == control.CodeUnreachable:
	case err != nil: // there is one, and it hangs, or is not for us to ask
		fmt.Fprintf(to.p.Err, "warning: a daemon seems to run, and may ban again what is taken out of action %s; stop it first (%v)\n", a.Name, err)
	case slices.ContainsFunc(st.Actions, func(x control.ActionStatus) bool { return x.Name == a.Name }):
		fmt.Fprintf(to.p.Err, "warning: the daemon runs and will ban again what is taken out of action %s; stop it first (process %d)\n", a.Name, st.PID)
	}
}
